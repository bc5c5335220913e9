//go:build linux || darwin

package vfs

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

var fullCodes = []error{unix.ENOSPC, unix.EDQUOT}

// shortageCodes are what opening and mapping may answer when something other than the disk is used up.
var shortageCodes = []error{unix.EMFILE, unix.ENFILE, unix.ENOMEM}

// retry calls a system call again for as long as a signal interrupts it.
func retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// withFd runs a system call on f's descriptor, which a concurrent Close can't take away meanwhile.
func withFd(f *os.File, call func(fd int) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	err = conn.Control(func(fd uintptr) {
		result = retry(func() error { return call(int(fd)) })
	})
	if err != nil {
		return fs.ErrClosed // the one way in which Control itself fails
	}
	return result
}

func syncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	defer d.Close()
	info, err := d.Stat()
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return errNotDir
	}
	return d.Sync()
}

func freeBytes(name string) (int64, error) {
	var st unix.Statfs_t
	err := retry(func() error { return unix.Statfs(name, &st) })
	return int64(st.Bavail) * int64(st.Bsize), err
}

func lockFile(f *os.File) error {
	err := withFd(f, func(fd int) error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}

// unlockFile has nothing to do: closing the file, which is open once, ends the lock.
func unlockFile(*os.File) error { return nil }

func mapFile(f *os.File, size int, mode MapMode) (*osMapping, error) {
	prot := unix.PROT_READ
	if mode == MapWrite {
		prot |= unix.PROT_WRITE
	}
	m := &osMapping{name: f.Name()}
	err := withFd(f, func(fd int) (err error) {
		m.bytes, err = unix.Mmap(fd, 0, size, prot, unix.MAP_SHARED)
		return err
	})
	if err != nil {
		return nil, err
	}
	if m.sys, err = newMappingSys(f, mode); err != nil {
		return nil, errors.Join(err, unix.Munmap(m.bytes))
	}
	return m, nil
}

func (m *osMapping) unmap(b []byte) error {
	return errors.Join(unix.Munmap(b), m.sys.close())
}

func willRead(pages []byte) {
	_ = retry(func() error { return unix.Madvise(pages, unix.MADV_WILLNEED) })
}
