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
		unread   bool               // Open took the last segment's end from the recovery point, without a look at its batches
	}

	turn   chan struct{}                 // held while syncing, sealing, removing, truncating, closing
	round  atomic.Pointer[chan struct{}] // closed at the end of each sync
	synced atomic.Int64                  // every record below it is on the disk
	point  checkpoint                    // the file recovery-point; the turn's
	pointT time.Time                     // when it was last stored; the turn's
	onDisk point                         // where the last sync ended; its start is unused; the turn's

	recovery Recovery
	damages  damages
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
		if retryable(cause) {
			cause = errors.New(cause.Error()) // those say that nothing was done and that it may be tried again
		}
		l.mu.failed = fmt.Errorf("%s: %w: %w", l.dir, ErrFailed, cause)
		l.cfg.Logger.Error("log failed", "dir", l.dir, "err", cause)
	}
	return l.mu.failed
}

func (l *Log) setSegmentsLocked(segs []*segment.Segment) { l.segments.Store(&segs) }

// takeTurn waits for the turn, which nobody gets whose context has ended.
func (l *Log) takeTurn(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *Log) giveTurn() { <-l.turn }

// retryable says whether an error is about something that was used up, disk or descriptors: what met it has done nothing.
func retryable(err error) bool { return errors.Is(err, ErrNoSpace) || errors.Is(err, vfs.ErrShortage) }

// failUnlessRetryableLocked is failLocked but for what may go well the next time.
func (l *Log) failUnlessRetryableLocked(cause error) error {
	if cause == nil || retryable(cause) {
		return cause
	}
	return l.failLocked(cause)
}

func (l *Log) failUnlessRetryable(cause error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failUnlessRetryableLocked(cause)
}

// Close makes everything durable and gives files and memory back. Readers that are open return ErrClosed after what they
// have at hand. An error says that something appended may not be on the disk, as after a failure. Closing twice is
// harmless.
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
	err := l.mu.failed
	l.mu.closed = true
	l.mu.Unlock()

	if err == nil {
		err = l.closeSegments()
	} else if l.point.ok { // what was synced before the failure is known to have been
		err = errors.Join(err, l.point.store(l.onDisk.from(l.start.Load())))
	}
	for _, s := range *l.segments.Load() {
		err = errors.Join(err, s.Close())
	}
	l.stable.Close(ErrClosed)
	return err
}

// closeSegments leaves the log so that the next Open has nothing to scan. It runs after the last append.
func (l *Log) closeSegments() error {
	l.mu.Lock()
	open := l.mu.finished
	if l.mu.active != nil {
		open = append(open, l.mu.active)
	}
	l.mu.Unlock()
	for _, s := range open {
		if err := s.Seal(); err != nil {
			return err
		}
	}
	if len(open) == 0 {
		return nil
	}
	last := open[len(open)-1]
	l.synced.Store(last.Next())
	if l.cfg.Sync.Always() {
		l.stable.Advance(last.Next())
	}
	l.onDisk = point{offset: last.Next(), base: last.Base(), pos: last.Size()}
	return l.storePoint(l.start.Load())
}

// storePoint makes the end of the last sync and the log start durable, and before them the names that they rely on. The
// turn is held.
func (l *Log) storePoint(start int64) error {
	created := !l.point.ok
	if err := l.syncNames(); err != nil {
		return err
	}
	if err := l.point.store(l.onDisk.from(start)); err != nil {
		return err
	}
	l.pointT = time.Now()
	if created {
		return l.fs.SyncDir(l.dir)
	}
	return nil
}
