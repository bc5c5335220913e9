package log_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/record"
)

// tail reads up to what is stable, again and again, until end was read or stop is closed. Retention may
// overtake it.
func tail(l *log.Log, r *log.Reader, end int64, stop <-chan struct{}) error {
	defer r.Close()
	var rec record.Record
	for next := r.Offset(); next < end; {
		b, err := r.Next(l.Stable().Load())
		var passed *log.OffsetError
		switch {
		case err == io.EOF:
			select {
			case <-stop:
				return nil
			default:
				if err := l.Stable().Wait(context.Background(), next); err != nil {
					return err
				}
			}
			continue
		case errors.As(err, &passed):
			if passed.Asked != next || passed.Start <= next {
				return fmt.Errorf("not passed by: %w", err)
			}
			start := l.Start()
			err := r.SeekTo(start)
			if err == nil {
				next = start
			} else if !errors.Is(err, log.ErrOffsetOutOfRange) { // passed by again
				return err
			}
			continue
		case err != nil:
			return err
		}
		for it := b.Records(); it.Next(&rec); {
			if rec.Offset < next {
				continue
			}
			if rec.Offset != next || string(rec.Value) != string(value(next)) {
				return fmt.Errorf("offset %d: %.20q where %d follows", rec.Offset, rec.Value, next)
			}
			next++
		}
	}
	return nil
}

// TestReadersTailWhileSegmentsRoll: offsets are dense and no reader ever meets an error.
func TestReadersTailWhileSegmentsRoll(t *testing.T) {
	for name, fsys := range map[string]vfs.FS{"mem": newMem(t), "os": vfs.OS} {
		for _, policy := range []log.SyncPolicy{log.SyncAlways, log.SyncNever} {
			t.Run(fmt.Sprint(name, " ", policy), func(t *testing.T) {
				folder := dir
				if fsys == vfs.OS {
					folder = t.TempDir()
				} else {
					fsys = newMem(t)
				}
				l, err := log.Open(fsys, folder, log.Config{SegmentBytes: 400, Sync: policy})
				require.NoError(t, err)
				const end = 600
				done := make(chan error)
				for range 4 {
					r, err := l.NewReader(0)
					require.NoError(t, err)
					go func() { done <- tail(l, r, end, nil) }()
				}
				for l.End() < end {
					fill(t, l, 1, 1)
				}
				for range 4 {
					require.NoError(t, <-done)
				}
				require.NoError(t, l.Close())
			})
		}
	}
}

// TestReadersWithRetention: the start runs ahead of some of them, who are told so.
func TestReadersWithRetention(t *testing.T) {
	mem := newMem(t)
	l := open(t, mem, log.Config{SegmentBytes: 400, RetentionBytes: 1200, Sync: log.SyncNever})
	stop, done := make(chan struct{}), make(chan error)
	for range 4 {
		r, err := l.NewReader(0)
		require.NoError(t, err)
		go func() { done <- tail(l, r, 1<<40, stop) }()
	}
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if err := l.Tick(context.Background(), time.Now()); err != nil {
				done <- err
				return
			}
		}
	}()
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if _, _, _, err := l.OffsetForTime(l.End(), l.End()); err != nil {
				done <- err
				return
			}
		}
	}()
	for l.End() < 800 || l.Start() == 0 {
		appendOne(t, l)
	}
	close(stop)
	appendOne(t, l) // wakes who waits
	for range 6 {
		require.NoError(t, <-done)
	}
	require.Positive(t, l.Start())
	require.NoError(t, l.Close())
	requireClosed(t, mem)
}

func appendOne(t testing.TB, l *log.Log) {
	t.Helper()
	base := l.End()
	_, err := l.Append(record.HeaderAt(0, 0), []record.Record{{Value: value(base), Time: time.UnixMilli(1000 + base)}})
	require.NoError(t, err)
}

