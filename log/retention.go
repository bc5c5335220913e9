package log

import (
	"context"
	"errors"
	"time"

	"github.com/ottlalog/ottla/segment"
)

// held describes a segment for the decision of which may go.
type held struct {
	bytes    int64
	newest   int64 // largest timestamp, ms
	sealedAt int64 // ms, 0: not known
}

// expired returns how many of the oldest segments may go. The last one, the active, always stays. Running it again on
// what remains, at the same time, gives 0.
func expired(segs []held, bytes int64, age time.Duration, now time.Time) int {
	n := 0
	if age > 0 {
		oldest := now.Add(-age).UnixMilli()
		for n < len(segs)-1 && written(segs[n]) < oldest {
			n++
		}
	}
	if bytes > 0 {
		var total int64
		for _, s := range segs[n:] {
			total += s.bytes
		}
		for n < len(segs)-1 && total-segs[n].bytes >= bytes {
			total -= segs[n].bytes
			n++
		}
	}
	return n
}

// written is when the newest record of a segment counts as written: a record can't be from later than its segment's end.
func written(s held) int64 {
	if s.sealedAt > 0 {
		return min(s.newest, s.sealedAt)
	}
	return s.newest
}

// retain removes what is beyond size and age. The turn is held.
func (l *Log) retain(now time.Time) error {
	segs := *l.segments.Load()
	if len(segs) < 2 || l.cfg.RetentionAge == 0 && l.cfg.RetentionBytes == 0 {
		return nil
	}
	list := make([]held, len(segs))
	for i, s := range segs[:len(segs)-1] {
		list[i] = l.describe(s, now)
	}
	list[len(segs)-1].bytes = segs[len(segs)-1].Size()
	n := expired(list, l.cfg.RetentionBytes, l.cfg.RetentionAge, now)
	if n == 0 {
		return nil
	}
	return l.removeBefore(segs[n].Base())
}

// describe looks up what the decision needs. A segment whose age can't be found out stays.
func (l *Log) describe(s *segment.Segment, now time.Time) held {
	h := held{bytes: s.Size()}
	if l.cfg.RetentionAge == 0 {
		return h
	}
	var err1, err2 error
	h.newest, err1 = s.MaxTime()
	h.sealedAt, err2 = s.SealedAt()
	if err := errors.Join(err1, err2); err != nil {
		l.cfg.Logger.Warn("age of segment not known, it stays", "file", s.Path(), "err", err)
		h.newest = now.UnixMilli()
	}
	return h
}

// DeleteBefore moves the log start offset up to offset, durably, and removes the segments that lie wholly before it. An
// offset at or before the start changes nothing; one above what is stable is an *OffsetError.
func (l *Log) DeleteBefore(ctx context.Context, offset int64) error {
	if offset <= l.start.Load() {
		return nil
	}
	if stable := l.stable.Load(); offset > stable {
		return &OffsetError{Asked: offset, Start: l.start.Load(), End: stable}
	}
	if err := l.Sync(ctx, offset); err != nil { // the start is never ahead of what is on the disk
		return err
	}
	if err := l.takeTurn(ctx); err != nil {
		return err
	}
	defer l.giveTurn()
	if offset <= l.start.Load() {
		return nil
	}
	if err := l.Err(); err != nil {
		return err
	}
	return l.removeBefore(offset)
}

// removeBefore makes offset the log's start and then removes segments. A crash in between leaves segments that the next
// Open finds below the start, and removes. The turn is held.
func (l *Log) removeBefore(offset int64) error {
	l.mu.Lock()
	if segs := *l.segments.Load(); offset == l.end.Load() && len(segs) > 0 && segs[len(segs)-1].Size() > 0 {
		if err := l.failUnlessRetryableLocked(l.rollLocked(0)); err != nil { // all goes: the end is remembered by an empty segment
			l.mu.Unlock()
			return err
		}
	}
	l.mu.Unlock()
	if err := l.syncAll(); err != nil {
		return err
	}
	if err := l.storePoint(offset); err != nil {
		return l.failUnlessRetryable(err)
	}
	l.start.Store(offset)
	return l.dropBelowStart()
}

// dropBelowStart removes the segments that hold nothing from the log start on.
func (l *Log) dropBelowStart() error {
	l.mu.Lock()
	segs := *l.segments.Load()
	n := 0
	for n < len(segs)-1 && segs[n+1].Base() <= l.start.Load() {
		n++
	}
	gone := segs[:n]
	l.setSegmentsLocked(append([]*segment.Segment(nil), segs[n:]...))
	l.mu.Unlock()
	var err error
	for _, s := range gone {
		l.cfg.Logger.Info("segment removed", "file", s.Path(), "next", s.Next())
		err = errors.Join(err, s.Remove())
	}
	return err
}
