package log

import (
	"errors"
	"io"

	"github.com/ottlalog/ottla/record"
	"github.com/ottlalog/ottla/segment"
)

// OffsetForTime returns the earliest offset, from the log start up to bound, whose record has a timestamp of at least t
// (ms since 1970), and that timestamp. Only batches wholly below bound count, and what is damaged doesn't. ok is false
// when there is none. Timestamps need not be in order.
func (l *Log) OffsetForTime(t, bound int64) (offset, timestamp int64, ok bool, err error) {
	if l.stable.Err() != nil {
		return 0, 0, false, ErrClosed
	}
	for _, s := range *l.segments.Load() {
		if s.Base() >= bound {
			break
		}
		rec, err := l.searchTime(s, t, bound)
		switch {
		case err == nil:
			return rec.Offset, rec.Time.UnixMilli(), true, nil
		case err != io.EOF && !errors.Is(err, segment.ErrRemoved):
			return 0, 0, false, err
		}
	}
	return 0, 0, false, nil
}

// searchTime looks in one segment; io.EOF when there is nothing.
func (l *Log) searchTime(s *segment.Segment, t, bound int64) (rec record.Record, err error) {
	at, ok, err := s.LookupTime(t)
	if err != nil {
		return rec, err
	}
	if !ok {
		return rec, io.EOF
	}
	v, err := s.Acquire()
	if err != nil {
		return rec, err
	}
	var c cursor
	defer c.close()
	start := l.start.Load()
	for c.open(v, at); ; {
		batch, err := c.peek()
		if errors.Is(err, ErrCorrupt) {
			d, _, err := c.damage(err)
			if err != nil {
				return rec, err
			}
			c.jump(segment.Place{Pos: d.End, Offset: d.NextOffset})
			continue
		}
		if err != nil {
			return rec, err
		}
		h := batch.Header()
		if h.NextOffset() > bound {
			return rec, io.EOF
		}
		if h.MaxTimestamp >= t && h.NextOffset() > start {
			plain, err := l.Decompress(batch, nil)
			if err != nil {
				return rec, err
			}
			if found, err := firstSince(plain, t, start, &rec); found || err != nil {
				return rec, err
			}
		}
		c.step(h)
	}
}

// firstSince finds a batch's first record from offset start on that is not older than t.
func firstSince(batch record.Batch, t, start int64, rec *record.Record) (bool, error) {
	it := batch.Records()
	for it.Next(rec) {
		if rec.Offset >= start && rec.Time.UnixMilli() >= t {
			return true, nil
		}
	}
	return false, it.Err()
}
