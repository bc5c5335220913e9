package log

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/ottlalog/ottla/record"
	"github.com/ottlalog/ottla/segment"
)

// Appended says where a batch was stored.
type Appended struct {
	Base int64 // offset of the first record
	Next int64 // offset after the last
	// Time is the timestamp, in ms since 1970, that records without one got, or with LogAppendTime all of them.
	Time          int64
	LogAppendTime bool
}

// Timestamp returns the timestamp, in ms since 1970, that a record of the batch was stored with.
func (a Appended) Timestamp(r *record.Record) int64 {
	if a.LogAppendTime {
		return a.Time
	}
	return record.Millis(r.Time, a.Time)
}

// Append stores the records as one batch at the end of the log and returns where. The epoch, the producer's fields and the
// codec are taken from h, its offsets are not. The records are copied. Under SyncAlways they are on the disk only after
// Sync. A batch that the codec doesn't make smaller, or that is larger than may be decompressed, is stored as it is.
//
// ErrRecordTooLarge, ErrNoSpace, ErrTimestamp and errors that match record.ErrTime and the like leave the log as it was. After any
// other error it takes no more appends: see ErrFailed.
func (l *Log) Append(h record.BatchHeader, recs []record.Record) (Appended, error) {
	now := l.appendTime(recs)
	layout, err := record.Plan(recs, now)
	if err != nil {
		return Appended{}, err
	}
	if err := l.checkSizes(&layout, recs); err != nil {
		return Appended{}, err
	}
	if err := l.cfg.CheckTimes(now, recs...); err != nil {
		return Appended{}, err
	}
	if c := h.Attributes.Codec(); c != record.CodecNone && layout.Size <= l.cfg.decompressed() {
		p := packs.Get().(*pack)
		defer p.release()
		p.b = layout.Compress(p.b[:0], c, recs) // before the lock is taken
	}
	base, err := l.assign(&h, &layout, recs)
	if err != nil {
		return Appended{}, err
	}
	if l.cfg.LogAppendTime {
		now = h.MaxTimestamp
	}
	return Appended{Base: base, Next: base + int64(len(recs)), Time: now, LogAppendTime: l.cfg.LogAppendTime}, nil
}

// pack is where compressed records are until they are stored.
type pack struct{ b []byte }

var packs = sync.Pool{New: func() any { return new(pack) }}

// maxPack is the most that a pack keeps for the next batch.
const maxPack = 4 << 20

func (p *pack) release() {
	if cap(p.b) > maxPack {
		p.b = nil
	}
	packs.Put(p)
}

// assign stores the batch at the log's end and returns its first offset.
func (l *Log) assign(h *record.BatchHeader, layout *record.Layout, recs []record.Record) (base int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock() // also when record panics because someone changes the records meanwhile
	if err := l.errLocked(); err != nil {
		return 0, err
	}
	base = l.end.Load()
	h.BaseOffset = base
	if l.cfg.LogAppendTime { // read under the lock: in the order of the offsets
		h.Attributes |= record.FlagLogAppendTime
		h.MaxTimestamp = time.Now().UnixMilli()
	}
	if err := l.storeLocked(h, layout, recs); err != nil {
		return 0, l.failUnlessRetryableLocked(err)
	}
	next := base + int64(len(recs))
	l.end.Store(next)
	if !l.cfg.Sync.Always() {
		l.stable.Advance(next) // under the lock, so that a truncation comes before or after it as a whole
	}
	return base, nil
}

// checkSizes refuses what can't be stored before anything is.
func (l *Log) checkSizes(layout *record.Layout, recs []record.Record) error {
	if layout.LargestSize > l.cfg.MaxRecordBytes { // the encoded size: an upper bound of the content's
		for i := range recs {
			if n := ContentBytes(&recs[i]); n > l.cfg.MaxRecordBytes {
				return fmt.Errorf("%w: record %d of %d has %d bytes of at most %d",
					ErrRecordTooLarge, i, len(recs), n, l.cfg.MaxRecordBytes)
			}
		}
	}
	if layout.Size > MaxBatchBytes {
		return fmt.Errorf("%w: the batch of %d records has %d bytes of at most %d",
			ErrRecordTooLarge, len(recs), layout.Size, MaxBatchBytes)
	}
	return nil
}

// ContentBytes is the size that Config.MaxRecordBytes limits: key, value and headers.
func ContentBytes(r *record.Record) int {
	n := len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return n
}

