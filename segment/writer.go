package segment

import (
	"errors"
	"fmt"
	"runtime/debug"

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
	file     vfs.File
	mem      []byte // the writable mapping
	mapping  vfs.Mapping
	Options
	reserved int64 // bytes of the file that have their blocks and their pages
	synced   int64 // bytes known to be on the disk
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
func (s *Segment) Append(h record.BatchHeader, l record.Layout, recs []record.Record) error {
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
	if err := s.put(pos, h, l, recs); err != nil {
		s.wipe(pos, end)
		return err
	}
	s.index.add(h.BaseOffset-s.base, pos, l.MaxTimestamp)
	s.next.Store(h.BaseOffset + int64(len(recs)))
	s.end.Store(end)
	return nil
}

func (s *Segment) put(pos int64, h record.BatchHeader, l record.Layout, recs []record.Record) (err error) {
	mem := s.w.mem
	defer guard(debug.SetPanicOnFault(true), mem, s.path, &err)
	l.Put(mem[pos:pos+int64(l.Size)], h, recs)
	return nil
}

// wipe clears what a failed put may have left, so that neither a later batch nor a recovery finds it.
func (s *Segment) wipe(pos, end int64) {
	var err error // a second fault on the same page changes nothing: the segment is given up
	defer guard(debug.SetPanicOnFault(true), s.w.mem, s.path, &err)
	clear(s.w.mem[pos:end])
}

// reserve gets the blocks and the pages for stores below end, before the first of them.
func (s *Segment) reserve(end int64) error {
	w := s.w
	step := min(max(w.reserved, growMin), growMax)
	to := min(max(w.reserved+step, end), w.Capacity)
	if err := CheckFree(s.fs, s.path, to-w.reserved+w.MinFree); err != nil {
		return err
	}
	if err := w.file.Allocate(w.reserved, to-w.reserved); err != nil {
		return err
	}
	if err := w.mapping.Populate(w.reserved, to-w.reserved); err != nil {
		return err
	}
	w.reserved = to
	return nil
}

// Sync makes every batch published before the call durable. It may run beside Append, not beside itself.
func (s *Segment) Sync() error {
	end := s.end.Load()
	if s.w == nil || end == s.w.synced {
		return nil
	}
	if err := s.w.mapping.Sync(s.w.synced, end-s.w.synced); err != nil {
		return err
	}
	s.w.synced = end
	return nil
}

// Seal ends appending: batches and index are durable when it returns, the file has the length of its batches, and
// views taken from then on read the file. The names are durable after a sync of the folder.
func (s *Segment) Seal() error {
	if s.w == nil {
		return nil
	}
	if err := s.trim(); err != nil {
		return err
	}
	if err := s.writeIndex(); err != nil {
		return err
	}
	err := s.closeWriter()
	s.index.sealed(s.end.Load())
	return err
}

// trim makes the batches durable and gives back the space reserved beyond them.
func (s *Segment) trim() error {
	end := s.end.Load()
	if s.w.reserved > end {
		if err := s.w.file.Truncate(end); err != nil {
			return err
		}
		s.w.reserved = end
	}
	if err := s.w.file.Sync(); err != nil {
		return err
	}
	s.w.synced = end
	return nil
}

// Close seals an active segment, if it holds anything new, so that the next process finds it as it was left. When that
// fails, memory and file are given back all the same.
func (s *Segment) Close() error {
	if s.w == nil {
		return nil
	}
	return errors.Join(s.Seal(), s.closeWriter())
}

// Abandon gives an active segment's memory and file back without storing anything: for a log that has failed.
func (s *Segment) Abandon() error { return s.closeWriter() }

// closeWriter drops the owner's hold on the mappings; they go with the last view.
func (s *Segment) closeWriter() error {
	if s.w == nil {
		return nil
	}
	s.w = nil
	s.mu.Lock()
	src := s.mu.src
	s.mu.src = nil
	s.mu.Unlock()
	return s.releaseSource(src)
}

// Truncate cuts an active segment back to its first end bytes, after which offset next follows. The bytes behind are
// gone from the file when it returns, so that no crash brings them back.
func (s *Segment) Truncate(end, next int64) error {
	s.end.Store(end)
	s.next.Store(next)
	s.index.cut(end)
	s.w.reserved = max(s.w.reserved, end+1) // so that trim truncates
	return s.trim()
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
