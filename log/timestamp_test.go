package log_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/record"
)

func at(times ...time.Time) (recs []record.Record) {
	for _, t := range times {
		recs = append(recs, record.Record{Time: t, Value: []byte("one like the other, one like the other, one like the other")})
	}
	return recs
}

func TestFarFutureIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, newMem(t), log.Config{SegmentBytes: 8192, MaxTimestampAhead: time.Hour})
		now := time.Now()
		latest := now.Add(time.Hour).Truncate(time.Millisecond)
		for n, recs := range [][]record.Record{
			at(now), at(latest), at(time.Time{}), at(time.UnixMilli(math.MinInt64), latest, time.Unix(0, 0)),
		} {
			_, err := l.Append(codecHeader(n), recs)
			require.NoError(t, err)
		}
		end, size := l.End(), l.Size()
		for n, recs := range [][]record.Record{
			at(now, time.Time{}, latest.Add(time.Millisecond), latest.Add(time.Hour)), at(now, now, time.UnixMilli(math.MaxInt64)),
		} {
			_, err := l.Append(codecHeader(n), recs)
			var te *log.TimestampError
			require.ErrorAs(t, err, &te)
			require.ErrorIs(t, err, log.ErrTimestamp)
			require.Equal(t, log.TimestampError{Record: 2, Time: recs[2].Time, Latest: te.Latest}, *te)
			require.True(t, latest.Equal(te.Latest))
			require.ErrorContains(t, err, "record 2 has ")
		}
		require.Equal(t, end, l.End())
		require.Equal(t, size, l.Size())
		require.NoError(t, l.Err())
		time.Sleep(time.Millisecond) // the same is right a little later
		_, err := l.Append(record.HeaderAt(0, 0), at(latest.Add(time.Millisecond)))
		require.NoError(t, err)
	})
}

func TestAnyTimeIsTakenByDefault(t *testing.T) {
	for _, ahead := range []time.Duration{0, -1, math.MinInt64} {
		l := open(t, newMem(t), log.Config{SegmentBytes: 8192, MaxTimestampAhead: ahead})
		_, err := l.Append(record.HeaderAt(0, 0), at(time.UnixMilli(math.MaxInt64), time.UnixMilli(math.MinInt64)))
		require.NoError(t, err)
	}
}

func TestLogAppendTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := newMem(t)
		cfg := log.Config{SegmentBytes: 4096, LogAppendTime: true, MaxTimestampAhead: 1} // which is ignored
		l := open(t, mem, cfg)
		began := time.Now().UnixMilli()
		for n := range 100 {
			recs := at(time.UnixMilli(math.MaxInt64), time.UnixMilli(5), time.Time{})
			a, err := l.Append(codecHeader(n), recs)
			require.NoError(t, err)
			require.Equal(t, began+int64(n), a.Time)
			for i := range recs {
				require.Equal(t, a.Time, a.Timestamp(&recs[i]))
			}
			time.Sleep(time.Millisecond)
		}
		check := func() {
			recs, stored := batches(t, l)
			for n, h := range stored {
				require.True(t, h.Attributes.LogAppendTime())
				require.Equal(t, codecHeader(n).Attributes.Codec(), h.Attributes.Codec())
				require.Equal(t, began+int64(n), h.MaxTimestamp)
			}
			for i, rec := range recs {
				require.Equal(t, began+int64(i/3), rec.Time.UnixMilli())
			}
			for n := range int64(100) {
				offset, ms, ok, err := l.OffsetForTime(began+n, l.End())
				require.NoError(t, err)
				require.True(t, ok)
				require.Equal(t, []int64{3 * n, began + n}, []int64{offset, ms})
			}
			_, _, ok, err := l.OffsetForTime(began+100, l.End())
			require.NoError(t, err)
			require.False(t, ok)
		}
		require.NoError(t, l.Sync(t.Context(), l.End()))
		check()
		require.NoError(t, l.Close())
		l = open(t, mem.Kill(), cfg)
		check()
		require.NoError(t, l.Close())
	})
}
