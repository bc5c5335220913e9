package segment

import (
	"io"
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/record"
)

func ticking() func() int64 {
	now := int64(0)
	return func() int64 { now++; return now }
}

func TestNamesSortAsOffsetsDo(t *testing.T) {
	require.Equal(t, "00000000000000000042.log", Name(42))
	for _, base := range []int64{0, 42, 1<<63 - 1} {
		got, ok := ParseName(Name(base))
		require.True(t, ok)
		require.Equal(t, base, got)
	}
	for _, name := range []string{"", ".log", "42.log", "00000000000000000042.index", "0000000000000000004x.log",
		"-0000000000000000042.log", "99999999999999999999.log", "00000000000000000042.log.1.aside", "+0000000000000000042.log"} {
		_, ok := ParseName(name)
		require.False(t, ok, name)
	}
}

func TestActiveThenSealedHoldsTheSameBytes(t *testing.T) {
	for name, fsys := range map[string]vfs.FS{"mem": newMem(t), "os": nil} {
		t.Run(name, func(t *testing.T) {
			folder := dir
			if fsys == nil {
				fsys, folder = vfs.OS, t.TempDir()
			}
			s, err := Create(fsys, folder, 100, options)
			require.NoError(t, err)
			batches := fill(t, s, rngFor(1), 50, ticking())
			before := content(t, s)
			requireBatches(t, before, batches)

			require.NoError(t, s.Sync())
			require.NoError(t, s.Sync(), "nothing left to do")
			require.NoError(t, s.Seal())
			require.NoError(t, s.Seal(), "sealing twice is harmless")
			require.Equal(t, before, content(t, s))
			info, err := fsys.Stat(s.Path())
			require.NoError(t, err)
			require.Equal(t, s.Size(), info.Size(), "what was reserved is given back")

			s = reopen(t, s)
			batches = append(batches, fill(t, s, rngFor(2), 50, ticking())...)
			requireBatches(t, content(t, s), batches)
			require.NoError(t, s.Seal())
			requireBatches(t, content(t, OpenSealed(fsys, folder, 100, s.Size(), s.Next())), batches)
		})
	}
}

func TestReadAtEndsWithThePublishedBytes(t *testing.T) {
	s := create(t, newMem(t), 0, options)
	require.NoError(t, put(s, 10, 1))
	for _, sealed := range []bool{false, true} {
		if sealed {
			require.NoError(t, s.Seal())
		}
		v, err := s.Acquire()
		require.NoError(t, err)
		all := content(t, s)
		for pos := range s.Size() + 3 {
			b := make([]byte, 20)
			n, err := v.ReadAt(b, pos)
			require.NoError(t, err)
			require.Equal(t, all[min(pos, s.Size()):min(pos+20, s.Size())], b[:n])
		}
		require.NoError(t, v.Release())
	}
}

func TestFullLeavesTheSegmentAsItWas(t *testing.T) {
	s := create(t, newMem(t), 0, Options{Capacity: 500})
	for s.Size() < 300 {
		require.NoError(t, put(s, 50, 1))
	}
	before, next := content(t, s), s.Next()
	require.ErrorIs(t, put(s, 300, 1), ErrFull)
	require.Equal(t, before, content(t, s))
	require.Equal(t, next, s.Next())
	room := int(500 - s.Size() - record.HeaderSize - 10)
	require.NoError(t, put(s, room, 1), "what fits is taken")
}

func TestOpenActiveCutsWhatIsBehindTheEnd(t *testing.T) {
	mem := newMem(t)
	s := create(t, mem, 0, options)
	batches := fill(t, s, rngFor(1), 10, ticking())
	require.NoError(t, s.Seal())
	keep := batches[5]
	s, err := OpenActive(mem, dir, 0, keep.Pos, keep.Offset, options)
	require.NoError(t, err)
	requireBatches(t, readFile(t, mem, s.Path()), batches[:5])
	require.NoError(t, put(s, 5, 1))
	require.Equal(t, keep.Offset+1, s.Next())
	require.NoError(t, s.Seal())

	_, err = OpenActive(mem, dir, 0, s.Size()+1, s.Next(), options)
	var damage *CorruptionError
	require.ErrorAs(t, err, &damage, "a file that is shorter than its batches")
	require.Equal(t, s.Path(), damage.Path)
	_, err = OpenActive(mem, dir, 77, 0, 77, options)
	require.ErrorIs(t, err, fs.ErrNotExist)
	requireNoHandles(t, mem)
}

func requireNoHandles(t testing.TB, mem *vfs.Mem) {
	t.Helper()
	files, mappings, locks := mem.Handles()
	require.Zero(t, files, "open files")
	require.Zero(t, mappings)
	require.Zero(t, locks)
}

