package vfs

import (
	"errors"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/windows"
)

var fullCodes = []error{
	windows.ERROR_DISK_FULL,
	windows.ERROR_HANDLE_DISK_FULL,
	windows.ERROR_DISK_QUOTA_EXCEEDED,
}

var shortageCodes = []error{
	windows.ERROR_TOO_MANY_OPEN_FILES,
	windows.ERROR_NOT_ENOUGH_MEMORY,
	windows.ERROR_COMMITMENT_LIMIT,
}

// The locked byte lies far beyond any content, so that others can read who holds the lock.
const lockOffsetHigh = 1 << 30

func syncFile(f *os.File) error { return f.Sync() }

// syncDir checks the name only: the system has no such call, NTFS journals names by itself.
func syncDir(name string) error {
	info, err := os.Stat(name)
	if err == nil && !info.IsDir() {
		err = errNotDir
	}
	return err
}

func allocate(f *os.File, old, off, n int64) error { return extend(f, old, off+n) }

func freeBytes(name string) (int64, error) {
	info, err := os.Stat(name)
	if err != nil {
		return 0, err
	}
	if !info.IsDir() {
		name = filepath.Dir(name)
	}
	path, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return 0, err
	}
	var free uint64
	err = windows.GetDiskFreeSpaceEx(path, &free, nil, nil)
	return int64(free), err
}

func lockFile(f *os.File) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	at := windows.Overlapped{OffsetHigh: lockOffsetHigh}
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return ErrLocked
	}
	return err
}

// unlockFile is needed besides Close, after which the system may take its time.
func unlockFile(f *os.File) error {
	at := windows.Overlapped{OffsetHigh: lockOffsetHigh}
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, &at)
}

// mappingSys is a handle of the mapping's own, to sync with; zero in a mapping for reading.
type mappingSys struct{ handle windows.Handle }

func (s mappingSys) close() error {
	if s.handle == 0 {
		return nil
	}
	return windows.CloseHandle(s.handle)
}

func mapFile(f *os.File, size int, mode MapMode) (*osMapping, error) {
	m := &osMapping{name: f.Name(), bytes: []byte{}}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if mode == MapWrite {
		if err := extend(f, info.Size(), int64(size)); err != nil {
			return nil, err
		}
	} else if size = int(min(int64(size), info.Size())); size == 0 {
		return m, nil
	}
	if m.bytes, err = view(windows.Handle(f.Fd()), size, mode); err != nil {
		return nil, err
	}
	if mode == MapWrite {
		self := windows.CurrentProcess()
		err = windows.DuplicateHandle(self, windows.Handle(f.Fd()), self, &m.sys.handle, 0, false, windows.DUPLICATE_SAME_ACCESS)
		if err != nil {
			return nil, errors.Join(err, m.unmap(m.bytes))
		}
	}
	return m, nil
}

// view maps the file's first size bytes. The mapping object lives on in the view.
func view(file windows.Handle, size int, mode MapMode) ([]byte, error) {
	prot, access := uint32(windows.PAGE_READONLY), uint32(windows.FILE_MAP_READ)
	if mode == MapWrite {
		prot, access = windows.PAGE_READWRITE, windows.FILE_MAP_WRITE
	}
	object, err := windows.CreateFileMapping(file, nil, prot, uint32(uint64(size)>>32), uint32(size), nil)
	if err != nil {
		return nil, err
	}
	defer windows.CloseHandle(object)
	addr, err := windows.MapViewOfFile(object, access, 0, 0, uintptr(size))
	if err != nil {
		return nil, err
	}
	// The address is no Go pointer; read it as one without arithmetic that vet would suspect.
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), size), nil
}

func (m *osMapping) unmap(b []byte) error {
	var err error
	if len(b) > 0 {
		err = windows.UnmapViewOfFile(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
	}
	return errors.Join(err, m.sys.close())
}

func (m *osMapping) sync(pages []byte) error {
	if m.sys.handle == 0 {
		return nil
	}
	addr := uintptr(unsafe.Pointer(unsafe.SliceData(pages)))
	if err := windows.FlushViewOfFile(addr, uintptr(len(pages))); err != nil {
		return err
	}
	return windows.FlushFileBuffers(m.sys.handle)
}

func (m *osMapping) populate([]byte, int64, int64) error { return nil }

func willRead([]byte) {}
