package log_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/record"
)

// slowSyncs makes each sync take so long, and counts them.
func slowSyncs(mem *vfs.Mem, d time.Duration) (vfs.FS, *atomic.Int64) {
	var n atomic.Int64
	return vfs.NewFault(mem, func(op vfs.Op) (o vfs.Outcome) {
		if op.Kind == vfs.KindMsync {
			n.Add(1)
			o.Delay = d
		}
		return o
	}), &n
}

// TestGroupCommit: who waits at the same time shares a sync.
func TestGroupCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := newMem(t)
		fs, syncs := slowSyncs(mem, 5*time.Millisecond)
		l := open(t, fs, log.Config{})
		const callers, each = 64, 10
		began := time.Now()
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for range each {
					at, err := l.Append(record.HeaderAt(0, 0), []record.Record{{Value: []byte("v"), Time: time.Now()}})
					if err == nil {
						err = l.Sync(context.Background(), at.Next)
					}
					if err != nil || l.Stable().Load() < at.Next {
						t.Error("not stable", err)
					}
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, callers*each, l.Stable().Load())
		require.LessOrEqual(t, syncs.Load(), int64(3*each), "for %d appends", callers*each)
		require.LessOrEqual(t, time.Since(began), 3*each*5*time.Millisecond)
		mem2 := mem.PowerCut(nil)
		l2 := open(t, mem2, log.Config{})
		require.EqualValues(t, callers*each, l2.End())
		_ = l.Close()
		require.NoError(t, l2.Close())
	})
}

// TestAppendsDontWaitForASync.
func TestAppendsDontWaitForASync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs, _ := slowSyncs(newMem(t), time.Hour)
		l := open(t, fs, small)
		appendOne(t, l)
		done := make(chan error)
		go func() { done <- l.Sync(context.Background(), 1) }()
		synctest.Wait()
		began := time.Now()
		for range 200 { // rolls too
			appendOne(t, l)
		}
		require.Zero(t, time.Since(began))
		require.NoError(t, <-done)
		require.NoError(t, l.Close())
	})
}

func TestCancelledWaitReturnsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs, _ := slowSyncs(newMem(t), time.Hour)
		l := open(t, fs, small)
		appendOne(t, l)
		first := make(chan error)
		go func() { first <- l.Sync(context.Background(), 1) }()
		synctest.Wait()
		for _, op := range []func(context.Context) error{
			func(ctx context.Context) error { return l.Sync(ctx, 1) },
			func(ctx context.Context) error { return l.Tick(ctx, time.Now()) },
			func(ctx context.Context) error { return l.Truncate(ctx, 0) },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			began := time.Now()
			require.ErrorIs(t, op(ctx), context.DeadlineExceeded)
			require.Equal(t, time.Second, time.Since(began))
			cancel()
		}
		require.NoError(t, <-first)
		require.NoError(t, l.Close())
	})
}

// TestWaitersLearnOfAFailure: nobody is left waiting.
func TestWaitersLearnOfAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fault := vfs.NewFault(newMem(t), func(op vfs.Op) (o vfs.Outcome) {
			if op.Kind == vfs.KindMsync {
				o = vfs.Outcome{Delay: time.Second, Err: errInjected}
			}
			return o
		})
		l := open(t, fault, small)
		appendOne(t, l)
		done := make(chan error)
		for range 20 {
			go func() { done <- l.Sync(context.Background(), 1) }()
		}
		for range 20 {
			require.ErrorIs(t, <-done, errInjected)
		}
		require.ErrorIs(t, l.Close(), log.ErrFailed)
	})
}

func TestTickSyncsByInterval(t *testing.T) {
	for _, policy := range []log.SyncPolicy{log.SyncAlways, log.SyncInterval(time.Second), log.SyncNever} {
		mem := newMem(t)
		l := open(t, mem, log.Config{Sync: policy})
		appendOne(t, l)
		require.Equal(t, policy != log.SyncAlways, l.Stable().Load() == 1)
		require.True(t, l.Dirty())
		require.NoError(t, l.Tick(t.Context(), time.Now()))
		require.Equal(t, policy.Interval() == 0, l.Dirty(), policy)
	}
}

func TestSyncPolicyStrings(t *testing.T) {
	require.Equal(t, "always", log.SyncPolicy{}.String())
	require.Equal(t, "always", log.SyncInterval(-1).String())
	require.Equal(t, "every 1s", log.SyncInterval(time.Second).String())
	require.Equal(t, "never", log.SyncNever.String())
	require.True(t, log.SyncInterval(0).Always())
}

// TestACancelledContextChangesNothing, whether or not the disk is busy.
func TestACancelledContextChangesNothing(t *testing.T) {
	mem := newMem(t)
	l := open(t, mem, small)
	end := fill(t, l, 100, 1)
	files := snapshot(t, mem)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		require.ErrorIs(t, l.DeleteBefore(ctx, 50), context.Canceled)
		require.ErrorIs(t, l.Truncate(ctx, 50), context.Canceled)
		require.ErrorIs(t, l.Tick(ctx, time.Now().Add(30*24*time.Hour)), context.Canceled)
	}
	require.Zero(t, l.Start())
	require.Equal(t, end, l.End())
	require.Equal(t, files, snapshot(t, mem))
}
