package vfs

import (
	"io"
	"io/fs"
	"syscall"
)

// access says what an open file may be used for.
type access int

const (
	readOnly access = iota
	readWrite
)

// memFile is an open file; its fields but closed never change, that one is guarded by fs.mu.
type memFile struct {
	fs     *Mem
	ino    *inode
	name   string
	access access
	closed bool
}

// Create makes a new file: an unsynced change of its folder.
func (m *Mem) Create(name string) (File, error) {
	return m.open("create", name, readWrite, m.createLocked)
}

// Open opens an existing file for reading and writing.
func (m *Mem) Open(name string) (File, error) {
	return m.open("open", name, readWrite, m.fileLocked)
}

// OpenRead opens an existing file for reading only.
func (m *Mem) OpenRead(name string) (File, error) {
	return m.open("open", name, readOnly, m.fileLocked)
}

func (m *Mem) open(op, name string, a access, find func(string) (*inode, error)) (File, error) {
	f := &memFile{fs: m, name: name, access: a}
	err := m.do(op, name, func() (err error) {
		if f.ino, err = find(name); err == nil {
			m.handleLocked(f.ino).files++
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (f *memFile) Name() string { return f.name }

// do runs an operation for which the file must be open.
func (f *memFile) do(op string, body func() error) error {
	return f.fs.do(op, f.name, func() error {
		if f.closed {
			return fs.ErrClosed
		}
		return body()
	})
}

// change is do for an operation that a file opened for reading doesn't allow.
func (f *memFile) change(op string, body func() error) error {
	return f.do(op, func() error {
		if f.access != readWrite {
			return syscall.EBADF
		}
		return body()
	})
}

func (f *memFile) ReadAt(p []byte, off int64) (n int, err error) {
	err = f.do("read", func() error {
		if off < 0 {
			return fs.ErrInvalid
		}
		if len(p) == 0 {
			return nil
		}
		n = int(max(0, min(int64(len(p)), f.ino.length-off)))
		f.ino.read(p[:n], off)
		if n < len(p) {
			return io.EOF
		}
		return nil
	})
	return n, err
}

func (f *memFile) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.change("write", func() error {
		if off < 0 {
			return fs.ErrInvalid
		}
		if len(p) == 0 {
			return nil
		}
		if err := f.fs.reserveLocked(f.ino, off, int64(len(p))); err != nil {
			return err
		}
		f.ino.write(p, off)
		n = len(p)
		return nil
	})
	return n, err
}

func (f *memFile) Close() error {
	return f.do("close", func() error {
		f.closed = true
		f.fs.handleLocked(f.ino).files--
		f.fs.releaseLocked(f.ino)
		return nil
	})
}

func (f *memFile) Size() (size int64, err error) {
	err = f.do("stat", func() error {
		size = f.ino.length
		return nil
	})
	return size, err
}

func (f *memFile) Truncate(size int64) error {
	return f.change("truncate", func() error {
		if size < 0 {
			return fs.ErrInvalid
		}
		f.ino.setLength(size)
		f.fs.mu.used -= f.ino.blocks.free(size)
		return nil
	})
}

func (f *memFile) Allocate(off, n int64) error {
	return f.change("allocate", func() error {
		if off < 0 || n <= 0 || off+n < 0 {
			return fs.ErrInvalid
		}
		if err := f.fs.reserveLocked(f.ino, off, n); err != nil {
			return err
		}
		f.ino.setLength(max(f.ino.length, off+n))
		return nil
	})
}

func (f *memFile) Sync() error {
	return f.do("sync", func() error {
		f.fs.syncLocked(f.ino, 0, f.ino.length)
		return nil
	})
}

func (f *memFile) dropUnsynced() error {
	return f.do("sync", func() error {
		f.ino.drop()
		return nil
	})
}

// syncLocked makes the content of [off, off+n) durable, and the length. What was stored through a mapping where no block
// was reserved gets its block now.
func (m *Mem) syncLocked(ino *inode, off, n int64) {
	for at := off - off%PageSize; at < min(off+n, ino.length); at += PageSize {
		if ino.blocks.lacks(at, 1) == 0 || isZero(ino.cachedPage(at)) {
			continue
		}
		if m.reserveLocked(ino, at, 1) != nil {
			panic("vfs.Mem: store into a hole of the file on a full disk: a memory fault on a real disk")
		}
	}
	ino.sync(off, n)
}

func (f *memFile) Map(size int64, mode MapMode) (Mapping, error) {
	mp := &memMapping{fs: f.fs, ino: f.ino, name: f.name, mode: mode}
	err := f.do("map", func() (err error) {
		if size <= 0 || int64(int(size)) != size {
			return fs.ErrInvalid
		}
		if mode == MapWrite && f.access != readWrite {
			return fs.ErrPermission
		}
		if mp.bytes, err = f.ino.share(size); err == nil {
			f.fs.handleLocked(f.ino).mappings++
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return mp, nil
}

// memMapping is a mapping: its bytes are the inode's own.
type memMapping struct {
	fs    *Mem
	ino   *inode
	name  string
	mode  MapMode
	bytes []byte // nil after Unmap
}

func (mp *memMapping) Bytes() []byte { return mp.bytes }

// do runs an operation on [off, off+n) of the mapping.
func (mp *memMapping) do(op string, off, n int64, body func() error) error {
	return mp.fs.do(op, mp.name, func() error {
		if mp.bytes == nil {
			return fs.ErrClosed
		}
		if !inRange(off, n, int64(len(mp.bytes))) {
			return fs.ErrInvalid
		}
		return body()
	})
}

func (mp *memMapping) Populate(off, n int64) error {
	return mp.do("populate", off, n, func() error {
		if n == 0 || mp.mode != MapWrite {
			return nil
		}
		if off+n > roundUp(mp.ino.length) {
			return syscall.EFAULT // beyond the end of the file
		}
		return mp.fs.reserveLocked(mp.ino, off, n)
	})
}

func (mp *memMapping) WillRead(_, _ int64) {}

func (mp *memMapping) Sync(off, n int64) error {
	return mp.do("msync", off, n, func() error {
		if n > 0 {
			mp.fs.syncLocked(mp.ino, off, n)
		}
		return nil
	})
}

func (mp *memMapping) dropUnsynced() error {
	return mp.do("msync", 0, 0, func() error {
		mp.ino.drop()
		return nil
	})
}

func (mp *memMapping) Unmap() error {
	return mp.do("unmap", 0, 0, func() error {
		mp.bytes = nil
		mp.fs.handleLocked(mp.ino).mappings--
		defer mp.fs.releaseLocked(mp.ino)
		mp.ino.unshare()
		return nil
	})
}