// storeLocked puts the batch into the active segment, or into a new one where it doesn't fit.
func (l *Log) storeLocked(h *record.BatchHeader, layout *record.Layout, recs []record.Record) error {
	if l.mu.active == nil {
		if err := l.activateLocked(int64(layout.Size)); err != nil {
			return err
		}
	}
	if h.BaseOffset+int64(len(recs))-l.mu.active.Base() < maxOffsets {
		err := l.mu.active.Append(h, layout, recs)
		if !errors.Is(err, segment.ErrFull) {
			return err
		}
	}
	if err := l.rollLocked(int64(layout.Size)); err != nil {
		return err
	}
	return l.mu.active.Append(h, layout, recs)
}

// maxOffsets is how many offsets a segment spans at most: its index and its batches have 32-bit offsets.
const maxOffsets = 1 << 31

// activateLocked readies the last segment for appends, or makes the first one.
func (l *Log) activateLocked(size int64) error {
	segs := *l.segments.Load()
	if len(segs) == 0 {
		if err := l.beginLocked(); err != nil {
			return err
		}
		return l.rollLocked(size)
	}
	last := segs[len(segs)-1]
	whole := last.Size() < l.cfg.SegmentBytes && last.Next() == l.end.Load()
	if whole && l.mu.unread {
		var err error
		if whole, err = endsWhole(last); err != nil {
			return err
		}
	}
	if !whole {
		return l.rollLocked(size)
	}
	active, err := segment.OpenActive(l.fs, l.dir, last.Base(), last.Size(), last.Next(), l.options(size))
	if err != nil {
		return err
	}
	l.mu.active = active
	l.mu.rolledAt = time.Now()
	l.setSegmentsLocked(append(segs[:len(segs)-1:len(segs)-1], active))
	return nil
}

// endsWhole says whether the last batches of a segment are good, up to its end. Behind damage nothing is appended: the
// offset of a batch is believed because it follows from the one before.
func endsWhole(s *segment.Segment) (bool, error) {
	if s.Size() == 0 {
		return true, nil
	}
	at, err := s.Lookup(s.Next() - 1)
	if err != nil {
		return false, err
	}
	v, err := s.Acquire()
	if err != nil {
		return false, err
	}
	var c cursor
	defer c.close()
	c.open(v, at)
	for err == nil {
		batch, e := c.peek()
		if e == nil {
			c.step(batch.Header())
		}
		err = e
	}
	if err != io.EOF && !errors.Is(err, ErrCorrupt) {
		return false, err
	}
	return c.at == segment.Place{Pos: s.Size(), Offset: s.Next()}, nil
}

// beginLocked stores the first recovery point before the first segment exists, so that a segment without one has lost it.
// Nobody who holds the turn looks at the point as long as there is no segment.
func (l *Log) beginLocked() error {
	if l.point.ok {
		return nil
	}
	if err := segment.CheckFree(l.fs, l.dir, l.cfg.MinFree); err != nil {
		return err
	}
	if err := l.point.store(point{}); err != nil {
		return err
	}
	return l.fs.SyncDir(l.dir)
}

func (l *Log) options(size int64) segment.Options {
	return segment.Options{Capacity: max(l.cfg.SegmentBytes, size), MinFree: l.cfg.MinFree, SmallPages: l.cfg.Sync.Always()}
}

// rollLocked begins a new segment at the log's end. The one before is sealed at the next sync: sealing waits for the
// disk, and appends don't.
func (l *Log) rollLocked(size int64) error {
	if err := segment.CheckFree(l.fs, l.dir, l.cfg.MinFree); err != nil {
		return err
	}
	segs := *l.segments.Load()
	if n := len(segs); n > 0 && segs[n-1].Base() == l.end.Load() {
		return l.replaceEmptyLocked(segs[n-1], size)
	}
	next, err := segment.Create(l.fs, l.dir, l.end.Load(), l.options(size))
	if err != nil {
		return err
	}
	if l.mu.active != nil {
		l.mu.finished = append(l.mu.finished, l.mu.active)
	}
	l.mu.active = next
	l.mu.rolledAt = time.Now()
	l.mu.newNames = true
	l.setSegmentsLocked(append(segs[:len(segs):len(segs)], next))
	return nil
}

// replaceEmptyLocked makes room in an empty last segment that is too small for the batch that comes: a larger mapping of
// the same file.
func (l *Log) replaceEmptyLocked(empty *segment.Segment, size int64) error {
	segs := *l.segments.Load()
	rest := segs[: len(segs)-1 : len(segs)-1]
	l.mu.active = nil
	l.setSegmentsLocked(append(rest, segment.OpenSealed(l.fs, l.dir, empty.Base(), 0, empty.Base())))
	if err := empty.Abandon(); err != nil {
		return err
	}
	larger, err := segment.OpenActive(l.fs, l.dir, empty.Base(), 0, empty.Base(), l.options(size))
	if err != nil {
		return err
	}
	l.mu.active = larger
	l.setSegmentsLocked(append(rest, larger))
	return nil
}