// TestCloseDuringEverything closes a log under appends, syncs, ticks, reads, deletions and look-ups: all of them end, and
// nothing stays open.
func TestCloseDuringEverything(t *testing.T) {
	for round := range 20 {
		mem := newMem(t)
		l := open(t, mem, log.Config{SegmentBytes: 1000})
		fill(t, l, 10, 1)
		var wg sync.WaitGroup
		ctx := context.Background()
		each := func(op func() error) {
			wg.Go(func() {
				for {
					err := op()
					if errors.Is(err, log.ErrClosed) || errors.Is(l.Err(), log.ErrClosed) {
						return
					}
					if err != nil && !errors.Is(err, log.ErrOffsetOutOfRange) && !errors.Is(err, io.EOF) {
						t.Error(err)
						return
					}
				}
			})
		}
		var appended atomic.Int64
		for range 2 {
			each(func() error {
				at, err := l.Append(record.HeaderAt(0, 0), []record.Record{{Value: []byte("x"), Time: time.UnixMilli(1)}})
				if err != nil {
					return err
				}
				if err := l.Sync(ctx, at.Next); err != nil {
					return err
				}
				appended.Store(max(appended.Load(), at.Next))
				return nil
			})
		}
		each(func() error { return l.Tick(ctx, time.Now()) })
		each(func() error { return l.DeleteBefore(ctx, l.Stable().Load()-5) })
		each(func() error { _, _, _, err := l.OffsetForTime(1, l.End()); return err })
		each(func() error { return l.Stable().Wait(ctx, l.Stable().Load()) })
		each(func() error {
			r, err := l.NewReader(l.Start())
			if err == nil {
				_, err = r.Next(l.Stable().Load())
			}
			return errors.Join(err, r.Close())
		})
		time.Sleep(time.Duration(round) * 100 * time.Microsecond)
		require.NoError(t, l.Close())
		wg.Wait()
		requireClosed(t, mem)
		l = open(t, mem, small)
		require.GreaterOrEqual(t, l.End(), appended.Load())
	}
}

func TestClosedLogRefusesAll(t *testing.T) {
	l := open(t, newMem(t), small)
	fill(t, l, 50, 1)
	r, err := l.NewReader(0)
	require.NoError(t, err)
	defer r.Close()
	require.NoError(t, l.Close())
	_, err = l.Append(record.HeaderAt(0, 0), []record.Record{{}})
	require.ErrorIs(t, err, log.ErrClosed)
	require.ErrorIs(t, l.Err(), log.ErrClosed)
	require.ErrorIs(t, l.Sync(t.Context(), 51), log.ErrClosed)
	require.NoError(t, l.Sync(t.Context(), 50), "these are on the disk")
	require.ErrorIs(t, l.DeleteBefore(t.Context(), 10), log.ErrClosed)
	require.ErrorIs(t, l.Truncate(t.Context(), 10), log.ErrClosed)
	require.ErrorIs(t, l.Tick(t.Context(), time.Now()), log.ErrClosed)
	require.ErrorIs(t, l.Stable().Wait(t.Context(), 50), log.ErrClosed)
	_, _, _, err = l.OffsetForTime(0, 50)
	require.ErrorIs(t, err, log.ErrClosed)
	_, err = r.Next(50)
	require.ErrorIs(t, err, log.ErrClosed)
}

// TestReaderOfARemovedSegment stays where it was until the start has passed it.
func TestReaderOfARemovedSegment(t *testing.T) {
	mem := newMem(t)
	l := open(t, mem, small)
	end := fill(t, l, 300, 1)
	r, err := l.NewReader(10)
	require.NoError(t, err)
	defer r.Close()
	b, err := r.Next(end)
	require.NoError(t, err)
	require.NoError(t, l.DeleteBefore(t.Context(), 200))
	requireValues(t, b, 10)
	_, err = r.Next(end)
	var passed *log.OffsetError
	require.ErrorAs(t, err, &passed)
	require.Equal(t, log.OffsetError{Asked: 11, Start: 200, End: end}, *passed)
	require.NoError(t, r.SeekTo(200))
	b, err = r.Next(end)
	require.NoError(t, err)
	requireValues(t, b, 200)
}

// TestReaderAtTheEndGoesOn whatever happens to the segment that it waits in.
func TestReaderAtTheEndGoesOn(t *testing.T) {
	events := map[string]func(t *testing.T, l *log.Log){
		"nothing": func(*testing.T, *log.Log) {},
		"roll by age": func(t *testing.T, l *log.Log) {
			require.NoError(t, l.Tick(t.Context(), time.Now().Add(8*24*time.Hour)))
		},
		"delete all":    func(t *testing.T, l *log.Log) { require.NoError(t, l.DeleteBefore(t.Context(), l.End())) },
		"large batch":   func(t *testing.T, l *log.Log) { fill(t, l, 1, 500) },
		"truncate to 7": func(t *testing.T, l *log.Log) { fill(t, l, 3, 1); require.NoError(t, l.Truncate(t.Context(), 7)) },
	}
	for name, event := range events {
		t.Run(name, func(t *testing.T) {
			mem := newMem(t)
			l := open(t, mem, small)
			fill(t, l, 7, 1)
			require.NoError(t, l.Close())
			l = open(t, mem, small)
			r, err := l.NewReader(7)
			require.NoError(t, err)
			defer r.Close()
			for next := int64(7); next < 40; {
				_, err = r.Next(l.End())
				require.ErrorIs(t, err, io.EOF)
				if next == 7 {
					event(t, l)
				}
				fill(t, l, 1, 1)
				for next < l.End() {
					b, err := r.Next(l.End())
					require.NoError(t, err)
					next = requireValues(t, b, next)
				}
			}
		})
	}
}
