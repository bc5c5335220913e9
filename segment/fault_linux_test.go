package segment

import (
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/internal/vfs"
)

// onDisk returns an active segment of several pages on the real file system.
func onDisk(t *testing.T) *Segment {
	t.Helper()
	s, err := Create(vfs.OS, t.TempDir(), 0, options)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Abandon() })
	for s.Size() < 6*vfs.PageSize {
		require.NoError(t, put(s, 500, 1))
	}
	return s
}

// TestFileCutShortUnderItsMapping truncates the file behind the segment's back. Each access is an error that names the
// file; the process lives.
func TestFileCutShortUnderItsMapping(t *testing.T) {
	s := onDisk(t)
	v, err := s.Acquire()
	require.NoError(t, err)
	defer v.Release()
	require.NoError(t, os.Truncate(s.Path(), vfs.PageSize))

	var fault *FaultError
	require.ErrorAs(t, put(s, 500, 1), &fault)
	require.Equal(t, s.Path(), fault.Path)
	require.GreaterOrEqual(t, fault.Pos, int64(vfs.PageSize))

	b := make([]byte, s.Size())
	n, err := v.ReadAt(b[10:], 10)
	require.ErrorAs(t, err, &fault)
	require.GreaterOrEqual(t, fault.Pos, int64(vfs.PageSize))
	require.Equal(t, vfs.PageSize-10, n, "what is left can be read")
	n, err = v.ReadAt(b[:vfs.PageSize], 0)
	require.NoError(t, err)
	require.Equal(t, vfs.PageSize, n)

	require.ErrorAs(t, s.Sync(), &fault, "nobody is told that the lost bytes are on the disk")
	require.ErrorAs(t, s.Seal(), &fault, "nor are they replaced by zeros")
	info, err := os.Stat(s.Path())
	require.NoError(t, err)
	require.EqualValues(t, vfs.PageSize, info.Size())
	require.NoError(t, s.Abandon())
	require.NoError(t, s.Abandon())
}

func TestFaultsElsewhereGoOn(t *testing.T) {
	s, other := onDisk(t), onDisk(t)
	require.NoError(t, os.Truncate(other.Path(), 0))
	foreign := other.w.mem

	touch := func() (err error) {
		defer guard(debug.SetPanicOnFault(true), s.w.mem, s.path, &err)
		foreign[0] = 1
		return nil
	}
	require.Panics(t, func() { _ = touch() }, "a fault in another mapping isn't this segment's")
	require.PanicsWithValue(t, "mine", func() {
		var err error
		defer guard(debug.SetPanicOnFault(true), s.w.mem, s.path, &err)
		panic("mine")
	})
	require.False(t, debug.SetPanicOnFault(false), "the setting is put back")
}

// TestFaultsBesideGoodReaders: a segment that faults disturbs no other.
func TestFaultsBesideGoodReaders(t *testing.T) {
	good, bad := onDisk(t), onDisk(t)
	require.NoError(t, os.Truncate(bad.Path(), 0))
	done := make(chan error)
	for _, s := range []*Segment{good, bad} {
		go func() {
			v, err := s.Acquire()
			for range 200 {
				if err == nil {
					_, err = v.ReadAt(make([]byte, s.Size()), 0)
				}
			}
			_ = v.Release()
			if s == bad && err != nil {
				err = nil
			}
			done <- err
		}()
	}
	require.NoError(t, <-done)
	require.NoError(t, <-done)
}

// TestFaultsBesideTheHostsSignalHandler: a host may listen for the signal of a fault, and may have its own setting for faults.
// Neither is in the way of the other.
func TestFaultsBesideTheHostsSignalHandler(t *testing.T) {
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGBUS, syscall.SIGSEGV)
	defer signal.Stop(heard)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))

	s := onDisk(t)
	v, err := s.Acquire()
	require.NoError(t, err)
	defer v.Release()
	require.NoError(t, os.Truncate(s.Path(), 0))
	var fault *FaultError
	_, err = v.ReadAt(make([]byte, 10), 0)
	require.ErrorAs(t, err, &fault)
	require.ErrorAs(t, put(s, 500, 1), &fault)
	require.True(t, debug.SetPanicOnFault(true), "as the host has set it")
	require.Empty(t, heard, "a fault is no signal that someone has sent")
}
