package partition

import (
	"fmt"
	"time"
)

// Start says where reading begins: Earliest (the zero value), Latest, At an offset or AtTime.
type Start struct {
	kind   startKind
	offset int64
	when   time.Time
}

type startKind int

const (
	startEarliest startKind = iota
	startLatest
	startOffset
	startTime
)

var (
	// Earliest begins with the first record that is held.
	Earliest = Start{kind: startEarliest}
	// Latest begins with the next record to come.
	Latest = Start{kind: startLatest}
)

// At begins with the record at an offset, from the start offset up to and including the high watermark.
func At(offset int64) Start { return Start{kind: startOffset, offset: offset} }

// AtTime begins with the earliest record whose timestamp is at or after when, or with the next to come.
func AtTime(when time.Time) Start { return Start{kind: startTime, when: when} }

func (s Start) String() string {
	switch s.kind {
	case startLatest:
		return "latest"
	case startOffset:
		return fmt.Sprintf("offset %d", s.offset)
	case startTime:
		return "time " + s.when.Format(time.RFC3339Nano)
	}
	return "earliest"
}

// Resolve returns the offset that a start means now.
func (p *Partition) Resolve(s Start) (int64, error) {
	if err := p.ended(); err != nil {
		return 0, err
	}
	switch s.kind {
	case startLatest:
		return p.hw.Load(), nil
	case startOffset:
		return s.offset, nil
	case startTime:
		return p.OffsetForTime(s.when)
	}
	return p.leader.Start(), nil
}
