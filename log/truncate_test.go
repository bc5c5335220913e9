package log_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/record"
)

// TestTruncateToEachBatch: what is before stays, what is behind is gone, also after the next Open, and other records take
// its offsets.
func TestTruncateToEachBatch(t *testing.T) {
	for to := int64(0); to <= 120; to += 3 {
		for _, closed := range []bool{false, true} {
			mem := newMem(t)
			l := open(t, mem, small)
			h := newHistory()
			for range 40 {
				require.NoError(t, h.append(l, 3, 300))
			}
			require.NoError(t, h.sync(l))
			if closed {
				require.NoError(t, l.Close())
				l = open(t, mem, small)
			}
			if to < 120 {
				require.ErrorIs(t, l.Truncate(t.Context(), to+1), log.ErrNotBatchStart)
				require.NoError(t, l.Err(), "a mistake of the caller's is no failure")
			}
			require.NoError(t, h.truncate(l, to))
			require.Equal(t, to, l.End())
			require.Equal(t, to, l.Stable().Load())
			require.NoError(t, h.check(l))
			if to%2 == 0 {
				require.NoError(t, h.append(l, 2, 3000))
				require.NoError(t, h.append(l, 2, 3000))
				require.NoError(t, h.sync(l))
				require.NoError(t, h.check(l))
			}
			l = open(t, mem.PowerCut(nil), small)
			require.NoError(t, h.opened(l))
			require.NoError(t, l.Close())
		}
	}
}

func TestTruncateOutOfRange(t *testing.T) {
	l := open(t, newMem(t), small)
	fill(t, l, 20, 2)
	require.NoError(t, l.DeleteBefore(t.Context(), 10))
	require.ErrorIs(t, l.Truncate(t.Context(), 9), log.ErrOffsetOutOfRange)
	require.NoError(t, l.Truncate(t.Context(), 41), "above the end is nothing to do")
	require.EqualValues(t, 40, l.End())
	require.NoError(t, l.Truncate(t.Context(), 10), "down to the start")
	require.EqualValues(t, 10, l.End())
	fill(t, l, 5, 2)
	require.EqualValues(t, 10, readAll(t, l, 10))
}

// TestSyncOfTruncatedRecords must not report records as stored that are gone.
func TestSyncOfTruncatedRecords(t *testing.T) {
	l := open(t, newMem(t), small)
	fill(t, l, 10, 1)
	require.NoError(t, l.Truncate(t.Context(), 5))
	require.ErrorIs(t, l.Sync(t.Context(), 10), log.ErrOffsetOutOfRange)
}

// TestTimesAfterTruncation: the index forgets what went.
func TestTimesAfterTruncation(t *testing.T) {
	mem := newMem(t)
	l := open(t, mem, small)
	fill(t, l, 100, 1)
	require.NoError(t, l.Truncate(t.Context(), 50))
	for range 2 {
		_, _, ok, err := l.OffsetForTime(1050, l.End())
		require.NoError(t, err)
		require.False(t, ok)
		offset, _, ok, err := l.OffsetForTime(1049, l.End())
		require.NoError(t, err)
		require.True(t, ok)
		require.EqualValues(t, 49, offset)
		require.NoError(t, l.Close())
		l = open(t, mem, small)
	}
}

// TestTruncationIsFinishedAfterACrash at each of its operations, with whatever the disk has kept: all or nothing.
func TestTruncationIsFinishedAfterACrash(t *testing.T) {
	for n := 1; ; n++ {
		for seed := range uint64(8) {
			mem := newMem(t)
			l := open(t, mem, small)
			end := fill(t, l, 150, 1)
			require.NoError(t, l.Close())
			rng := rngFor(seed)
			decide, boot := vfs.CutBefore(mem, n, rng)
			fault := vfs.NewFault(mem, nil)
			l = open(t, fault, small)
			first := fault.Ops()
			fault.Decide(func(op vfs.Op) vfs.Outcome {
				op.N -= first
				return decide(op)
			})
			err := l.Truncate(t.Context(), 20)
			ops := fault.Ops() - first
			_ = l.Close()
			l = open(t, boot(), small)
			require.Empty(t, l.Recovery().Damage, "operation %d seed %d", n, seed)
			require.Contains(t, []int64{20, end}, l.End())
			if err == nil {
				require.EqualValues(t, 20, l.End())
			}
			require.EqualValues(t, l.End(), readAll(t, l, 0))
			if err == nil && ops < n {
				return
			}
		}
	}
}

// TestTruncationBesideAppends: an append that has stored its records, and not returned yet, doesn't bring back as stable what
// was cut off meanwhile.
func TestTruncationBesideAppends(t *testing.T) {
	for _, policy := range []log.SyncPolicy{log.SyncAlways, log.SyncNever} {
		l := open(t, newMem(t), log.Config{SegmentBytes: 4096, Sync: policy})
		recs := []record.Record{{Time: time.UnixMilli(1)}}
		for range 150 {
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for range 5 {
						if _, err := l.Append(record.HeaderAt(0, 0), recs); err != nil {
							t.Error(err)
						}
					}
				})
			}
			if err := l.Truncate(context.Background(), l.End()/2); err != nil {
				t.Error(err)
			}
			wg.Wait()
			require.LessOrEqual(t, l.Stable().Load(), l.End())
		}
	}
}
