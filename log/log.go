package log

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ottlalog/ottla/internal/notify"
	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/record"
	"github.com/ottlalog/ottla/segment"
)

// Log is one replica's ordered segments in one folder. All methods are safe for concurrent use. Readers never block
// appends.
//
// Locks, in the order in which they are taken: turn, then mu. The turn is a channel and not a mutex, since who waits for
// it waits behind a sync of the disk and must hear its context.
type Log struct {
	fs  vfs.FS
	dir string
	cfg Config

	start    atomic.Int64
	end      atomic.Int64
	stable   notify.Offset
	segments atomic.Pointer[[]*segment.Segment] // ordered; replaced as a whole under mu

	mu struct {
		sync.Mutex
		closed   bool
		failed   error              // the first failed write or sync
		active   *segment.Segment   // nil until the first append after Open
		finished []*segment.Segment // rolled and not yet sealed, oldest first
		rolledAt time.Time          // when active was begun
		newNames bool               // the folder has names that aren't synced
	}

	turn   chan struct{}                 // held while syncing, sealing, removing, truncating, closing
	round  atomic.Pointer[chan struct{}] // closed at the end of each sync
	synced atomic.Int64                  // every record below it is on the disk
	point  checkpoint                    // the file recovery-point; the turn's
	pointT time.Time                     // when it was last stored; the turn's
	onDisk point                         // where the last sync ended; its start is unused; the turn's

	recovery Recovery
}

// Start returns the log start offset: the first offset that is still held.
func (l *Log) Start() int64 { return l.start.Load() }

// End returns the log end offset: the next to be assigned.
func (l *Log) End() int64 { return l.end.Load() }

// Stable returns the offset below which every record is what the sync policy promises: on the disk under SyncAlways,
// handed to the kernel under the others. It can be waited for and never goes back, except by Truncate.
func (l *Log) Stable() *notify.Offset { return &l.stable }

// Dir returns the folder of the log.
func (l *Log) Dir() string { return l.dir }

// Size returns the bytes of all batches that are held.
func (l *Log) Size() (bytes int64) {
	for _, s := range *l.segments.Load() {
		bytes += s.Size()
	}
	return bytes
}

// Err returns why the log takes no appends: ErrClosed, an error that matches ErrFailed, or nil.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.errLocked()
}

func (l *Log) errLocked() error {
	if l.mu.closed {
		return ErrClosed
	}
	return l.mu.failed
}

// fail makes the first cause stick: memory is never again ahead of the disk, since nothing more is accepted.
func (l *Log) fail(cause error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failLocked(cause)
}

func (l *Log) failLocked(cause error) error {
	if l.mu.failed == nil {
		l.mu.failed = fmt.Errorf("%s: %w: %w", l.dir, ErrFailed, cause)
		l.cfg.Logger.Error("log failed", "dir", l.dir, "err", cause)
	}
	return l.mu.failed
}

// Appended says where a batch was stored.
type Appended struct {
	Base int64 // offset of the first record
	Next int64 // offset after the last
	// Time is the timestamp, in ms since 1970, that records without one got.
	Time int64
}

// Append stores the records as one batch at the end of the log and returns where. The epoch and the producer's fields
// are taken from h, its offsets are not. The records are copied. Under SyncAlways they are on the disk only after Sync.
//
// ErrRecordTooLarge, ErrNoSpace and errors that match record.ErrTime and the like leave the log as it was. After any
// other error it takes no more appends: see ErrFailed.
func (l *Log) Append(h record.BatchHeader, recs []record.Record) (Appended, error) {
	now := appendTime(recs)
	layout, err := record.Plan(recs, now)
	if err != nil {
		return Appended{}, err
	}
	if err := l.checkSizes(layout, recs); err != nil {
		return Appended{}, err
	}
	l.mu.Lock()
	if err := l.errLocked(); err != nil {
		l.mu.Unlock()
		return Appended{}, err
	}
	base := l.end.Load()
	h.BaseOffset = base
	if err := l.storeLocked(h, layout, recs); err != nil {
		if !errors.Is(err, ErrNoSpace) {
			err = l.failLocked(err)
		}
		l.mu.Unlock()
		return Appended{}, err
	}
	next := base + int64(len(recs))
	l.end.Store(next)
	l.mu.Unlock()
	if !l.cfg.Sync.Always() {
		l.stable.Advance(next)
	}
	return Appended{Base: base, Next: next, Time: now}, nil
}

