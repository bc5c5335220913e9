package vfs

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func syncFile(f *os.File) error { return withFd(f, unix.Fdatasync) }

func allocate(f *os.File, old, off, n int64) error {
	err := withFd(f, func(fd int) error { return unix.Fallocate(fd, 0, off, n) })
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return writeZeros(f, max(old, off), off+n)
	}
	return err
}

// writeZeros reserves [from, to), which lies beyond the end of the file, where there is no fallocate. Holes before the
// end stay holes: to fill them would race with stores. Page by page, so that the kernel caches small pages.
func writeZeros(f *os.File, from, to int64) error {
	zeros := make([]byte, PageSize)
	for from < to {
		n := min(PageSize-from%PageSize, to-from)
		if _, err := f.WriteAt(zeros[:n], from); err != nil {
			return err
		}
		from += n
	}
	return nil
}

// mappingSys tells which file is mapped, since the mapping holds no descriptor.
type mappingSys struct{ dev, ino uint64 }

func newMappingSys(f *os.File, _ MapMode) (s mappingSys, err error) {
	err = withFd(f, func(fd int) (err error) {
		s, err = identify(fd)
		return err
	})
	return s, err
}

func identify(fd int) (mappingSys, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	return mappingSys{uint64(st.Dev), st.Ino}, err
}

func (mappingSys) close() error { return nil }

// sync needs no descriptor: msync goes through the file's fsync, which writes the length as well.
func (m *osMapping) sync(pages []byte) error {
	return retry(func() error { return unix.Msync(pages, unix.MS_SYNC) })
}

func (m *osMapping) populate(pages []byte, off, n int64) error {
	err := retry(func() error { return unix.Madvise(pages, unix.MADV_POPULATE_WRITE) })
	switch {
	case errors.Is(err, unix.EINVAL): // a kernel before 5.14
		return nil
	case errors.Is(err, unix.EFAULT):
		return m.explainFault(off, n, err)
	}
	return err
}

// explainFault finds out why a store into [off, off+n) would be a memory fault, which the kernel doesn't tell: fallocate
// of the same blocks does. The file is opened by its name, if that is still its name.
func (m *osMapping) explainFault(off, n int64, fault error) error {
	f, err := os.OpenFile(m.name, os.O_RDWR, 0)
	if err != nil {
		return fault
	}
	defer f.Close()
	s, err := newMappingSys(f, MapRead)
	if err != nil || s != m.sys {
		return fault
	}
	if info, err := f.Stat(); err != nil || off+n > info.Size() {
		return fmt.Errorf("beyond the end of the file: %w", fault)
	}
	err = withFd(f, func(fd int) error { return unix.Fallocate(fd, 0, off, n) })
	if isOneOf(fullCodes, err) {
		return err
	}
	return fault
}
