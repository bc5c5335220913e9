package log

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/ottlalog/ottla/segment"
)

// ErrNotBatchStart says that a log can't be truncated to an offset: no batch begins there.
var ErrNotBatchStart = errors.New("no batch begins at the offset")

// Truncate cuts the log back so that offset is its end, durably: it is what a follower does whose tail was never
// committed. The offset must be at the start of a batch, the log start or the log end; else ErrNotBatchStart. Readers
// that stand above it must be closed first. An offset at or above the end changes nothing; one below the start is an
// *OffsetError.
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
	if start := l.start.Load(); offset < start {
		return &OffsetError{Asked: offset, Start: start, End: l.end.Load()}
	}
	if err := l.syncAll(); err != nil { // leaves only the active segment unsealed
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	segs := *l.segments.Load()
	n := len(segs)
	for n > 1 && segs[n-1].Base() >= offset && segs[n-1].Base() > l.start.Load() {
		n--
	}
	end, err := positionOf(segs[n-1], offset)
	if err != nil {
		return err
	}
	if err := l.cutLocked(segs, n, end, offset); err != nil {
		return l.failLocked(err)
	}
	return nil
}

// cutLocked leaves the first n segments, the last of them with its first end bytes. The intent is stored first, so that
// a recovery carries out what a crash interrupts: a file that is cut short half is neither old nor new. Then the list is
// replaced, so that no reader is sent to what goes, and then the files go.
func (l *Log) cutLocked(segs []*segment.Segment, n int, end, offset int64) error {
	last, gone := segs[n-1], segs[n:]
	p := point{start: l.start.Load(), offset: offset, base: last.Base(), pos: end}
	if err := l.point.store(p.cutting()); err != nil {
		return err
	}
	l.onDisk = p
	l.mu.active, l.mu.finished = nil, nil
	l.end.Store(offset)
	l.synced.Store(offset)
	l.stable.Reset(offset)
	l.setSegmentsLocked(append(segs[:n-1:n-1], segment.OpenSealed(l.fs, l.dir, last.Base(), end, offset)))
	for i := len(gone) - 1; i >= 0; i-- {
		if err := gone[i].Remove(); err != nil {
			return err
		}
	}
	if err := errors.Join(last.Abandon(), cutFile(l.fs, last.Path(), end), l.fs.SyncDir(l.dir)); err != nil {
		return err
	}
	l.pointT = time.Time{} // the next sync overwrites the slot with the intent
	return l.point.store(p)
}

// positionOf returns the byte in a segment at which the batch with a base offset begins, or the segment's end.
func positionOf(s *segment.Segment, offset int64) (int64, error) {
	if offset == s.Next() {
		return s.Size(), nil
	}
	v, err := s.Acquire()
	if err != nil {
		return 0, err
	}
	var c cursor
	defer c.close()
	at, err := s.Lookup(offset)
	for c.open(v, at); err == nil && c.at.Offset < offset; {
		batch, e := c.peek()
		if e == nil {
			c.step(batch.Header())
		}
		err = e
	}
	switch {
	case err != nil && err != io.EOF:
		return 0, err
	case c.at.Offset != offset:
		return 0, ErrNotBatchStart
	}
	return c.at.Pos, nil
}
