package log_test

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const dir = "p-0"

// newMem returns a file system in memory with the folder of one log.
func newMem(t testing.TB) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem("")
	require.NoError(t, mem.MkdirAll(dir))
	require.NoError(t, mem.SyncDir("."))
	return mem
}

func open(t testing.TB, fs vfs.FS, cfg log.Config) *log.Log {
	t.Helper()
	l, err := log.Open(fs, dir, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// value is what the record at an offset holds: its length and content follow from the offset.
func value(offset int64) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "<%d>", offset), int(1+offset%7))
}

// fill appends n batches of size records and returns the log's end.
func fill(t testing.TB, l *log.Log, n, size int) int64 {
	t.Helper()
	for range n {
		recs := make([]record.Record, size)
		for i := range recs {
			recs[i] = record.Record{Value: value(l.End() + int64(i)), Time: time.UnixMilli(1000 + l.End() + int64(i))}
		}
		_, err := l.Append(record.HeaderAt(0, 0), recs)
		require.NoError(t, err)
	}
	require.NoError(t, l.Sync(t.Context(), l.End()))
	return l.End()
}

// readAll reads from an offset to the stable end and checks that offsets are dense and values what they should be.
func readAll(t testing.TB, l *log.Log, from int64) (n int) {
	t.Helper()
	r, err := l.NewReader(from)
	require.NoError(t, err)
	defer r.Close()
	for {
		b, err := r.Next(l.Stable().Load())
		if err == io.EOF {
			require.Equal(t, l.Stable().Load(), r.Offset())
			return n
		}
		require.NoError(t, err)
		it := b.Records()
		var rec record.Record
		for it.Next(&rec) {
			if rec.Offset < from {
				continue
			}
			require.Equal(t, from+int64(n), rec.Offset)
			require.Equal(t, string(value(rec.Offset)), string(rec.Value))
			n++
		}
		require.NoError(t, it.Err())
	}
}

// small rolls often.
var small = log.Config{SegmentBytes: 4096}

func TestAppendAndRead(t *testing.T) {
	l := open(t, newMem(t), small)
	end := fill(t, l, 300, 3)
	require.EqualValues(t, 900, end)
	for from := int64(0); from <= end; from += 7 {
		require.EqualValues(t, end-from, readAll(t, l, from))
	}
}

func TestReopenGoesOnWhereItEnded(t *testing.T) {
	mem := newMem(t)
	for round := range 5 {
		l := open(t, mem, small)
		require.EqualValues(t, round*100, l.End())
		require.Zero(t, l.Recovery(), "closed in peace: nothing to scan")
		fill(t, l, 100, 1)
		require.EqualValues(t, (round+1)*100, readAll(t, l, 0))
		require.NoError(t, l.Close())
		require.NoError(t, l.Close(), "closing twice is harmless")
		files, mappings, _ := mem.Handles()
		require.Zero(t, files+mappings)
	}
}

func TestOffsetOutOfRangeNamesTheRange(t *testing.T) {
	l := open(t, newMem(t), small)
	fill(t, l, 10, 1)
	for _, offset := range []int64{-1, 11} {
		_, err := l.NewReader(offset)
		require.ErrorIs(t, err, log.ErrOffsetOutOfRange)
		var e *log.OffsetError
		require.ErrorAs(t, err, &e)
		require.Equal(t, log.OffsetError{Asked: offset, Start: 0, End: 10}, *e)
	}
}

func TestRecordTooLargeStoresNothing(t *testing.T) {
	l := open(t, newMem(t), log.Config{MaxRecordBytes: 100, SegmentBytes: 1 << 16})
	_, err := l.Append(record.HeaderAt(0, 0), []record.Record{{Value: make([]byte, 10)}, {Key: make([]byte, 60), Value: make([]byte, 41)}})
	require.ErrorIs(t, err, log.ErrRecordTooLarge)
	require.Zero(t, l.End())
	_, err = l.Append(record.HeaderAt(0, 0), []record.Record{{Key: make([]byte, 60), Value: make([]byte, 40)}})
	require.NoError(t, err, "of the limit")
	require.NoError(t, l.Err())
}

func TestBatchLargerThanASegmentGetsItsOwn(t *testing.T) {
	mem := newMem(t)
	l := open(t, mem, small)
	fill(t, l, 3, 1)
	big := bytes.Repeat([]byte("x"), 50_000)
	_, err := l.Append(record.HeaderAt(0, 0), []record.Record{{Value: big}})
	require.NoError(t, err)
	require.NoError(t, l.Sync(t.Context(), 4))
	require.NoError(t, l.DeleteBefore(t.Context(), 4), "leaves an empty segment of the usual size")
	_, err = l.Append(record.HeaderAt(0, 0), []record.Record{{Value: big}})
	require.NoError(t, err)
	require.NoError(t, l.Close())

	l = open(t, mem, small)
	r, err := l.NewReader(4)
	require.NoError(t, err)
	defer r.Close()
	b, err := r.Next(5)
	require.NoError(t, err)
	it := b.Records()
	var rec record.Record
	require.True(t, it.Next(&rec))
	require.Equal(t, big, rec.Value)
}

