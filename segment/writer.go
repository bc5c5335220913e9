package segment

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/record"
)

// The file grows beneath its mapping in steps that double from growMin to growMax, so that an idle partition takes
// little of the disk and a busy one rarely asks for more.
const (
	growMin = 64 << 10
	growMax = 4 << 20
)

// writer is what only an active segment has.
type writer struct {
	file    vfs.File
	mem     []byte // the writable mapping
	mapping vfs.Mapping
	Options
	reserved int64  // bytes of the file that have their blocks and their pages
	ahead    *ahead // the step after that, while it is readied
	synced   int64  // bytes known to be on the disk
}

// activate maps the file for writing and for reading.
func (s *Segment) activate(f vfs.File, o Options) error {
	if o.Capacity > MaxBytes {
		return errors.New("segment: capacity beyond MaxBytes")
	}
	write, err := f.Map(o.Capacity, vfs.MapWrite)
	if err != nil {
		return err
	}
	read, err := f.Map(o.Capacity, vfs.MapRead)
	if err != nil {
		_ = write.Unmap()
		return err
	}
	end := s.end.Load()
	s.w = &writer{file: f, mem: write.Bytes(), mapping: write, Options: o, reserved: end, synced: end}
	s.mu.src = &source{refs: 1, mapping: read, release: func() error {
		return errors.Join(read.Unmap(), write.Unmap(), f.Close())
	}}
	return nil
}

// Append stores one batch of the records, planned as l, and publishes it. h carries base offset, epoch, attributes and
// producer. Until it returns nil, nothing of the batch can be seen.
//
// ErrFull when the batch doesn't fit, an error that matches vfs.ErrNoSpace when the disk is full: both leave the segment
// as it was. After any other error the segment must not be appended to.
func (s *Segment) Append(h *record.BatchHeader, l *record.Layout, recs []record.Record) error {
	pos := s.end.Load()
	end := pos + int64(l.Size)
	if end > s.w.Capacity {
		return ErrFull
	}
	if end > s.w.reserved {
		if err := s.reserve(end); err != nil {
			return err
		}
	}
	s.w.growAhead(s.fs, s.path, end)
	if err := s.put(pos, h, l, recs); err != nil {
		return err
	}
	maxTime := l.MaxTimestamp
	if h.Attributes.LogAppendTime() {
		maxTime = h.MaxTimestamp
	}
	s.index.Load().add(h.BaseOffset-s.base, pos, maxTime)
	s.next.Store(h.BaseOffset + int64(len(recs)))
	s.end.Store(end)
	return nil
}

// put stores the batch. When that fails, by a fault or because someone changes the records meanwhile, which is a panic of
// record's, it clears what it has stored: neither a later batch nor a recovery may find it.
func (s *Segment) put(pos int64, h *record.BatchHeader, l *record.Layout, recs []record.Record) (err error) {
	dst := s.w.mem[pos : pos+int64(l.Size)]
	stored := false
	defer func() {
		if !stored {
			s.wipe(dst)
		}
	}()
	defer guard(debug.SetPanicOnFault(true), s.w.mem, s.path, &err)
	l.Put(dst, *h, recs)
	stored = true
	return nil
}

func (s *Segment) wipe(dst []byte) {
	var err error // a second fault on the same page changes nothing: the segment is given up
	defer guard(debug.SetPanicOnFault(true), s.w.mem, s.path, &err)
	clear(dst)
}

// reserve gets the blocks and the pages for stores below end, before the first of them: a step ahead, or where the disk
// has no room for that, what is needed.
func (s *Segment) reserve(end int64) error {
	w := s.w
	w.join()
	if end <= w.reserved {
		return nil
	}
	step := min(max(w.reserved, growMin), growMax)
	to := min(max(w.reserved+step, end), w.Capacity)
	err := w.ready(s.fs, s.path, w.reserved, to)
	if exact := min((end+vfs.PageSize-1)/vfs.PageSize*vfs.PageSize, to); errors.Is(err, vfs.ErrNoSpace) && exact < to {
		to = exact
		err = w.ready(s.fs, s.path, w.reserved, to)
	}
	if err == nil {
		w.reserved = to
	}
	return err
}

// Sync makes every batch published before the call durable. It may run beside Append, not beside itself. A file that has
// become shorter than its batches is an error: syncing what is left would prove nothing.
func (s *Segment) Sync() error {
	end := s.end.Load()
	if s.w == nil || end == s.w.synced {
		return nil
	}
	if err := s.w.mapping.Sync(s.w.synced, end-s.w.synced); err != nil {
		return err
	}
	if err := s.checkLength(end); err != nil {
		return err
	}
	s.w.synced = end
	return nil
}

// checkLength finds out that another has cut the file short, which a sync doesn't and a truncation would hide.
func (s *Segment) checkLength(end int64) error {
	size, err := s.w.file.Size()
	if err == nil && size < end {
		err = &FaultError{Path: s.path, Pos: size}
	}
	return err
}

// Seal ends appending: batches and index are durable when it returns, the file has the length of its batches, and
// views taken from then on read the file. The names are durable after a sync of the folder.
//
// An index that can't be stored, on a full disk say, is no failure: it is derived, and stays in memory.
func (s *Segment) Seal() error {
	if s.w == nil {
		return nil
	}
	if err := s.trim(); err != nil {
		return err
	}
	x := newIndex(s.end.Load())
	x.whole = true
	if p, err := s.writeIndex(); err != nil && p != nil {
		x.head.Store(p)
	}
	s.index.Store(x)
	return s.closeWriter()
}

// writeIndex stores the index of everything published. It returns the index also when only the storing failed.
func (s *Segment) writeIndex() (*part, error) {
	p, err := s.all(s.index.Load())
	if err != nil {
		return nil, err
	}
	p.sealedAt = time.Now().UnixMilli()
	v, err := s.Acquire()
	if err != nil {
		return p, err
	}
	return p, errors.Join(s.storeIndex(v, s.end.Load(), p), v.Release())
}

// trim makes the batches durable and gives back the space reserved beyond them.
func (s *Segment) trim() error {
	s.w.join()
	end := s.end.Load()
	if err := s.checkLength(end); err != nil {
		return err
	}
	if err := s.w.file.Truncate(end); err != nil {
		return err
	}
	s.w.reserved = end
	if err := s.w.file.Sync(); err != nil {
		return err
	}
	s.w.synced = end
	return nil
}

// Abandon gives an active segment's memory and file back without storing anything: for one that another takes the place of.
func (s *Segment) Abandon() error { return s.closeWriter() }

// closeWriter drops the owner's hold on the mappings; they go with the last view.
func (s *Segment) closeWriter() error {
	if s.w == nil {
		return nil
	}
	s.w.join()
	s.w = nil
	s.mu.Lock()
	src := s.mu.src
	s.mu.src = nil
	s.mu.Unlock()
	return s.releaseSource(src)
}

// CheckFree returns an error that matches vfs.ErrNoSpace when fewer than need bytes are free on the disk that holds path.
func CheckFree(fs vfs.FS, path string, need int64) error {
	free, err := fs.Free(path)
	if err != nil {
		return err
	}
	if free < need {
		return fmt.Errorf("%s: %d bytes free, %d needed: %w", path, free, need, vfs.ErrNoSpace)
	}
	return nil
}