// TestViewsOutliveTheirSegment holds a view through each way in which an owner lets go.
func TestViewsOutliveTheirSegment(t *testing.T) {
	for name, letGo := range map[string]func(*Segment) error{
		"seal":            (*Segment).Seal,
		"abandon":         (*Segment).Abandon,
		"remove":          (*Segment).Remove,
		"seal and remove": func(s *Segment) error { _ = s.Seal(); return s.Remove() },
	} {
		t.Run(name, func(t *testing.T) {
			mem := newMem(t)
			s := create(t, mem, 0, options)
			batches := fill(t, s, rngFor(1), 20, ticking())
			v, err := s.Acquire()
			require.NoError(t, err)
			require.NoError(t, letGo(s))
			b := make([]byte, s.Size())
			_, err = v.ReadAt(b, 0)
			require.NoError(t, err)
			requireBatches(t, b, batches)
			require.NoError(t, v.Release())
			requireNoHandles(t, mem)
		})
	}
}

func TestRemoveLeavesNoFile(t *testing.T) {
	for _, sealed := range []bool{false, true} {
		mem := newMem(t)
		s := create(t, mem, 0, options)
		fill(t, s, rngFor(1), 5, ticking())
		if sealed {
			require.NoError(t, s.Seal())
		}
		require.NoError(t, s.Remove())
		require.NoError(t, s.Remove(), "removing twice is harmless")
		entries, err := mem.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, entries)
		_, err = s.Acquire()
		require.ErrorIs(t, err, ErrRemoved)
		requireNoHandles(t, mem)
	}
}

func TestSealedFileThatBecameShorterIsAnError(t *testing.T) {
	mem := newMem(t)
	s := create(t, mem, 0, options)
	fill(t, s, rngFor(1), 5, ticking())
	require.NoError(t, s.Seal())
	writeFile(t, mem, s.Path(), readFile(t, mem, s.Path())[:100])
	v, err := s.Acquire()
	require.NoError(t, err)
	defer v.Release()
	n, err := v.ReadAt(make([]byte, 200), 0)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.ErrorContains(t, err, s.Path())
	require.Equal(t, 100, n)
}

// TestCreateFailsWhole fails each operation of Create and OpenActive: nothing is left open, no file is left behind.
func TestCreateFailsWhole(t *testing.T) {
	for n := 1; n <= 4; n++ {
		mem := newMem(t)
		s, err := Create(vfs.NewFault(mem, vfs.FailNth(n, fs.ErrPermission)), dir, 0, options)
		if err == nil {
			require.Greater(t, n, 3)
			_ = s.Abandon()
			return
		}
		require.ErrorIs(t, err, fs.ErrPermission)
		requireNoHandles(t, mem)
		entries, err := mem.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, entries)
	}
}

// TestRecordsChangedMeanwhile: record's Put panics then; what it had stored by then must not stay.
func TestRecordsChangedMeanwhile(t *testing.T) {
	s := create(t, newMem(t), 0, options)
	require.NoError(t, put(s, 10, 1))
	before := content(t, s)
	recs := []record.Record{{Time: time.UnixMilli(1), Value: make([]byte, 100)}}
	l, err := record.Plan(recs, 0)
	require.NoError(t, err)
	recs[0].Value = []byte("shorter")
	h := record.HeaderAt(1, 0)
	require.Panics(t, func() { _ = s.Append(&h, &l, recs) })
	require.Equal(t, before, content(t, s))
	require.True(t, record.IsZero(readFile(t, s.fs, s.Path())[s.Size():]))
	require.NoError(t, put(s, 10, 1), "the segment goes on")
	require.EqualValues(t, 2, s.Next())
}

func TestPathsStayInTheFolder(t *testing.T) {
	s := create(t, newMem(t), 7, options)
	require.Equal(t, filepath.Join(dir, Name(7)), s.Path())
	require.Equal(t, filepath.Join(dir, "00000000000000000007.index"), indexPath(s.Path()))
}

// TestAClosedSegmentTouchesNoFile: its names may be another log's. Views that are held go on, and look-ups that need a file
// say that it is closed.
func TestAClosedSegmentTouchesNoFile(t *testing.T) {
	mem := newMem(t)
	fault := vfs.NewFault(mem, nil)
	s := create(t, fault, 0, options)
	batches := fill(t, s, rngFor(1), 20, ticking())
	require.NoError(t, s.Seal())
	v, err := s.Acquire()
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.NoError(t, s.Close(), "closing twice is harmless")
	fault.Decide(func(op vfs.Op) (o vfs.Outcome) {
		if op.Kind != vfs.KindRead && op.Kind != vfs.KindClose {
			t.Errorf("%v of %s", op.Kind, op.Name)
		}
		return o
	})
	b := make([]byte, s.Size())
	_, err = v.ReadAt(b, 0)
	require.NoError(t, err)
	requireBatches(t, b, batches)
	for range 2 {
		_, err = s.Acquire()
		require.ErrorIs(t, err, ErrClosed)
		_, err = s.Lookup(5)
		require.ErrorIs(t, err, ErrClosed)
		_, _, err = s.LookupTime(5)
		require.ErrorIs(t, err, ErrClosed)
	}
	require.NoError(t, v.Release())
	requireNoHandles(t, mem)
}
