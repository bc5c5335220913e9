package log_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/record"
)

// timed is a log of random batches and the timestamps of its records by offset.
func timed(t testing.TB, rng *rand.Rand, clock func() int64, batches int) (*log.Log, []int64, []int64) {
	t.Helper()
	mem := newMem(t)
	l := open(t, mem, log.Config{SegmentBytes: 2000})
	var times, ends []int64
	for range batches {
		recs := make([]record.Record, 1+rng.IntN(5))
		for i := range recs {
			ms := clock()
			recs[i] = record.Record{Time: time.UnixMilli(ms), Value: value(int64(len(times)))}
			times = append(times, ms)
		}
		_, err := l.Append(codecHeader(len(ends)), recs)
		require.NoError(t, err)
		ends = append(ends, l.End())
		if rng.IntN(20) == 0 {
			require.NoError(t, l.Sync(t.Context(), l.End()))
		}
		if rng.IntN(40) == 0 {
			require.NoError(t, l.Close())
			l = open(t, mem, log.Config{SegmentBytes: 2000})
		}
	}
	require.NoError(t, l.Sync(t.Context(), l.End()))
	return l, times, ends
}

// TestOffsetForTimeEqualsBruteForce: the earliest record that is not older, whatever order the times are in.
func TestOffsetForTimeEqualsBruteForce(t *testing.T) {
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 3))
		now := int64(0)
		l, times, ends := timed(t, rng, func() int64 {
			switch now += rng.Int64N(3); rng.IntN(60) {
			case 0:
				return math.MinInt64 + rng.Int64N(2)
			case 1:
				return -rng.Int64N(50)
			default:
				return now - rng.Int64N(1+int64(seed)*10)
			}
		}, 120)
		check := func(ms, bound int64) {
			wholly := int64(0) // batches that cross the bound don't count
			for _, end := range ends {
				if end <= bound {
					wholly = end
				}
			}
			offset, got, ok, err := l.OffsetForTime(ms, bound)
			require.NoError(t, err)
			for o := l.Start(); o < wholly; o++ {
				if times[o] >= ms {
					require.True(t, ok, "seed %d time %d bound %d", seed, ms, bound)
					require.Equal(t, o, offset, "seed %d time %d bound %d", seed, ms, bound)
					require.Equal(t, times[o], got)
					return
				}
			}
			require.False(t, ok, "seed %d time %d bound %d: %d", seed, ms, bound, offset)
		}
		for round := range 3 {
			for ms := int64(-60); ms < now+3; ms += 1 + rng.Int64N(4) {
				check(ms, l.End())
				check(ms, rng.Int64N(l.End()+1))
			}
			for _, ms := range []int64{math.MinInt64, math.MaxInt64} {
				check(ms, l.End())
				check(ms, 0)
			}
			require.NoError(t, l.DeleteBefore(t.Context(), l.End()*int64(round+1)/4+1)) // mostly inside a batch
		}
	}
}

func TestOffsetForTimeStepsOverDamage(t *testing.T) {
	s := newSubject(t, small, true)
	for _, b := range s.sealed.batches[2:4] {
		edit(t, s.mem, s.sealed.path, flipAt(b.pos+70))
	}
	l := open(t, s.mem, small)
	for offset := range s.end {
		got, _, ok, err := l.OffsetForTime(1000+offset, s.end)
		require.NoError(t, err)
		require.True(t, ok)
		want := offset
		if offset >= s.sealed.batches[2].base && offset < s.sealed.batches[3].next {
			want = s.sealed.batches[3].next
		}
		require.Equal(t, want, got)
	}
}
