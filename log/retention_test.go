package log_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/record"
)

// TestDeleteBefore to a batch's start, into its middle, to the end: the start is exactly that, also after a crash.
func TestDeleteBefore(t *testing.T) {
	for _, to := range []int64{0, 1, 3, 4, 100, 101, 598, 599, 600} {
		mem := newMem(t)
		l := open(t, mem, small)
		fill(t, l, 200, 3)
		require.NoError(t, l.DeleteBefore(t.Context(), to))
		require.NoError(t, l.DeleteBefore(t.Context(), to/2), "below the start is nothing to do")
		for range 2 {
			require.Equal(t, to, l.Start())
			require.EqualValues(t, 600, l.End())
			require.EqualValues(t, 600-to, readAll(t, l, to))
			_, err := l.NewReader(to - 1)
			require.ErrorIs(t, err, log.ErrOffsetOutOfRange)
			l = open(t, mem.PowerCut(nil), small)
		}
	}
}

func TestDeleteBeforeNeedsRecordsToBeStable(t *testing.T) {
	l := open(t, newMem(t), small)
	fill(t, l, 10, 1)
	appendOne(t, l)
	var e *log.OffsetError
	require.ErrorAs(t, l.DeleteBefore(t.Context(), 11), &e)
	require.Equal(t, log.OffsetError{Asked: 11, Start: 0, End: 10}, *e)
	require.NoError(t, l.Sync(t.Context(), 11))
	require.NoError(t, l.DeleteBefore(t.Context(), 11))
	require.ErrorAs(t, l.DeleteBefore(t.Context(), 12), &e)
}

// TestEmptyLogRemembersItsEnd through power cuts and closings.
func TestEmptyLogRemembersItsEnd(t *testing.T) {
	mem := newMem(t)
	l := open(t, mem, small)
	for range 5 {
		end := fill(t, l, 37, 2)
		require.NoError(t, l.DeleteBefore(t.Context(), end))
		require.Zero(t, l.Size())
		mem = mem.PowerCut(nil)
		l = open(t, mem, small)
		for range 2 {
			require.Equal(t, end, l.Start())
			require.Equal(t, end, l.End())
			require.Len(t, segmentsOf(t, mem), 1)
			require.NoError(t, l.Close())
			l = open(t, mem, small)
		}
	}
}

func TestRetentionKeepsAtLeastItsBytes(t *testing.T) {
	mem := newMem(t)
	l := open(t, mem, log.Config{SegmentBytes: 4096, RetentionBytes: 20_000})
	for range 600 {
		fill(t, l, 1, 2)
		require.NoError(t, l.Tick(t.Context(), time.Now()))
		if l.Start() > 0 {
			require.GreaterOrEqual(t, l.Size(), int64(20_000))
		}
		require.LessOrEqual(t, l.Size(), int64(20_000+2*4096))
	}
	require.Positive(t, l.Start())
	require.EqualValues(t, l.End()-l.Start(), readAll(t, l, l.Start()))
	require.LessOrEqual(t, len(segmentsOf(t, mem)), 8)
}

// TestRetentionByAge: by the records' time, but a record from the future can't pin its segment.
func TestRetentionByAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, newMem(t), log.Config{SegmentBytes: 1 << 20, SegmentAge: time.Hour, RetentionAge: 24 * time.Hour})
		at := func(when time.Time) {
			t.Helper()
			_, err := l.Append(record.HeaderAt(0, 0), []record.Record{{Time: when}})
			require.NoError(t, err)
		}
		at(time.Now())
		at(time.Now().Add(1000 * time.Hour))
		time.Sleep(time.Hour)
		require.NoError(t, l.Tick(t.Context(), time.Now()), "rolls")
		at(time.Now().Add(time.Hour))
		time.Sleep(24 * time.Hour)
		require.NoError(t, l.Tick(t.Context(), time.Now()))
		require.EqualValues(t, 0, l.Start(), "sealed exactly a day ago")
		time.Sleep(time.Millisecond)
		require.NoError(t, l.Tick(t.Context(), time.Now()))
		require.EqualValues(t, 2, l.Start())
		time.Sleep(48 * time.Hour)
		for range 2 { // the active segment is rolled, then it goes
			require.NoError(t, l.Tick(t.Context(), time.Now()))
		}
		require.EqualValues(t, 3, l.Start())
		require.EqualValues(t, 3, l.End())
		require.NoError(t, l.Close())
	})
}

func TestSegmentAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := newMem(t)
		l := open(t, mem, log.Config{SegmentAge: time.Hour})
		for range 5 {
			require.NoError(t, l.Tick(t.Context(), time.Now()))
			appendOne(t, l)
			time.Sleep(30 * time.Minute)
			appendOne(t, l)
			require.NoError(t, l.Tick(t.Context(), time.Now()))
			time.Sleep(30 * time.Minute)
		}
		require.NoError(t, l.Tick(t.Context(), time.Now()))
		for range 5 { // an empty segment isn't rolled
			time.Sleep(2 * time.Hour)
			require.NoError(t, l.Tick(t.Context(), time.Now()))
		}
		var bases []int64
		for _, s := range segmentsOf(t, mem) {
			bases = append(bases, s.base)
		}
		require.Equal(t, []int64{0, 2, 4, 6, 8, 10}, bases)
		require.NoError(t, l.Close())
	})
}

// TestDamageDoesNotStopRetention: what can't be read can be removed.
func TestDamageDoesNotStopRetention(t *testing.T) {
	s := newSubject(t, small, true)
	edit(t, s.mem, s.segs[0].path, flipAt(20))
	edit(t, s.mem, s.segs[1].path, cutAt(100))
	require.NoError(t, s.mem.Remove(indexOf(s.segs[0])))
	cfg := small
	cfg.RetentionAge = time.Hour
	l := open(t, s.mem, cfg)
	require.NoError(t, l.Tick(t.Context(), time.Now()))
	require.Equal(t, s.end, l.Start(), "all its records are from 1970")
	require.Len(t, segmentsOf(t, s.mem), 1)
}
