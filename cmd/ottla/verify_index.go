package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"

	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/segment"
)

// indexCheck compares an index file with the batches of its segment, as they come.
type indexCheck struct {
	*partitionCheck
	path    string
	index   segment.Index // without entries where the file is missing, damaged or of an earlier state
	there   bool
	next    int   // the entry that is due
	maxTime int64 // of all batches so far
	holes   bool  // times aren't known for certain
	wrong   bool  // reported
}

// openIndex reads the index of a segment. It is derived, so that a missing one is nothing to speak of.
func (p *partitionCheck) openIndex(s log.SegmentFile) (*indexCheck, error) {
	x := &indexCheck{partitionCheck: p, path: indexPath(s.Path), maxTime: math.MinInt64}
	var err error
	lookAgain(func() bool {
		x.index, err = segment.ReadIndex(host, x.path)
		return errors.Is(err, segment.ErrCorrupt)
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, segment.ErrCorrupt):
		x.bad(what(errors.New(strings.TrimPrefix(err.Error(), x.path+": "))))
	case err != nil:
		return nil, err
	case x.index.Base != s.Base:
		x.bad(fmt.Sprintf("index of the segment that begins at offset %d", x.index.Base))
	default:
		p.counts.Indexes++
		x.there = true
	}
	return x, nil
}

// bad reports the first fault. An index is one piece: it is good or made anew.
func (x *indexCheck) bad(what string) {
	if !x.wrong {
		x.damage(finding{File: x.path, What: what, cure: cureMove})
	}
	x.wrong, x.there = true, false
}

// batch compares the entries up to a batch.
func (x *indexCheck) batch(st segment.Stretch) {
	for x.due(st.From.Pos + 1) {
		e := x.index.Entries[x.next]
		switch {
		case e.Place != st.From:
			x.bad(fmt.Sprintf("entry %d isn't where a batch begins", x.next))
		case e.MaxTime != x.maxTime && !x.holes:
			x.bad(fmt.Sprintf("entry %d has the largest timestamp %s, the batches before it say %s", x.next,
				timeOrDash(e.MaxTime, math.MinInt64), timeOrDash(x.maxTime, math.MinInt64)))
		}
		x.next++
	}
	if st.To.Pos <= x.index.End {
		x.maxTime = max(x.maxTime, st.Batch.Header().MaxTimestamp)
	}
}

// skip passes the entries of a damaged range.
func (x *indexCheck) skip(st segment.Stretch) {
	for x.due(st.To.Pos) {
		x.next++
	}
	x.holes = true
}

// due says whether an entry lies before a byte.
func (x *indexCheck) due(pos int64) bool {
	return x.there && x.next < len(x.index.Entries) && x.index.Entries[x.next].Pos < pos
}

// end compares what the index says of the whole. One that covers a part only is of an earlier state, and is made anew when
// it is needed.
func (x *indexCheck) end(found segment.Found) error {
	if !x.there || x.holes || found.Tail != nil {
		return nil
	}
	ok, err := x.index.Of(host, x.folder.Dir)
	if errors.Is(err, fs.ErrNotExist) { // removed by retention meanwhile
		return nil
	}
	if err != nil {
		return err
	}
	switch {
	case x.index.End > found.End.Pos:
		x.bad("covers more than the batches of the segment")
	case !ok:
		x.bad("index of other batches")
	case x.next < len(x.index.Entries):
		x.bad(fmt.Sprintf("entry %d is behind the last batch", x.next))
	case x.index.MaxTime != x.maxTime:
		x.bad(fmt.Sprintf("largest timestamp is %s, the batches say %s", timeOrDash(x.index.MaxTime, math.MinInt64),
			timeOrDash(x.maxTime, math.MinInt64)))
	}
	return nil
}
