package segment

import (
	"math"
	"sort"
	"sync"
	"sync/atomic"
)

// indexInterval is how many bytes of log lie between two entries.
const indexInterval = 4096

// noTime is the largest timestamp of no records.
const noTime = math.MinInt64

// entry marks the start of a batch.
type entry struct {
	offset uint32 // the batch's base offset, from the segment's
	pos    uint32 // its first byte
	// maxTime is the largest timestamp of all records before it in its part of the index: noTime in the first entry.
	maxTime int64
}

// index is the sparse index of a segment, for offsets and for time.
//
// The live part covers what this process has appended and is written by the appender alone: it publishes a longer slice
// after each new entry, and readers see one or the other. The head covers what was there when the segment was opened;
// it can't change any more, so it is loaded or rebuilt when a look-up first needs it.
type index struct {
	live    atomic.Pointer[[]entry]
	liveMax atomic.Int64
	from    int64 // position where the live part begins
	nextPos int64 // position from which on the next batch gets an entry; the appender's

	mu   sync.Mutex // held while the head is built
	head atomic.Pointer[part]
}

// part is a complete, unchanging run of entries.
type part struct {
	entries  []entry
	maxTime  int64 // of all records it covers
	sealedAt int64 // when its segment was sealed, ms; 0: not known
}

func (x *index) init(end int64) {
	x.live.Store(new([]entry))
	x.liveMax.Store(noTime)
	x.from, x.nextPos = end, end
	if end == 0 {
		x.head.Store(&part{maxTime: noTime})
	}
}

// add notes an appended batch.
func (x *index) add(offset, pos, maxTime int64) {
	before := x.liveMax.Load()
	if pos >= x.nextPos {
		longer := append(*x.live.Load(), entry{uint32(offset), uint32(pos), before})
		x.live.Store(&longer)
		x.nextPos = pos + indexInterval
	}
	if maxTime > before {
		x.liveMax.Store(maxTime)
	}
}

// cut forgets what was noted at and beyond pos. It runs while nobody appends.
func (x *index) cut(pos int64) {
	live := *x.live.Load()
	n := sort.Search(len(live), func(i int) bool { return int64(live[i].pos) >= pos })
	if n > 0 {
		n-- // the last kept entry may lead to batches that are gone: the next append adds its own
	}
	shorter := append([]entry(nil), live[:n]...)
	x.live.Store(&shorter)
	x.nextPos = pos
	if pos < x.from {
		x.from = pos
		x.head.Store(nil)
	}
}

// byOffset returns the last entry at or before an offset (from the segment's base), or position 0.
func byOffset(entries []entry, offset int64) int64 {
	n := sort.Search(len(entries), func(i int) bool { return int64(entries[i].offset) > offset })
	if n == 0 {
		return 0
	}
	return int64(entries[n-1].pos)
}

// byTime returns the last entry before which every record is older than t.
func byTime(entries []entry, t int64) int64 {
	n := sort.Search(len(entries), func(i int) bool { return entries[i].maxTime >= t })
	if n == 0 {
		return 0
	}
	return int64(entries[n-1].pos)
}

// Lookup returns the position of a batch at or before the one that holds offset: a place to begin a walk.
func (s *Segment) Lookup(offset int64) (pos int64, err error) {
	delta := offset - s.base
	live := *s.index.live.Load()
	if len(live) > 0 && int64(live[0].offset) <= delta {
		return byOffset(live, delta), nil
	}
	head, err := s.loadHead()
	if err != nil {
		return 0, err
	}
	return byOffset(head.entries, delta), nil
}

// LookupTime returns a position before which every record is older than t (ms since 1970), or ok false when the whole
// segment is.
func (s *Segment) LookupTime(t int64) (pos int64, ok bool, err error) {
	head, err := s.loadHead()
	if err != nil {
		return 0, false, err
	}
	if head.maxTime >= t && len(head.entries) > 0 {
		return byTime(head.entries, t), true, nil
	}
	live := *s.index.live.Load()
	if s.index.liveMax.Load() < t || len(live) == 0 {
		return 0, false, nil
	}
	return byTime(live, t), true, nil
}

// MaxTime returns the largest timestamp in the segment in ms since 1970, math.MinInt64 when it is empty.
func (s *Segment) MaxTime() (int64, error) {
	head, err := s.loadHead()
	if err != nil {
		return 0, err
	}
	return max(head.maxTime, s.index.liveMax.Load()), nil
}

// SealedAt returns when the segment was sealed, in ms since 1970 by the local clock; 0 when that isn't known.
func (s *Segment) SealedAt() (int64, error) {
	head, err := s.loadHead()
	if err != nil {
		return 0, err
	}
	return head.sealedAt, nil
}

// sealed makes the index file the only copy: what the process no longer appends to takes no memory until it is sought in.
func (x *index) sealed(end int64) {
	x.mu.Lock()
	x.from = end
	x.head.Store(nil)
	x.mu.Unlock()
	x.live.Store(new([]entry))
	x.liveMax.Store(noTime)
}

// loadHead returns the part of the index that covers what this process found in the file: from the index file, or from
// a walk over the batches when that is missing, damaged or not of this segment.
func (s *Segment) loadHead() (*part, error) {
	x := &s.index
	if head := x.head.Load(); head != nil {
		return head, nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if head := x.head.Load(); head != nil {
		return head, nil
	}
	head, err := readIndex(s.fs, s.indexPath(), s.base, x.from)
	if err != nil {
		if head, err = s.buildIndex(x.from); err != nil {
			return nil, err
		}
	}
	x.head.Store(head)
	return head, nil
}

// whole returns the index of everything published. It runs while nobody appends.
func (s *Segment) whole() (*part, error) {
	head, err := s.loadHead()
	if err != nil {
		return nil, err
	}
	all := &part{maxTime: max(head.maxTime, s.index.liveMax.Load())}
	all.entries = append(all.entries, head.entries...)
	for _, e := range *s.index.live.Load() {
		e.maxTime = max(e.maxTime, head.maxTime)
		all.entries = append(all.entries, e)
	}
	return all, nil
}
