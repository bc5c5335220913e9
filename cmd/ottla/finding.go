package main

import "fmt"

// finding is something that a verification has met: damage, or a note of what is no damage but worth knowing.
type finding struct {
	Type string `json:"type"`
	*partitionRef
	File  string `json:"file"`
	Start int64  `json:"start"` // the bytes,
	End   int64  `json:"end"`   // none if it isn't above start
	First int64  `json:"firstOffset"`
	Next  int64  `json:"nextOffset"` // the same of the offsets
	What  string `json:"what"`

	cure  cure
	epoch int32 // of the batches before
}

// cure is what a repair can do about damage.
type cure int

const (
	cureNone cure = iota
	cureDrop      // take the bytes out, and let a batch without records have the offsets
	cureMove      // move the file away: it is derived
)

const (
	typeDamage = "damage"
	typeNote   = "note"
)

func (f finding) String() string {
	text := f.File
	if f.End > f.Start {
		text += fmt.Sprintf(": bytes %d to %d", f.Start, f.End-1)
	}
	if f.Next > f.First {
		text += fmt.Sprintf(": offsets %s", span(f.First, f.Next))
	}
	return text + ": " + f.What
}