func TestReaderWaitsAtTheEndAndGoesOn(t *testing.T) {
	l := open(t, newMem(t), small)
	r, err := l.NewReader(0)
	require.NoError(t, err)
	defer r.Close()
	_, err = r.Next(l.Stable().Load())
	require.ErrorIs(t, err, io.EOF)
	for i := range int64(200) {
		fill(t, l, 1, 1)
		b, err := r.Next(l.Stable().Load())
		require.NoError(t, err)
		require.Equal(t, i, b.Header().BaseOffset)
		_, err = r.Next(l.Stable().Load())
		require.ErrorIs(t, err, io.EOF)
	}
}

func TestReaderSeesNothingAtOrAboveItsBound(t *testing.T) {
	l := open(t, newMem(t), log.Config{SegmentBytes: 1 << 16})
	fill(t, l, 4, 5)
	r, err := l.NewReader(0)
	require.NoError(t, err)
	defer r.Close()
	for bound, want := range map[int64]int64{0: 0, 4: 0, 5: 5, 9: 5, 10: 10, 20: 20} {
		require.NoError(t, r.SeekTo(0))
		for {
			if _, err = r.Next(bound); err != nil {
				break
			}
		}
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, want, r.Offset(), "bound %d: whole batches only", bound)
	}
}

// TestOpeningReadsTheUnsyncedTailOnly: what is read after a kill doesn't depend on how much is in the log.
func TestOpeningReadsTheUnsyncedTailOnly(t *testing.T) {
	read := func(segments int) (bytes int64) {
		mem := newMem(t)
		l := open(t, mem, small)
		for len(segmentsOf(t, mem)) < segments {
			fill(t, l, 1, 2)
		}
		end := fill(t, l, 1, 2) // above the recovery point
		fs := vfs.NewFault(mem.Kill(), func(op vfs.Op) vfs.Outcome {
			if op.Kind == vfs.KindRead {
				bytes += op.Len
			}
			return vfs.Outcome{}
		})
		l = open(t, fs, small)
		require.Equal(t, end, l.End())
		require.NotZero(t, l.Recovery().Scanned)
		require.NoError(t, l.Close())
		return bytes
	}
	few, many := read(5), read(50)
	require.InDelta(t, few, many, 1000)
}

// TestASecondOpeningScansNothing: what one recovery has read, the next one need not, even if a kill came first.
func TestASecondOpeningScansNothing(t *testing.T) {
	mem := newMem(t)
	l := open(t, mem, small)
	end := fill(t, l, 100, 2)
	for range 2 {
		mem = mem.Kill()
		l = open(t, mem, small)
		require.Equal(t, end, l.End())
	}
	require.Zero(t, l.Recovery())
	require.EqualValues(t, end, readAll(t, l, 0))
}

// TestAnEmptyLastSegmentIsNothingToRecover: it was rolled and not yet appended to when the log was closed.
func TestAnEmptyLastSegmentIsNothingToRecover(t *testing.T) {
	mem := newMem(t)
	l := open(t, mem, small)
	end := fill(t, l, 3, 1)
	require.NoError(t, l.Tick(t.Context(), time.Now().Add(8*24*time.Hour)))
	require.Len(t, segmentsOf(t, mem), 2)
	require.NoError(t, l.Close())
	for range 2 {
		mem = mem.PowerCut(nil)
		l = open(t, mem, small)
		require.Zero(t, l.Recovery())
		require.Equal(t, end, l.End())
		require.NoError(t, l.Close())
	}
	l = open(t, mem, small)
	fill(t, l, 3, 1)
	require.EqualValues(t, end+3, readAll(t, l, 0))
}

// TestSizeIsWhatTheFilesHold, as counted by the next process, whatever was deleted, damaged or skipped.
func TestSizeIsWhatTheFilesHold(t *testing.T) {
	s := newSubject(t, small, true)
	edit(t, s.mem, s.sealed.path, flipAt(s.sealed.batches[3].pos+70))
	edit(t, s.mem, s.active.path, flipAt(s.active.batches[2].pos+70))
	l := open(t, s.mem, small)
	require.Len(t, readWithGaps(t, l), 2)
	for _, offset := range []int64{0, s.segs[1].base, s.segs[1].batches[2].base, s.end, s.end} {
		require.NoError(t, l.DeleteBefore(t.Context(), offset))
		fill(t, l, 2, 1)
		size := l.Size()
		require.NoError(t, l.Close())
		held := int64(0)
		for path, content := range snapshot(t, s.mem) {
			if filepath.Ext(path) == ".log" {
				held += int64(len(content))
			}
		}
		require.Equal(t, held, size)
		l = open(t, s.mem, small)
		require.Equal(t, size, l.Size())
	}
}
