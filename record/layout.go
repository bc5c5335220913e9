package record

import (
	"fmt"
	"math"
)

// Layout is the plan of a batch: all that must be known before its first byte is stored. Plan makes it, Compress makes it
// smaller where that is wanted, and Put follows it.
type Layout struct {
	Size            int   // bytes of the whole batch
	Count           int32 // records
	LastOffsetDelta int32
	BaseTimestamp   int64 // of the first record, ms
	MaxTimestamp    int64 // of the latest record, ms
	LargestRecord   int   // index of the largest record, -1 if there is none
	LargestSize     int   // its bytes, its length field included

	now        int64
	baseOffset int64
	keep       bool // offsets and times are the records' own, not given anew

	codec  Codec // not CodecNone: Compress has
	packed []byte
}

// Plan lays out a batch of new records, which take consecutive offsets from wherever the batch is put. A record
// without a time gets now, in milliseconds. It reads recs only.
func Plan(recs []Record, now int64) (l Layout, err error) {
	if len(recs) == 0 {
		return l, ErrEmpty
	}
	l.now = now
	l.BaseTimestamp = l.millis(&recs[0])
	l.MaxTimestamp = l.BaseTimestamp
	l.LastOffsetDelta = int32(min(len(recs), MaxBatchSize) - 1) // more would be refused for their size
	err = l.measure(recs)
	return l, err
}

// Replan lays out what remains of an old batch when only recs of its records are kept, each with its offset and its
// time as they are; none may remain. What readers and producers rely on stays: base and last offset, sequence range,
// and the base timestamp of h, which the caller may have changed to set a delete horizon. The layout must be put with
// h's base offset.
func Replan(h BatchHeader, recs []Record) (l Layout, err error) {
	prev := h.BaseOffset - 1
	for i := range recs {
		if o := recs[i].Offset; o <= prev || o > h.LastOffset() {
			return l, fmt.Errorf("record %d: %w: %d", i, ErrOffset, o)
		}
		prev = recs[i].Offset
	}
	l.keep = true
	l.baseOffset = h.BaseOffset
	l.LastOffsetDelta = h.LastOffsetDelta
	l.BaseTimestamp = h.BaseTimestamp
	l.MaxTimestamp = h.MaxTimestamp
	if len(recs) > 0 {
		l.MaxTimestamp = recs[0].Time.UnixMilli()
	}
	err = l.measure(recs)
	return l, err
}

// measure finds the sizes and the latest time.
func (l *Layout) measure(recs []Record) error {
	size, largest, at := int64(HeaderSize), int64(0), -1
	latest := l.MaxTimestamp
	for i := range recs {
		r := &recs[i]
		if !representable(r.Time) {
			return fmt.Errorf("record %d: %w: %v", i, ErrTime, r.Time)
		}
		ms := l.millis(r)
		latest = max(latest, ms)

		n := bodySize(r, ms-l.BaseTimestamp, l.offsetDelta(i, r))
		n += int64(varintSize(n))
		size += n
		if n > MaxBatchSize || size > MaxBatchSize {
			return fmt.Errorf("record %d: %w", i, ErrTooLarge)
		}
		if n > largest {
			at, largest = i, n
		}
	}
	l.Size = int(size)
	l.Count = int32(len(recs))
	l.MaxTimestamp = latest
	l.LargestRecord, l.LargestSize = at, int(largest)
	return nil
}

// millis is the timestamp of r, whose time is known to be representable.
func (l *Layout) millis(r *Record) int64 {
	if r.Time.IsZero() && !l.keep {
		return l.now
	}
	return r.Time.UnixMilli()
}

func (l *Layout) offsetDelta(i int, r *Record) int64 {
	if l.keep {
		return r.Offset - l.baseOffset
	}
	return int64(i)
}

// bodySize is the size of a record after its length field. A time delta may have wrapped around: it is added with the
// same wrap-around when read.
func bodySize(r *Record, timeDelta, offsetDelta int64) int64 {
	n := 1 + varintSize(timeDelta) + varintSize(offsetDelta) + varintSize(int64(len(r.Headers)))
	size := int64(n) + bytesSize(r.Key) + bytesSize(r.Value)
	for i := range r.Headers {
		h := &r.Headers[i]
		k := int64(len(h.Key))
		size += int64(varintSize(k)) + k + bytesSize(h.Value)
		if size > math.MaxInt32 {
			break // too large already; the sum must not overflow
		}
	}
	return size
}

func bytesSize(b []byte) int64 {
	if b == nil {
		return 1
	}
	n := int64(len(b))
	return int64(varintSize(n)) + n
}
