package vfs

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// faultAt stores into b[at] and returns the address of the memory fault, zero if there was none.
func faultAt(b []byte, at int) (addr uintptr) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if e, ok := recover().(interface{ Addr() uintptr }); ok {
			addr = e.Addr()
		}
	}()
	b[at] = 1
	return 0
}

func TestFaultBeyondTheEndIsRecoverable(t *testing.T) {
	f := create(t, OS, filepath.Join(t.TempDir(), "f"), "hello")
	page := os.Getpagesize()
	w, r := mapFor(t, f, int64(4*page), MapWrite), mapFor(t, f, int64(page), MapRead)
	base := uintptr(unsafe.Pointer(&w.Bytes()[0]))
	require.Zero(t, faultAt(w.Bytes(), 0))
	require.Equal(t, base+uintptr(2*page), faultAt(w.Bytes(), 2*page))
	require.NotZero(t, faultAt(r.Bytes(), 0), "a store into a mapping for reading")

	err := w.Populate(int64(page), int64(page))
	if haveMadvise(w.Bytes()[:page]) {
		require.ErrorIs(t, err, unix.EFAULT)
		require.NotErrorIs(t, err, ErrNoSpace)
		require.ErrorContains(t, err, "beyond the end")
	}
	require.NoError(t, f.Allocate(0, int64(4*page)))
	require.NoError(t, w.Populate(0, int64(4*page)))
	require.Zero(t, faultAt(w.Bytes(), 2*page))
}

func haveMadvise(b []byte) bool { return unix.Madvise(b, unix.MADV_POPULATE_WRITE) == nil }

// smallDisk mounts a tmpfs of so many pages.
func smallDisk(t *testing.T, size string) string {
	if os.Getuid() != 0 {
		t.Skip("only root can mount the small disk that this test fills")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("can't mount a tmpfs here: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, 0)) })
	return dir
}

func TestFullDisk(t *testing.T) {
	dir := smallDisk(t, "1m")
	free, err := OS.Free(dir)
	require.NoError(t, err)
	require.EqualValues(t, 1<<20, free)

	f, err := OS.Create(filepath.Join(dir, "f"))
	require.NoError(t, err)
	defer f.Close()
	m, err := f.Map(4<<20, MapWrite)
	require.NoError(t, err)
	defer m.Unmap()

	require.NoError(t, f.Allocate(0, 512<<10))
	require.ErrorIs(t, f.Allocate(0, 2<<20), ErrNoSpace)
	require.ErrorIs(t, f.Allocate(0, 2<<20), unix.ENOSPC, "the system's own code is there too")
	size, err := f.Size()
	require.NoError(t, err)
	require.EqualValues(t, 512<<10, size, "nothing was extended")
	copy(m.Bytes()[512<<10-5:], "hello")

	// A sparse file: populating reserves, and fails where a store would be a fault.
	require.NoError(t, f.Truncate(2<<20))
	if haveMadvise(m.Bytes()[:PageSize]) {
		require.NoError(t, m.Populate(512<<10, 128<<10))
		require.ErrorIs(t, m.Populate(0, 2<<20), ErrNoSpace)
	}
	_, err = f.WriteAt(make([]byte, 2<<20), 0)
	require.ErrorIs(t, err, ErrNoSpace)
	l, err := OS.Lock(filepath.Join(dir, "lock"))
	require.NoError(t, err)
	require.ErrorIs(t, l.SetHolder([]byte("me")), ErrNoSpace)
	require.NoError(t, l.Release())
}

// counts returns how many descriptors are open and how many mappings there are of files in dir.
func counts(t *testing.T, dir string) (fds, maps int) {
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	table, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	return len(entries), strings.Count(string(table), dir)
}

func TestNothingLeaks(t *testing.T) {
	dir := t.TempDir()
	fds, maps := counts(t, dir)
	for _, b := range everywhere {
		sub := filepath.Join(dir, strings.ReplaceAll(b.name, " ", "-"))
		require.NoError(t, OS.MkdirAll(sub))
		t.Run(b.name, func(t *testing.T) { b.test(t, OS, sub) })
	}
	nowFds, nowMaps := counts(t, dir)
	require.Equal(t, fds, nowFds)
	require.Equal(t, maps, nowMaps)
}

func TestWriteZerosChangesNothingElse(t *testing.T) {
	f := create(t, OS, filepath.Join(t.TempDir(), "f"), "hello")
	require.NoError(t, writeZeros(f.(*osFile).f, 5, 2*PageSize+7))
	require.Equal(t, "hello"+zeros(2*PageSize+2), readAll(t, f))
}

func TestLockOfARemovedFileExcludesNoOne(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	f, err := os.Create(name)
	require.NoError(t, err)
	defer f.Close()
	same, err := stillNamed(f, name)
	require.NoError(t, err)
	require.True(t, same)
	require.NoError(t, os.Remove(name))
	same, err = stillNamed(f, name)
	require.NoError(t, err)
	require.False(t, same)
	create(t, OS, name, "")
	same, err = stillNamed(f, name)
	require.NoError(t, err)
	require.False(t, same)
}
