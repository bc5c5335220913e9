package log

import (
	"errors"
	"fmt"

	"github.com/ottlalog/ottla/segment"
)

// piece is a segment's file, and what a walk over it from the recovery point on has found.
type piece struct {
	path string
	base int64
	segment.Found
}

// verdict is what becomes of a piece.
type verdict struct {
	keep  bool  // it stays a part of the log,
	bytes int64 // with so many of its bytes
	next  int64 // and this offset behind them
	// aside: what doesn't stay is kept in a file beside it. Otherwise it is the rest of unfinished appends.
	aside bool
}

func (v verdict) kept() bool { return v.keep }

// plan is what a recovery is going to do.
type plan struct {
	verdicts []verdict // one for each piece
	end      int64     // the log's end
	damage   []*segment.CorruptionError
}

// known is what the recovery point and the sync policy say about what may be missing.
type known struct {
	point
	ok     bool // there is a usable recovery point; without one nothing is known
	always bool // records that follow a bad place may have been acknowledged
}

// synced says whether an offset was on the disk for certain.
func (k known) synced(offset int64) bool { return k.ok && offset < k.offset }

// mayCut says whether good batches behind a bad place at an offset may be taken off the log: they were never synced, and
// nobody was promised that they would survive.
func (k known) mayCut(offset int64) bool { return k.ok && !k.always && !k.synced(offset) }

var errOverlap = errors.New("segments overlap")

// decide says what becomes of the pieces of a log, which should begin at an offset.
func decide(pieces []piece, begin int64, k known) (plan, error) {
	p := plan{verdicts: make([]verdict, len(pieces)), end: begin}
	lastGood := -1 // behind it no batch is good
	for i := range pieces {
		if pieces[i].Good {
			lastGood = i
		}
	}
	for i := range pieces {
		pc := &pieces[i]
		switch {
		case pc.base < p.end:
			return plan{}, &segment.CorruptionError{Path: pc.path, FirstOffset: pc.base, NextOffset: p.end, Err: errOverlap}
		case pc.base == p.end:
		case i > lastGood && k.ok && !k.synced(p.end): // all unfinished appends
			p.drop(pieces, i, false)
			return p, nil
		case k.mayCut(p.end):
			p.drop(pieces, i, true)
			return p, nil
		default:
			p.damage = append(p.damage, missingBefore(pc.path, p.end, pc.base))
		}
		last := i == len(pieces)-1 || k.ok && i >= lastGood
		if whole := p.judge(pc, i, last, k); !whole {
			p.drop(pieces, i+1, true)
			return p, nil
		}
	}
	p.checkEnd(pieces, k)
	return p, nil
}

// missingBefore describes offsets that should stand before a segment and don't.
func missingBefore(path string, first, base int64) *segment.CorruptionError {
	return &segment.CorruptionError{Path: path, FirstOffset: first, NextOffset: base,
		Err: fmt.Errorf("%w: what should stand before this segment is missing", ErrCorrupt)}
}

// judge decides about what one piece holds. It returns false if the log ends in it although good batches follow.
func (p *plan) judge(pc *piece, i int, last bool, k known) (whole bool) {
	v := &p.verdicts[i]
	v.keep = true
	for _, h := range pc.Holes {
		if k.mayCut(h.Start.Offset) {
			*v = verdict{keep: true, bytes: h.Start.Pos, next: h.Start.Offset, aside: true}
			p.end = v.next
			return false
		}
		p.damage = append(p.damage, &segment.CorruptionError{Path: pc.path, Start: h.Start.Pos, End: h.End.Pos,
			FirstOffset: h.Start.Offset, NextOffset: h.End.Offset, Err: h.Err})
	}
	v.bytes, v.next = pc.End.Pos, pc.End.Offset
	switch {
	case pc.Tail == nil:
	case k.synced(v.next) || !last && !k.mayCut(v.next): // a part of damage, which stays where it is
		v.bytes = pc.Size
	default:
		v.aside = !k.ok
	}
	p.end = v.next
	return true
}

// drop ends the log before piece i.
func (p *plan) drop(pieces []piece, i int, aside bool) {
	for ; i < len(pieces); i++ {
		p.verdicts[i] = verdict{aside: aside && pieces[i].TailEnd > 0}
	}
}

// checkEnd keeps the offsets of records that were synced and are gone from being given out again.
func (p *plan) checkEnd(pieces []piece, k known) {
	if !k.synced(p.end) {
		return
	}
	last := &pieces[len(pieces)-1]
	d := &segment.CorruptionError{Path: last.path, Start: last.End.Pos, End: last.End.Pos,
		FirstOffset: p.end, NextOffset: k.offset, Err: fmt.Errorf("%w: synced batches are missing at the end", ErrCorrupt)}
	if last.base == k.base && k.pos != unplaced {
		d.End = max(d.Start, k.pos)
	}
	p.damage = append(p.damage, d)
	p.end = k.offset
}
