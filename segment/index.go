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

// part is a complete, unchanging run of entries.
type part struct {
	entries  []entry
	maxTime  int64 // of all records it covers
	sealedAt int64 // when its segment was sealed, ms; 0: not known
}

// index is the sparse index of a segment, for offsets and for time. An index only grows: sealing and truncating put
// another in its place, so that a look-up sees the one or the other whole.
//
// The live part covers what this process has appended and is written by the appender alone. The head covers what was
// there before; it can't change any more, so it is loaded or rebuilt when a look-up first needs it.
type index struct {
	from   int64 // position where the live part begins
	whole  bool  // the head is all there is and ever will be: its file is worth writing
	mu     sync.Mutex
	head   atomic.Pointer[part] // built under mu
	live   liveEntries
	latest atomic.Int64 // largest timestamp of what live covers
	next   int64        // position from which on the next batch gets an entry; the appender's
}

// newIndex returns the index of a segment of whose batches the first from bytes are there.
func newIndex(from int64) *index {
	x := &index{from: from, next: from}
	x.latest.Store(noTime)
	if from == 0 {
		x.head.Store(&part{maxTime: noTime})
	}
	return x
}

// add notes an appended batch.
func (x *index) add(offset, pos, maxTime int64) {
	before := x.latest.Load()
	if pos >= x.next {
		x.live.append(entry{uint32(offset), uint32(pos), before})
		x.next = pos + indexInterval
	}
	if maxTime > before {
		x.latest.Store(maxTime)
	}
}

// liveEntries is a slice with one appender and any number of readers: an entry is stored before the count that covers
// it, and a longer array has the entries of the one before.
type liveEntries struct {
	n     atomic.Int64
	array atomic.Pointer[[]entry]
}

func (l *liveEntries) append(e entry) {
	n := int(l.n.Load())
	array := l.array.Load()
	if array == nil || n == len(*array) {
		longer := make([]entry, max(16, 2*n))
		if array != nil {
			copy(longer, *array)
		}
		array = &longer
		l.array.Store(array)
	}
	(*array)[n] = e
	l.n.Store(int64(n + 1))
}

func (l *liveEntries) load() []entry {
	n := l.n.Load()
	if n == 0 {
		return nil
	}
	return (*l.array.Load())[:n]
}

// byOffset returns the last entry at or before an offset (from the segment's base), or the segment's start.
func byOffset(entries []entry, offset int64) entry {
	n := sort.Search(len(entries), func(i int) bool { return int64(entries[i].offset) > offset })
	if n == 0 {
		return entry{}
	}
	return entries[n-1]
}

// byTime returns the last entry before which every record is older than t.
func byTime(entries []entry, t int64) entry {
	n := sort.Search(len(entries), func(i int) bool { return entries[i].maxTime >= t })
	if n == 0 {
		return entry{}
	}
	return entries[n-1]
}

// Place is where a batch begins.
type Place struct {
	Pos    int64 // byte in the segment
	Offset int64 // base offset of the batch
}

func (s *Segment) place(e entry) Place {
	return Place{Pos: int64(e.pos), Offset: s.base + int64(e.offset)}
}

// Lookup returns a batch at or before the one that holds offset: a place to begin a walk.
func (s *Segment) Lookup(offset int64) (Place, error) {
	x := s.index.Load()
	delta := offset - s.base
	if live := x.live.load(); len(live) > 0 && int64(live[0].offset) <= delta {
		return s.place(byOffset(live, delta)), nil
	}
	head, err := s.headOf(x)
	if err != nil {
		return Place{}, err
	}
	return s.place(byOffset(head.entries, delta)), nil
}

// LookupTime returns a batch before which every record is older than t (ms since 1970), or ok false when the whole
// segment is.
func (s *Segment) LookupTime(t int64) (at Place, ok bool, err error) {
	x := s.index.Load()
	head, err := s.headOf(x)
	if err != nil {
		return Place{}, false, err
	}
	if head.maxTime >= t && len(head.entries) > 0 {
		return s.place(byTime(head.entries, t)), true, nil
	}
	latest := x.latest.Load() // before the entries: what it is the time of has one at or before it
	live := x.live.load()
	if latest < t || len(live) == 0 {
		return Place{}, false, nil
	}
	return s.place(byTime(live, t)), true, nil
}

// MaxTime returns the largest timestamp in the segment in ms since 1970, math.MinInt64 when it is empty.
func (s *Segment) MaxTime() (int64, error) {
	x := s.index.Load()
	head, err := s.headOf(x)
	if err != nil {
		return 0, err
	}
	return max(head.maxTime, x.latest.Load()), nil
}

// SealedAt returns when the segment was sealed, in ms since 1970 by the local clock; 0 when that isn't known.
func (s *Segment) SealedAt() (int64, error) {
	head, err := s.headOf(s.index.Load())
	if err != nil {
		return 0, err
	}
	return head.sealedAt, nil
}

// headOf returns the part of an index that covers what was found in the file: from the index file, or from a walk over
// the batches when that is missing, damaged or not of this segment.
func (s *Segment) headOf(x *index) (*part, error) {
	if head := x.head.Load(); head != nil {
		return head, nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if head := x.head.Load(); head != nil {
		return head, nil
	}
	v, err := s.Acquire()
	if err != nil {
		return nil, err
	}
	defer v.Release()
	head, err := s.readIndex(v, x.from)
	if err != nil {
		if head, err = s.buildIndex(v, x.from); err != nil {
			return nil, err
		}
		if x.whole {
			_ = s.storeIndex(v, x.from, head) // derived: who can't store it builds it again next time
		}
	}
	x.head.Store(head)
	return head, nil
}

// all returns the index of everything published, which must be entered in x. It runs while nobody appends.
func (s *Segment) all(x *index) (*part, error) {
	head, err := s.headOf(x)
	if err != nil {
		return nil, err
	}
	live := x.live.load()
	p := &part{maxTime: max(head.maxTime, x.latest.Load())}
	p.entries = append(make([]entry, 0, len(head.entries)+len(live)), head.entries...)
	if n := len(p.entries); n > 0 && len(live) > 0 && int64(live[0].pos)-int64(p.entries[n-1].pos) < indexInterval {
		live = live[1:] // the two parts meet: their entries would come too close to each other there
	}
	for _, e := range live {
		e.maxTime = max(e.maxTime, head.maxTime)
		p.entries = append(p.entries, e)
	}
	return p, nil
}
