package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncFile flushes the drive's cache too: os.File.Sync is F_FULLFSYNC here.
func syncFile(f *os.File) error { return f.Sync() }

func allocate(f *os.File, old, off, n int64) error {
	if off+n <= old {
		return nil
	}
	store := unix.Fstore_t{
		Flags:   unix.F_ALLOCATEALL,
		Posmode: unix.F_PEOFPOSMODE,
		Length:  off + n - max(old, off),
	}
	err := withFd(f, func(fd int) error {
		return unix.FcntlFstore(uintptr(fd), unix.F_PREALLOCATE, &store)
	})
	if err != nil && !errors.Is(err, unix.ENOTSUP) && !errors.Is(err, unix.EINVAL) {
		return err
	}
	return extend(f, old, off+n)
}

// mappingSys holds a descriptor of its own, since msync alone leaves the bytes in the drive's cache.
type mappingSys struct{ file *os.File }

func newMappingSys(f *os.File, mode MapMode) (s mappingSys, err error) {
	if mode != MapWrite {
		return s, nil
	}
	err = withFd(f, func(fd int) error {
		dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err == nil {
			s.file = os.NewFile(uintptr(dup), f.Name())
		}
		return err
	})
	return s, err
}

func (s mappingSys) close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

func (m *osMapping) sync(pages []byte) error {
	err := retry(func() error { return unix.Msync(pages, unix.MS_SYNC) })
	if err != nil || m.sys.file == nil {
		return err
	}
	return m.sys.file.Sync()
}

func (m *osMapping) populate(pages []byte, _, _ int64) error {
	willRead(pages)
	return nil
}
