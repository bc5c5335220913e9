package vfs

import (
	"io"
	"io/fs"
	"os"
	"sync"
)

// osFile is an open file of the host.
type osFile struct {
	f *os.File

	// length is held for writing by what decides by the file's length and then sets it, for reading by what may extend
	// the file on the way.
	length sync.RWMutex
}

func (f *osFile) Name() string { return f.f.Name() }

func (f *osFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.f.ReadAt(p, off)
	return n, wrap("read", f.Name(), err)
}

func (f *osFile) WriteAt(p []byte, off int64) (int, error) {
	f.length.RLock()
	defer f.length.RUnlock()
	n, err := f.f.WriteAt(p, off)
	return n, wrap("write", f.Name(), err)
}

func (f *osFile) Close() error { return wrap("close", f.Name(), f.f.Close()) }

// Size asks for the end and not for a stat: after a stat Linux (from 6.13 on, multigrain timestamps) gives the next store a
// time of its own, and the next sync takes a third longer.
func (f *osFile) Size() (int64, error) {
	n, err := f.f.Seek(0, io.SeekEnd) // nothing else uses the file's position
	return n, wrap("size", f.Name(), err)
}

func (f *osFile) Truncate(size int64) error {
	f.length.Lock()
	defer f.length.Unlock()
	return wrap("truncate", f.Name(), f.f.Truncate(size))
}

func (f *osFile) Allocate(off, n int64) error {
	if off < 0 || n <= 0 || off+n < 0 {
		return wrap("allocate", f.Name(), fs.ErrInvalid)
	}
	f.length.Lock()
	defer f.length.Unlock()
	old, err := f.Size()
	if err != nil {
		return err
	}
	err = allocate(f.f, old, off, n)
	if err == nil {
		return nil
	}
	// Some file systems have extended the file by what they found room for.
	if now, serr := f.Size(); serr == nil && now > old {
		f.f.Truncate(old)
	}
	return wrap("allocate", f.Name(), err)
}

func (f *osFile) Sync() error { return wrap("sync", f.Name(), syncFile(f.f)) }

func (f *osFile) Map(size int64, mode MapMode) (Mapping, error) {
	if size <= 0 || int64(int(size)) != size {
		return nil, wrap("map", f.Name(), fs.ErrInvalid)
	}
	m, err := mapFile(f.f, int(size), mode)
	if err != nil {
		return nil, wrap("map", f.Name(), err)
	}
	return m, nil
}

// osMapping is a mapping of a file of the host.
type osMapping struct {
	name  string
	bytes []byte
	sys   mappingSys // what else the system needs to sync the mapping and to explain its failures
}

func (m *osMapping) Bytes() []byte { return m.bytes }

func (m *osMapping) Populate(off, n int64) error {
	pages, err := m.pages(off, n)
	if err == nil && len(pages) > 0 {
		err = m.populate(pages, off, n)
	}
	return wrap("populate", m.name, err)
}

func (m *osMapping) WillRead(off, n int64) {
	if pages, err := m.pages(off, n); err == nil && len(pages) > 0 {
		willRead(pages)
	}
}

func (m *osMapping) Sync(off, n int64) error {
	pages, err := m.pages(off, n)
	if err == nil && len(pages) > 0 {
		err = m.sync(pages)
	}
	return wrap("msync", m.name, err)
}

func (m *osMapping) Unmap() error {
	if m.bytes == nil {
		return wrap("unmap", m.name, fs.ErrClosed)
	}
	b := m.bytes
	m.bytes = nil
	return wrap("unmap", m.name, m.unmap(b))
}

// pages returns the mapped bytes [off, off+n), begun at the start of a page as the system wants it.
func (m *osMapping) pages(off, n int64) ([]byte, error) {
	if m.bytes == nil {
		return nil, fs.ErrClosed
	}
	if !inRange(off, n, int64(len(m.bytes))) {
		return nil, fs.ErrInvalid
	}
	if n == 0 {
		return nil, nil
	}
	return m.bytes[off-off%int64(os.Getpagesize()) : off+n], nil
}