// appendTime reads the clock only if a record needs it.
func appendTime(recs []record.Record) int64 {
	for i := range recs {
		if recs[i].Time.IsZero() {
			return time.Now().UnixMilli()
		}
	}
	return 0
}

// checkSizes refuses what can't be stored before anything is.
func (l *Log) checkSizes(layout record.Layout, recs []record.Record) error {
	if layout.LargestSize > l.cfg.MaxRecordBytes { // the encoded size: an upper bound of the content's
		for i := range recs {
			if n := contentBytes(&recs[i]); n > l.cfg.MaxRecordBytes {
				return fmt.Errorf("%w: record %d of %d has %d bytes of at most %d",
					ErrRecordTooLarge, i, len(recs), n, l.cfg.MaxRecordBytes)
			}
		}
	}
	if layout.Size > segment.MaxBytes/2 {
		return fmt.Errorf("%w: the batch of %d records has %d bytes of at most %d",
			ErrRecordTooLarge, len(recs), layout.Size, segment.MaxBytes/2)
	}
	return nil
}

func contentBytes(r *record.Record) int {
	n := len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return n
}

// storeLocked puts the batch into the active segment, or into a new one where it doesn't fit.
func (l *Log) storeLocked(h record.BatchHeader, layout record.Layout, recs []record.Record) error {
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
	if last.Size() >= l.cfg.SegmentBytes || last.Next() != l.end.Load() {
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
	return segment.Options{Capacity: max(l.cfg.SegmentBytes, size), MinFree: l.cfg.MinFree}
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

func (l *Log) setSegmentsLocked(segs []*segment.Segment) { l.segments.Store(&segs) }

// takeTurn waits for the turn.
func (l *Log) takeTurn(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *Log) giveTurn() { <-l.turn }

// Close makes everything durable and gives files and memory back. Readers that are open stay usable for what they hold
// and then return ErrClosed. Closing twice is harmless.
func (l *Log) Close() error {
	if err := l.takeTurn(context.Background()); err != nil {
		return err
	}
	defer l.giveTurn()
	l.mu.Lock()
	if l.mu.closed {
		l.mu.Unlock()
		return nil
	}
	failed := l.mu.failed
	l.mu.closed = true
	l.mu.Unlock()

	var err error
	if failed == nil {
		err = l.closeSegments()
	}
	for _, s := range *l.segments.Load() {
		err = errors.Join(err, s.Abandon())
	}
	l.stable.Close(ErrClosed)
	return err
}

// closeSegments leaves the log so that the next Open has nothing to scan. It runs after the last append.
func (l *Log) closeSegments() error {
	l.mu.Lock()
	open := l.mu.finished
	active := l.mu.active
	l.mu.Unlock()
	if active == nil {
		return nil
	}
	for _, s := range append(open, active) {
		if err := s.Seal(); err != nil {
			return err
		}
	}
	l.synced.Store(active.Next())
	if l.cfg.Sync.Always() {
		l.stable.Advance(active.Next())
	}
	l.onDisk = point{offset: active.Next(), base: active.Base(), pos: active.Size()}
	return l.storePoint(l.start.Load())
}

// storePoint makes the end of the last sync and the log start durable, and before them the names that they rely on. The
// turn is held.
func (l *Log) storePoint(start int64) error {
	p := l.onDisk
	p.start = start
	created := !l.point.ok
	if err := l.syncNames(); err != nil {
		return err
	}
	if err := l.point.store(p); err != nil {
		return err
	}
	l.pointT = time.Now()
	if created {
		return l.fs.SyncDir(l.dir)
	}
	return nil
}
