package log_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/record"
)

// TestSeeksWhileSegmentsRoll: whoever seeks to the start, to the last record or to the end finds it there, however often
// the log rolls meanwhile.
func TestSeeksWhileSegmentsRoll(t *testing.T) {
	for _, policy := range []log.SyncPolicy{log.SyncAlways, log.SyncNever} {
		mem := newMem(t)
		l := open(t, mem, log.Config{SegmentBytes: 300, Sync: policy})
		fill(t, l, 1, 1)
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for range 4 {
			r, err := l.NewReader(0)
			require.NoError(t, err)
			wg.Go(func() {
				defer r.Close()
				for round := 0; ; round++ {
					select {
					case <-stop:
						return
					default:
					}
					end := l.Stable().Load()
					if err := seekAndRead(r, []int64{0, end - 1, end, end / 2}[round%4], end); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		for l.End() < 400 {
			fill(t, l, 1, 1)
		}
		close(stop)
		wg.Wait()
		require.NoError(t, l.Close())
		requireClosed(t, mem)
	}
}

func seekAndRead(r *log.Reader, offset, end int64) error {
	if err := r.SeekTo(offset); err != nil {
		return err
	}
	b, err := r.Next(end)
	if offset == end && err == io.EOF {
		return nil
	}
	if err != nil {
		return fmt.Errorf("offset %d of %d: %w", offset, end, err)
	}
	it := b.Records()
	var rec record.Record
	if !it.Next(&rec) || rec.Offset != offset || string(rec.Value) != string(value(offset)) {
		return fmt.Errorf("offset %d: %d %.20q", offset, rec.Offset, rec.Value)
	}
	return nil
}

// TestDeletingEverythingBesideAppends: the start may come up to what is stable and no further, and no offset is given out
// twice, whatever is appended while the log is being emptied.
func TestDeletingEverythingBesideAppends(t *testing.T) {
	mem := newMem(t)
	l := open(t, mem, log.Config{SegmentBytes: 1000})
	const each = 150
	var wg sync.WaitGroup
	var taken sync.Map
	for range 3 {
		wg.Go(func() {
			for range each {
				at, err := l.Append(record.HeaderAt(0, 0), []record.Record{{Value: []byte("x"), Time: time.UnixMilli(1)}})
				if err == nil {
					err = l.Sync(context.Background(), at.Next)
				}
				if _, twice := taken.LoadOrStore(at.Base, true); twice || err != nil {
					t.Error("offset given out twice, or", at.Base, err)
					return
				}
			}
		})
	}
	stop, done := make(chan struct{}), make(chan error)
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			stable := l.Stable().Load()
			if err := l.DeleteBefore(context.Background(), stable); err != nil {
				done <- err
				return
			}
			if start := l.Start(); start < stable || start > l.End() {
				done <- fmt.Errorf("start %d after a deletion below %d, end %d", start, stable, l.End())
				return
			}
			ahead := l.End() + 1
			if err := l.DeleteBefore(context.Background(), ahead); err != nil && !errors.Is(err, log.ErrOffsetOutOfRange) {
				done <- err
				return
			}
		}
	}()
	wg.Wait()
	close(stop)
	require.NoError(t, <-done)
	require.EqualValues(t, 3*each, l.End())
	start := l.Start()
	l = open(t, mem.PowerCut(nil), small)
	require.EqualValues(t, 3*each, l.End())
	require.Equal(t, start, l.Start())
}

// TestADiskThatFailsUnderLoad fails every operation from some moment on, while the log is written, read, rolled, emptied
// and looked into. All of them get an error, nobody hangs, Close gives everything back, and what was promised is there.
func TestADiskThatFailsUnderLoad(t *testing.T) {
	for round := range 10 {
		mem := newMem(t)
		fault := vfs.NewFault(mem, nil)
		l := open(t, fault, log.Config{SegmentBytes: 1000})
		fill(t, l, 30, 1)
		ctx := context.Background()
		var wg sync.WaitGroup
		var broken atomic.Bool
		untilBroken := func(op func() error) {
			wg.Go(func() {
				for {
					late := broken.Load()
					err := op()
					known := errors.Is(err, errInjected) || errors.Is(err, log.ErrFailed) || errors.Is(err, log.ErrOffsetOutOfRange)
					if err != nil && !known && err != io.EOF {
						t.Error(err)
					}
					if late || err != nil && !known {
						return
					}
				}
			})
		}
		var promised, start atomic.Int64
		untilBroken(func() error {
			at, err := l.Append(record.HeaderAt(0, 0), []record.Record{{Value: value(l.End()), Time: time.UnixMilli(1)}})
			if err == nil {
				err = l.Sync(ctx, at.Next)
			}
			if err == nil {
				promised.Store(at.Next)
			}
			return err
		})
		untilBroken(func() error { return l.Tick(ctx, time.Now().Add(30*24*time.Hour)) })
		untilBroken(func() error {
			to := l.Stable().Load() - 20
			err := l.DeleteBefore(ctx, to)
			if err == nil {
				start.Store(to)
			}
			return err
		})
		untilBroken(func() error { _, _, _, err := l.OffsetForTime(1, l.End()); return err })
		untilBroken(func() error {
			r, err := l.NewReader(l.Start())
			if err == nil {
				_, err = r.Next(l.Stable().Load())
			}
			return errors.Join(err, r.Close())
		})
		time.Sleep(time.Duration(round) * 200 * time.Microsecond)
		fault.Decide(func(vfs.Op) vfs.Outcome { return vfs.Outcome{Err: errInjected} })
		broken.Store(true)
		wg.Wait()
		require.ErrorIs(t, l.Close(), errInjected)
		requireClosed(t, mem)

		l = open(t, mem.PowerCut(nil), small)
		require.Empty(t, l.Recovery().Damage)
		require.GreaterOrEqual(t, l.End(), promised.Load())
		require.GreaterOrEqual(t, l.Start(), start.Load())
		readAll(t, l, l.Start())
	}
}

// TestADiskThatBecomesReadOnly: appending says why and stays refused, reading goes on, and Close needs no writing to come to
// an end.
func TestADiskThatBecomesReadOnly(t *testing.T) {
	mem := newMem(t)
	fault := vfs.NewFault(mem, nil)
	l := open(t, fault, small)
	end := fill(t, l, 100, 1)
	fault.Decide(func(op vfs.Op) (o vfs.Outcome) {
		switch op.Kind {
		case vfs.KindRead, vfs.KindOpenRead, vfs.KindSize, vfs.KindStat, vfs.KindReadDir, vfs.KindFree, vfs.KindClose, vfs.KindUnmap:
			return o
		}
		return vfs.Outcome{Err: &fs.PathError{Op: op.Kind.String(), Path: op.Name, Err: syscall.EROFS}}
	})
	err := error(nil)
	for err == nil {
		recs := []record.Record{{Value: value(l.End()), Time: time.UnixMilli(1)}}
		if _, err = l.Append(record.HeaderAt(0, 0), recs); err == nil {
			err = l.Sync(t.Context(), l.End())
		}
	}
	require.ErrorIs(t, err, syscall.EROFS)
	_, err = l.Append(record.HeaderAt(0, 0), []record.Record{{}})
	require.ErrorIs(t, err, log.ErrFailed)
	require.ErrorIs(t, l.Tick(t.Context(), time.Now()), syscall.EROFS)
	require.ErrorIs(t, l.DeleteBefore(t.Context(), end), syscall.EROFS)
	require.EqualValues(t, end, readAll(t, l, 0))
	require.ErrorIs(t, l.Close(), syscall.EROFS)
	requireClosed(t, mem)
	l = open(t, mem, small)
	require.GreaterOrEqual(t, readAll(t, l, 0), int(end))
}

// TestAClosedLogOpensNoFileAnyMore: a reader that is about to open a segment while its log is closed must not find what has
// taken the folder since. So a deleted topic's reader never shows records of the topic that was created in its place.
func TestAClosedLogOpensNoFileAnyMore(t *testing.T) {
	for name, use := range map[string]func(*log.Log) (any, error){
		"read": func(l *log.Log) (any, error) {
			r, err := l.NewReader(0)
			if err != nil {
				return nil, err
			}
			defer r.Close()
			b, err := r.Next(l.End())
			if err != nil {
				return nil, err
			}
			var rec record.Record
			it := b.Records()
			it.Next(&rec)
			return string(rec.Value), it.Err()
		},
		"look up a time": func(l *log.Log) (any, error) {
			_, ms, _, err := l.OffsetForTime(0, l.End())
			return ms, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			mem := newMem(t)
			fault := vfs.NewFault(mem, nil)
			l := open(t, fault, small)
			fill(t, l, 100, 1)
			opening := make(chan struct{}, 1)
			fault.Decide(func(op vfs.Op) (o vfs.Outcome) {
				if op.Kind == vfs.KindOpenRead && filepath.Base(op.Name) == "00000000000000000000.log" {
					opening <- struct{}{}
					o.Delay = 20 * time.Millisecond
				}
				return o
			})
			type answer struct {
				got any
				err error
			}
			answered := make(chan answer)
			go func() {
				got, err := use(l)
				answered <- answer{got, err}
			}()
			<-opening
			fault.Decide(nil)
			require.NoError(t, l.Close())

			for _, path := range list(t, mem) {
				require.NoError(t, mem.Remove(path))
			}
			other := open(t, mem, small)
			_, err := other.Append(record.HeaderAt(0, 0), []record.Record{{Value: []byte("another topic's"), Time: time.UnixMilli(7)}})
			require.NoError(t, err)
			require.NoError(t, other.Sync(t.Context(), 1))

			a := <-answered
			if a.err != nil {
				require.ErrorIs(t, a.err, log.ErrClosed)
				return
			}
			require.Contains(t, []any{string(value(0)), int64(1000)}, a.got)
		})
	}
}
