package segment

import (
	"errors"
	"io"
	"io/fs"
	"runtime/debug"

	"github.com/ottlalog/ottla/internal/vfs"
)

// source is what a segment's bytes are read from: a read-only mapping while the segment is written to, the file once it
// is sealed. Cold, sealed bytes are copied by the kernel (pread) and not through a mapping: a page that has to come from
// the disk then blocks one system call and not a scheduler thread, and a disk that fails is an error and not a fault.
type source struct {
	refs    int // guarded by Segment.mu; the owner of an active segment holds one
	mapping vfs.Mapping
	file    vfs.File
	release func() error // nil: close what is above
}

func (src *source) close() error {
	if src.release != nil {
		return src.release()
	}
	return src.file.Close()
}

// View is a held access to a segment's published bytes. While it is held neither mapping nor file go away, even when the
// segment is sealed, removed or its log closed. A View is used by one goroutine at a time.
type View struct {
	seg *Segment
	src *source
}

// Acquire returns a view, to be released.
func (s *Segment) Acquire() (View, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.gone != nil {
		return View{}, s.mu.gone
	}
	if s.mu.src == nil {
		f, err := s.fs.OpenRead(s.path)
		if err != nil {
			return View{}, err
		}
		s.mu.src = &source{file: f}
	}
	s.mu.src.refs++
	return View{seg: s, src: s.mu.src}, nil
}

// Release gives the view back.
func (v View) Release() error { return v.seg.releaseSource(v.src) }

// Segment returns the segment that is viewed, nil for the zero View.
func (v View) Segment() *Segment { return v.seg }

func (s *Segment) releaseSource(src *source) error {
	s.mu.Lock()
	src.refs--
	last := src.refs == 0
	if last && s.mu.src == src {
		s.mu.src = nil
	}
	s.mu.Unlock()
	if last {
		return src.close()
	}
	return nil
}

// ReadAt copies published bytes that begin at pos into dst. It returns fewer than len(dst) where the published bytes end,
// and then no error, or with an error, those before the bad place. A file that is shorter than what was published is
// io.ErrUnexpectedEOF, a memory fault a *FaultError.
func (v View) ReadAt(dst []byte, pos int64) (n int, err error) {
	if left := v.seg.end.Load() - pos; int64(len(dst)) > left {
		dst = dst[:max(left, 0)]
	}
	if len(dst) == 0 {
		return 0, nil
	}
	if v.src.mapping != nil {
		return v.copyMapped(dst, pos)
	}
	n, err = v.src.file.ReadAt(dst, pos)
	if n == len(dst) {
		return n, nil
	}
	if errors.Is(err, io.EOF) {
		err = &fs.PathError{Op: "read", Path: v.seg.path, Err: io.ErrUnexpectedEOF}
	}
	return n, err
}

func (v View) copyMapped(dst []byte, pos int64) (n int, err error) {
	if n, err = v.copyGuarded(dst, pos); err == nil {
		return n, nil
	}
	for n = 0; n < len(dst); { // page by page: a copy doesn't go from front to back
		at := pos + int64(n)
		page := dst[n:min(len(dst), n+int(vfs.PageSize-at%vfs.PageSize))]
		if _, err = v.copyGuarded(page, at); err != nil {
			return n, err
		}
		n += len(page)
	}
	return n, nil
}

func (v View) copyGuarded(dst []byte, pos int64) (n int, err error) {
	mem := v.src.mapping.Bytes()
	defer guard(debug.SetPanicOnFault(true), mem, v.seg.path, &err)
	return copy(dst, mem[pos:]), nil
}

func removeIfThere(fsys vfs.FS, name string) error {
	if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
