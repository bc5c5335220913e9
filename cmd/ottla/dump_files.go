package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"github.com/ottlalog/ottla/internal/directory"
	"github.com/ottlalog/ottla/internal/journal"
	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/segment"
)

type indexJSON struct {
	Type     string  `json:"type"` // index
	File     string  `json:"file"`
	Base     int64   `json:"base"`
	Covers   int64   `json:"covers"` // bytes of batches
	MaxTime  *string `json:"maxTime"`
	SealedAt *string `json:"sealedAt"`
	Entries  int     `json:"entries"`
}

type indexEntryJSON struct {
	Type    string  `json:"type"` // indexEntry
	Offset  int64   `json:"offset"`
	Pos     int64   `json:"pos"`
	MaxTime *string `json:"maxTimeBefore"`
}

// index prints an index file.
func (d *dumper) index(path string) error {
	x, err := segment.ReadIndex(host, path)
	if err != nil {
		return err
	}
	if d.json {
		err = d.out.object(indexJSON{"index", path, x.Base, x.End, timeOrNull(x.MaxTime, math.MinInt64),
			timeOrNull(x.SealedAt, 0), len(x.Entries)})
	} else {
		err = d.out.printf("%s  covers %d bytes from offset %d, times up to %s, sealed %s\n%12s  %-12s %s\n", filepath.Base(path),
			x.End, x.Base, timeOrDash(x.MaxTime, math.MinInt64), timeOrDash(x.SealedAt, 0), "BYTE", "OFFSET", "TIMES BEFORE UP TO")
	}
	for _, e := range x.Entries {
		if err != nil {
			return err
		}
		if e.Offset < d.from {
			continue
		}
		if d.json {
			err = d.out.object(indexEntryJSON{"indexEntry", e.Offset, e.Pos, timeOrNull(e.MaxTime, math.MinInt64)})
		} else {
			err = d.out.printf("%12d  %-12d %s\n", e.Pos, e.Offset, timeOrDash(e.MaxTime, math.MinInt64))
		}
		if err == nil && d.count() != nil {
			return nil
		}
	}
	return err
}

// timeOrNull is a timestamp in ms, nil if it is the one that stands for none.
func timeOrNull(ms, none int64) *string {
	if ms == none {
		return nil
	}
	s := timeText(ms)
	return &s
}

func timeOrDash(ms, none int64) string {
	if ms == none {
		return "-"
	}
	return timeText(ms)
}

type slotJSON struct {
	Type    string `json:"type"` // slot
	File    string `json:"file"`
	Pos     int64  `json:"pos"`
	InForce bool   `json:"inForce"`
	Seq     uint64 `json:"seq"`
	Start   int64  `json:"start"`
	Offset  int64  `json:"offset"`
	Base    int64  `json:"base"`
	Byte    int64  `json:"byte"`
	Cutting bool   `json:"cutting,omitempty"`
	Error   string `json:"error,omitempty"`
}

// point prints a file recovery-point.
func (d *dumper) point(p log.PointFile) error {
	inForce, ok := p.InForce()
	if !ok {
		d.damaged = true
	}
	for _, s := range p.Slots {
		counts := ok && s.Err == nil && s.Point == inForce
		if err := d.slot(s, counts); err != nil {
			return err
		}
		d.damaged = d.damaged || s.Err != nil && !s.Blank
	}
	return nil
}

func (d *dumper) slot(s log.PointSlot, inForce bool) error {
	p := s.Point
	if d.json {
		j := slotJSON{"slot", d.path, s.Pos, inForce, s.Seq, p.Start, p.Offset, p.Base, p.Pos, p.Cutting, ""}
		if s.Err != nil {
			j.Error = s.Err.Error()
		}
		return d.out.object(j)
	}
	if s.Err != nil {
		return d.out.printf("slot at byte %d: %v\n", s.Pos, s.Err)
	}
	text := fmt.Sprintf("slot at byte %d: number %d, log start %d, on disk below offset %d (%s)", s.Pos, s.Seq, p.Start, p.Offset,
		placeOf(p))
	if p.Cutting {
		text += ", a truncation has begun"
	}
	if inForce {
		text += ", in force"
	}
	return d.out.printf("%s\n", text)
}

// meta prints which directory a folder is.
func (d *dumper) meta(path string) error {
	m, err := directory.ReadMeta(host, filepath.Dir(path))
	if err != nil {
		return err
	}
	if d.json {
		return d.out.object(struct {
			Type string `json:"type"`
			directory.Meta
		}{"meta", m})
	}
	return d.out.printf("format %d, broker %s, directory %s\n", m.Format, m.Broker, m.Directory)
}

type frameJSON struct {
	Type   string          `json:"type"` // frame
	Pos    int64           `json:"pos"`
	Kind   string          `json:"kind"`
	Seq    uint64          `json:"seq"`
	Synced int64           `json:"synced"`
	Events []journal.Event `json:"events,omitempty"`
}

type journalJSON struct {
	Type      string `json:"type"` // journalEnd
	File      string `json:"file"`
	Frames    int    `json:"frames"`
	Seq       uint64 `json:"seq"`
	TornPos   int64  `json:"tornPos,omitempty"`
	TornBytes int64  `json:"tornBytes,omitempty"`
	Error     string `json:"error,omitempty"`
}

// journal prints the frames of the generation in force of a directory's journal.
func (d *dumper) journal(dir string) error {
	entries, report, damage := scanJournal(dir)
	if damage != nil && !errors.Is(damage, journal.ErrCorrupt) {
		return damage
	}
	d.damaged = damage != nil
	if !d.json {
		if err := d.out.printf("%s\n%10s  %-12s %8s %10s\n", report.File, "BYTE", "KIND", "CALL", "SYNCED"); err != nil {
			return err
		}
	}
	for i, e := range entries {
		if i == d.limit {
			return nil
		}
		if err := d.frame(e); err != nil {
			return err
		}
	}
	return d.journalEnd(report, damage)
}

func (d *dumper) journalEnd(report journal.Report, damage error) error {
	if d.json {
		j := journalJSON{"journalEnd", report.File, report.Entries, report.Seq, report.CutPos, report.CutBytes, ""}
		if damage != nil {
			j.Error = damage.Error()
		}
		return d.out.object(j)
	}
	if damage != nil {
		return d.out.printf("%10d  DAMAGED: %v\n", report.CutPos, damage)
	}
	if report.CutBytes > 0 {
		return d.out.printf("%10d  torn tail of %d bytes, with %d whole frames in it\n", report.CutPos, report.CutBytes, report.CutFrames)
	}
	return nil
}

func (d *dumper) frame(e journal.Entry) error {
	if d.json {
		return d.out.object(frameJSON{"frame", e.Pos, e.Kind.String(), e.Seq, e.Synced, e.Events})
	}
	if err := d.out.printf("%10d  %-12v %8d %10d\n", e.Pos, e.Kind, e.Seq, e.Synced); err != nil {
		return err
	}
	for _, ev := range e.Events {
		text, err := json.Marshal(ev)
		if err != nil {
			return err
		}
		if err := d.out.printf("%12s%s\n", "", text); err != nil {
			return err
		}
	}
	return nil
}
