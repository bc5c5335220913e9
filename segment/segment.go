package segment

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ottlalog/ottla/internal/vfs"
)

// MaxBytes is the largest capacity of a segment: positions in it are 32-bit.
const MaxBytes = math.MaxInt32

const (
	logSuffix   = ".log"
	indexSuffix = ".index"
)

// Name returns the name of the file of batches of the segment that begins at an offset.
func Name(base int64) string { return fmt.Sprintf("%020d%s", base, logSuffix) }

// ParseName returns the base offset in a file's name, and whether it is the name of a segment.
func ParseName(name string) (base int64, ok bool) {
	base, err := strconv.ParseInt(strings.TrimSuffix(name, logSuffix), 10, 64)
	return base, err == nil && base >= 0 && name == Name(base)
}

// Options are the limits of an active segment.
type Options struct {
	// Capacity is the most bytes of batches that it takes, at most MaxBytes. It costs address space, not disk.
	Capacity int64
	// MinFree is how many bytes of the disk appends leave free.
	MinFree int64
	// SmallPages says that each append is synced, so that the file must be cached page by page.
	SmallPages bool
}

// Segment is one file of batches. It is either active, with one writer, or sealed and read-only.
//
// Append, Sync, Seal, Close and Remove are the owner's: the owner calls them one at a time, except that Sync may run
// beside Append. All else is safe for concurrent use.
type Segment struct {
	fs   vfs.FS
	path string
	base int64

	// The writer stores the bytes, then next, then end: who reads end sees whole batches below it.
	end  atomic.Int64 // length of the published batches
	next atomic.Int64 // offset after the last of them

	w     *writer // nil once sealed; the owner's
	index atomic.Pointer[index]

	mu struct {
		sync.Mutex
		src  *source // what views read from; nil: sealed and not open
		gone error   // why there are no more views: ErrRemoved or ErrClosed
	}
}

// Create makes a new, active segment. Its name is durable after a sync of the folder. No disk space is taken before the
// first append.
func Create(fs vfs.FS, dir string, base int64, o Options) (*Segment, error) {
	path := filepath.Join(dir, Name(base))
	f, err := fs.Create(path)
	if err != nil {
		return nil, err
	}
	s := newSegment(fs, path, base, 0, base)
	if err := s.activate(f, o); err != nil {
		_ = f.Close()
		_ = fs.Remove(path)
		return nil, err
	}
	return s, nil
}

// OpenActive opens an existing segment whose batches end at byte end and offset next, to append to it. What the file
// holds beyond end is cut off.
func OpenActive(fs vfs.FS, dir string, base, end, next int64, o Options) (*Segment, error) {
	path := filepath.Join(dir, Name(base))
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	s := newSegment(fs, path, base, end, next)
	if err := s.reopen(f, o); err != nil {
		_ = f.Close()
		return nil, err
	}
	return s, nil
}

func (s *Segment) reopen(f vfs.File, o Options) error {
	size, err := f.Size()
	if err != nil {
		return err
	}
	if size < s.end.Load() {
		return &CorruptionError{Path: s.path, Start: size, End: s.end.Load(), FirstOffset: s.base, NextOffset: s.next.Load(),
			Err: fmt.Errorf("file has %d bytes of %d", size, s.end.Load())}
	}
	if size > s.end.Load() {
		if err := f.Truncate(s.end.Load()); err != nil {
			return err
		}
	}
	o.Capacity = max(o.Capacity, s.end.Load())
	return s.activate(f, o)
}

// OpenSealed returns a read-only segment whose batches fill the file's first size bytes and end at offset next. It
// touches no file.
func OpenSealed(fs vfs.FS, dir string, base, size, next int64) *Segment {
	s := newSegment(fs, filepath.Join(dir, Name(base)), base, size, next)
	s.index.Load().whole = true
	return s
}

func newSegment(fs vfs.FS, path string, base, end, next int64) *Segment {
	s := &Segment{fs: fs, path: path, base: base}
	s.end.Store(end)
	s.next.Store(next)
	s.index.Store(newIndex(end))
	return s
}

// Base returns the offset of the segment's first record.
func (s *Segment) Base() int64 { return s.base }

// Next returns the offset after the segment's last record.
func (s *Segment) Next() int64 { return s.next.Load() }

// Size returns the length of the published batches in bytes.
func (s *Segment) Size() int64 { return s.end.Load() }

// Path returns the name of the file of batches.
func (s *Segment) Path() string { return s.path }

func indexPath(path string) string { return strings.TrimSuffix(path, logSuffix) + indexSuffix }

// Remove deletes the segment's files. Views that are held stay readable. The removal is durable after a sync of the
// folder.
func (s *Segment) Remove() error {
	err := s.leave(ErrRemoved)
	return errors.Join(err, RemoveIndex(s.fs, s.path), removeIfThere(s.fs, s.path))
}

// Close gives the segment up without storing anything. Views that are held stay readable, but none of its files is opened
// any more: their names may be another log's from then on.
func (s *Segment) Close() error { return s.leave(ErrClosed) }

// leave ends what anybody does with the segment's names.
func (s *Segment) leave(cause error) error {
	s.mu.Lock()
	s.mu.gone = cause
	s.mu.Unlock()
	x := s.index.Load()
	x.mu.Lock() // nobody stores an index any more
	defer x.mu.Unlock()
	return s.closeWriter()
}
