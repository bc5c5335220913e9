package log

import (
	"context"
	"errors"
	"io"

	"github.com/ottlalog/ottla/segment"
)

// Truncate cuts the log back so that offset is its end, durably: it is what a follower does whose tail was never
// committed. The offset must be at the start of a batch, the log start or the log end. Readers that stand above it must
// be closed first. An offset at or above the end changes nothing; one below the start is an *OffsetError.
func (l *Log) Truncate(ctx context.Context, offset int64) error {
	if err := l.takeTurn(ctx); err != nil {
		return err
	}
	defer l.giveTurn()
	if err := l.Err(); err != nil {
		return err
	}
	if offset >= l.end.Load() {
		return nil
	}
	if offset < l.start.Load() {
		return &OffsetError{Asked: offset, Start: l.start.Load(), End: l.end.Load()}
	}
	if err := l.syncAll(); err != nil { // leaves only the active segment unsealed
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.truncateLocked(offset); err != nil {
		return l.failLocked(err)
	}
	return nil
}

// truncateLocked first lowers the recovery point, then takes from the end. A crash in between leaves a log that is longer
// than asked, never one with a hole.
func (l *Log) truncateLocked(offset int64) error {
	segs := *l.segments.Load()
	n := len(segs)
	for n > 1 && segs[n-1].Base() >= offset && segs[n-1].Base() > l.start.Load() {
		n--
	}
	keep := segs[n-1]
	end, err := l.positionOf(keep, offset)
	if err != nil {
		return err
	}
	l.onDisk = point{offset: offset, base: keep.Base(), pos: end}
	if err := l.point.store(point{start: l.start.Load(), offset: offset, base: keep.Base(), pos: end}); err != nil {
		return err
	}
	for i := len(segs) - 1; i >= n; i-- {
		if err := segs[i].Remove(); err != nil {
			return err
		}
	}
	if err := l.fs.SyncDir(l.dir); err != nil {
		return err
	}
	if !keep.Active() {
		if keep, err = segment.OpenActive(l.fs, l.dir, keep.Base(), keep.Size(), keep.Next(), l.options(0)); err != nil {
			return err
		}
	}
	if err := keep.Truncate(end, offset); err != nil {
		return err
	}
	l.setSegmentsLocked(append(segs[:n-1:n-1], keep))
	l.mu.active, l.mu.finished = keep, nil
	l.end.Store(offset)
	l.synced.Store(offset)
	l.stable.Reset(offset)
	return nil
}

// positionOf returns the byte in a segment at which the batch with a base offset begins.
func (l *Log) positionOf(s *segment.Segment, offset int64) (int64, error) {
	if offset == s.Next() {
		return s.Size(), nil
	}
	r := Reader{log: l, next: offset}
	defer r.Close()
	if err := r.locate(); err != nil {
		return 0, err
	}
	for {
		at := r.pos
		batch, err := r.step(offset + 1)
		if err == io.EOF {
			return 0, errors.New("no batch begins at the offset to truncate to")
		}
		if err != nil {
			return 0, err
		}
		switch h := batch.Header(); {
		case h.BaseOffset == offset:
			return at, nil
		case h.NextOffset() > offset:
			return 0, errors.New("the offset to truncate to lies inside a batch")
		}
	}
}
