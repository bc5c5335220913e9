package log

import (
	"context"
	"errors"
	"time"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/segment"
)

// pointInterval is how old a recovery point may get while records are appended.
const pointInterval = time.Second

// Sync returns when every record below an offset is on the disk. Whoever comes first syncs for all who wait. If ctx ends
// first, its error is returned and whether the records are on the disk is not known. An offset above the end, which may
// be that of records truncated meanwhile, is an *OffsetError.
func (l *Log) Sync(ctx context.Context, below int64) error {
	for {
		round := *l.round.Load() // before the look at synced: a round that ends in between is noticed
		if l.synced.Load() >= below {
			return nil
		}
		if end := l.end.Load(); below > end {
			if err := l.Err(); err != nil {
				return err
			}
			return &OffsetError{Asked: below, Start: l.start.Load(), End: end}
		}
		select {
		case l.turn <- struct{}{}:
			var err error
			if l.synced.Load() < below {
				err = l.syncAll()
			}
			l.giveTurn()
			if err != nil {
				return err
			}
		case <-round:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Dirty says whether records have been appended and not yet synced.
func (l *Log) Dirty() bool { return l.synced.Load() < l.end.Load() }

// syncAll makes everything appended so far durable. The turn is held.
func (l *Log) syncAll() error {
	l.mu.Lock()
	if err := l.errLocked(); err != nil {
		l.mu.Unlock()
		return err
	}
	end := l.end.Load()
	finished, active := l.mu.finished, l.mu.active
	if end == l.synced.Load() && len(finished) == 0 {
		l.mu.Unlock()
		return nil
	}
	l.mu.finished = nil
	segs := *l.segments.Load()
	last := segs[len(segs)-1]
	p := point{offset: end, base: last.Base(), pos: last.Size()}
	if p.pos == 0 {
		active = nil // nothing to sync, and an append may put a larger one in its place
	}
	l.mu.Unlock()

	if err := l.syncNames(); err != nil {
		l.mu.Lock()
		l.mu.finished = append(finished, l.mu.finished...)
		l.mu.Unlock()
		return err // so far nothing was done
	}
	if err := l.syncSegments(finished, active, p); err != nil {
		return l.fail(err)
	}
	l.synced.Store(end)
	if l.cfg.Sync.Always() {
		l.stable.Advance(end)
	}
	next := make(chan struct{})
	close(*l.round.Swap(&next))
	return nil
}

// syncSegments syncs in the order of the log, so that what is on the disk grows from its front. active is nil if there
// is nothing in it.
func (l *Log) syncSegments(finished []*segment.Segment, active *segment.Segment, p point) error {
	for _, s := range finished {
		if err := s.Seal(); err != nil {
			return err
		}
	}
	if active != nil {
		if err := active.Sync(); err != nil {
			return err
		}
	}
	l.onDisk = p
	if len(finished) == 0 && l.point.ok && time.Since(l.pointT) < pointInterval {
		return nil
	}
	err := l.storePoint(l.start.Load())
	if retryable(err) {
		l.cfg.Logger.Warn("recovery point not stored, a recovery would take longer", "dir", l.dir, "err", err)
		return nil
	}
	return err
}

// syncNames makes new segments' names durable. The turn is held. An error that isn't a shortage, which means that the folder
// wasn't even opened, is a failed sync: a later one that succeeds would prove nothing.
func (l *Log) syncNames() error {
	l.mu.Lock()
	needed := l.mu.newNames
	l.mu.newNames = false
	l.mu.Unlock()
	if !needed {
		return nil
	}
	err := l.fs.SyncDir(l.dir)
	if err == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.newNames = true
	if errors.Is(err, vfs.ErrShortage) {
		return err
	}
	return l.failLocked(err)
}

// Tick does what is due: it syncs under SyncInterval, seals finished segments, rolls an active one that has reached its
// age, and applies retention. The owner of the log calls it from time to time, more often than the interval of its sync
// policy. It waits for the disk.
func (l *Log) Tick(ctx context.Context, now time.Time) error {
	if err := l.takeTurn(ctx); err != nil {
		return err
	}
	defer l.giveTurn()
	l.mu.Lock()
	if err := l.errLocked(); err != nil {
		l.mu.Unlock()
		return err
	}
	if err := l.failUnlessRetryableLocked(l.rollAgedLocked(now)); err != nil {
		l.mu.Unlock()
		return err
	}
	due := l.cfg.Sync.Interval() > 0 || len(l.mu.finished) > 0
	l.mu.Unlock()
	if due {
		if err := l.syncAll(); err != nil {
			return err
		}
	}
	return l.retain(now)
}

// rollAgedLocked begins a new segment when the active one is old, or when all that it holds has outlived retention.
func (l *Log) rollAgedLocked(now time.Time) error {
	segs := *l.segments.Load()
	if len(segs) == 0 || segs[len(segs)-1].Size() == 0 {
		return nil
	}
	if l.mu.active == nil { // not appended to since Open
		if l.cfg.RetentionAge == 0 {
			return nil
		}
		if h := l.describe(segs[len(segs)-1], now); written(h) >= now.Add(-l.cfg.RetentionAge).UnixMilli() {
			return nil
		}
		return l.rollLocked(0)
	}
	age := now.Sub(l.mu.rolledAt)
	if age < l.cfg.SegmentAge && (l.cfg.RetentionAge == 0 || age <= l.cfg.RetentionAge) {
		return nil
	}
	return l.rollLocked(0)
}
