package log

import (
	"io"
	"math"

	"github.com/ottlalog/ottla/record"
	"github.com/ottlalog/ottla/segment"
)

// OffsetForTime returns the earliest offset, from the log start up to bound, whose record has a timestamp of at least t
// (ms since 1970), and that timestamp. ok is false when there is none. Timestamps need not be in order.
func (l *Log) OffsetForTime(t, bound int64) (offset, timestamp int64, ok bool, err error) {
	for _, s := range *l.segments.Load() {
		if s.Base() >= bound {
			break
		}
		pos, may, err := s.LookupTime(t)
		if err != nil {
			return 0, 0, false, err
		}
		if !may {
			continue
		}
		offset, timestamp, ok, err = l.searchTime(s, pos, t, bound)
		if ok || err != nil {
			return offset, timestamp, ok, err
		}
	}
	return 0, 0, false, nil
}

// searchTime walks over one segment from pos.
func (l *Log) searchTime(s *segment.Segment, pos, t, bound int64) (offset, timestamp int64, ok bool, err error) {
	r := Reader{log: l, next: math.MaxInt64} // not known before the first batch
	defer r.Close()
	if r.view, err = s.Acquire(); err != nil {
		return 0, 0, false, err
	}
	r.pos = pos
	start := l.start.Load()
	for {
		batch, err := r.step(bound)
		if err == io.EOF || err == nil && r.view.Segment() != s {
			return 0, 0, false, nil // behind this segment: the index decides where to look next
		}
		if r.damaged != nil {
			if err := r.Skip(); err != nil {
				return 0, 0, false, err
			}
			continue
		}
		if err != nil {
			return 0, 0, false, err
		}
		h := batch.Header()
		r.next = h.NextOffset()
		if h.MaxTimestamp < t || h.NextOffset() <= start {
			continue
		}
		it := batch.Records()
		var rec record.Record
		for it.Next(&rec) {
			if ms := rec.Time.UnixMilli(); ms >= t && rec.Offset >= start {
				return rec.Offset, ms, true, nil
			}
		}
		if err := it.Err(); err != nil {
			return 0, 0, false, err
		}
	}
}
