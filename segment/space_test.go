package segment

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/internal/vfs"
)

// TestFullDiskLeavesTheSegmentAsItWas fills disks of every size: all is taken that has room, to the page, and what is
// refused leaves no trace.
func TestFullDiskLeavesTheSegmentAsItWas(t *testing.T) {
	for pages := int64(1); pages < 40; pages++ {
		mem := newMem(t)
		mem.SetCapacity(pages * vfs.PageSize)
		s := create(t, mem, 0, options)
		var err error
		for err == nil {
			err = put(s, 700, 1)
		}
		require.ErrorIs(t, err, vfs.ErrNoSpace)
		require.Greater(t, s.Size(), (pages-1)*vfs.PageSize, "%d pages", pages)
		before, next := content(t, s), s.Next()
		require.ErrorIs(t, put(s, 700, 1), vfs.ErrNoSpace)
		require.Equal(t, before, content(t, s))
		require.Equal(t, next, s.Next())
		require.NoError(t, s.Sync(), "what is there can be synced")

		mem.SetCapacity(2 * pages * vfs.PageSize)
		require.NoError(t, put(s, 700, 1), "and with space appending goes on")
		require.Equal(t, next+1, s.Next())
		require.NoError(t, s.Seal())
		info, err := mem.Stat(s.Path())
		require.NoError(t, err)
		require.Equal(t, s.Size(), info.Size())
	}
}

// TestReservingFailsAtEachStep: the file may have grown by then, and the sealed one is trimmed all the same.
func TestReservingFailsAtEachStep(t *testing.T) {
	for _, kind := range []vfs.Kind{vfs.KindFree, vfs.KindAllocate, vfs.KindPopulate} {
		mem := newMem(t)
		fault := vfs.NewFault(mem, nil)
		s := create(t, fault, 0, options)
		require.NoError(t, put(s, 10, 1))
		before := content(t, s)
		fault.Decide(func(op vfs.Op) (o vfs.Outcome) {
			if op.Kind == kind {
				o.Err = vfs.ErrNoSpace
			}
			return o
		})
		require.ErrorIs(t, put(s, 100_000, 1), vfs.ErrNoSpace, kind)
		fault.Decide(nil)
		require.Equal(t, before, content(t, s))
		require.NoError(t, s.Seal())
		require.Equal(t, before, readFile(t, mem, s.Path()), kind)
	}
}

func TestMinFreeIsLeftFree(t *testing.T) {
	mem := newMem(t)
	mem.SetCapacity(100 * vfs.PageSize)
	s := create(t, mem, 0, Options{Capacity: 1 << 20, MinFree: 30 * vfs.PageSize})
	var err error
	for err == nil {
		err = put(s, 700, 1)
	}
	require.ErrorIs(t, err, vfs.ErrNoSpace)
	free, err := mem.Free(dir)
	require.NoError(t, err)
	require.GreaterOrEqual(t, free, int64(30*vfs.PageSize))
	require.Greater(t, s.Size(), int64(60*vfs.PageSize))
}

func TestIdleSegmentTakesNoDisk(t *testing.T) {
	mem := newMem(t)
	mem.SetCapacity(vfs.PageSize)
	create(t, mem, 0, Options{Capacity: 1 << 30})
	free, err := mem.Free(dir)
	require.NoError(t, err)
	require.EqualValues(t, vfs.PageSize, free)
}
