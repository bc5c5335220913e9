package log

import (
	"errors"
	"fmt"
	"io"
	"sort"

	"github.com/ottlalog/ottla/record"
	"github.com/ottlalog/ottla/segment"
)

// readChunk is how much a reader copies out of a segment at once: enough to make the copy's fixed costs small, little
// enough to stay in the processor's cache until it is decoded.
const readChunk = 64 << 10

// Reader reads a log's batches in order from an offset on. It copies them, a stretch at a time, into a buffer of its own
// and verifies and decodes them there: what it returns is never a window into a file that may be cut short or unmapped,
// and what was verified can't change any more. A Reader is for one goroutine; it never blocks appends.
type Reader struct {
	log  *Log
	next int64 // offset of the next record wanted

	view    segment.View
	pos     int64  // in the segment: of the next batch
	buf     []byte // the segment's bytes from pos on; a part of store
	store   []byte
	damaged *segment.CorruptionError // at pos; until Skip or SeekTo
	skipTo  int64                    // position behind the damage, in this segment
}

// NewReader returns a reader that begins with the batch that holds an offset: from the log start up to and including the
// log end. Another offset is an *OffsetError. The reader is to be closed.
func (l *Log) NewReader(offset int64) (*Reader, error) {
	r := &Reader{log: l}
	return r, r.SeekTo(offset)
}

// Offset returns the offset of the next record that the reader wants.
func (r *Reader) Offset() int64 { return r.next }

// SeekTo moves the reader, under the same rules as NewReader.
func (r *Reader) SeekTo(offset int64) error {
	if start, end := r.log.start.Load(), r.log.end.Load(); offset < start || offset > end {
		return &OffsetError{Asked: offset, Start: start, End: end}
	}
	r.next = offset
	r.damaged = nil
	return r.release()
}

// Close gives the reader's hold on the log's files back. Closing twice is harmless.
func (r *Reader) Close() error {
	r.store = nil
	return r.release()
}

func (r *Reader) release() error {
	r.buf = nil
	if r.view.Segment() == nil {
		return nil
	}
	v := r.view
	r.view = segment.View{}
	return v.Release()
}

// Next returns the next batch that lies wholly below bound; records in it that are below Offset were asked to be left
// out. The batch lives until the next call of any method.
//
// io.EOF: there is none yet, the reader stays where it is. *OffsetError: retention has passed by; SeekTo. An error that
// matches ErrCorrupt is a *segment.CorruptionError and comes again until Skip or SeekTo. ErrClosed after the log's Close.
func (r *Reader) Next(bound int64) (record.Batch, error) {
	if r.damaged != nil {
		return record.Batch{}, r.damaged
	}
	for r.next < bound {
		if start := r.log.start.Load(); r.next < start {
			return record.Batch{}, &OffsetError{Asked: r.next, Start: start, End: r.log.end.Load()}
		}
		batch, err := r.step(bound)
		if err != nil {
			return record.Batch{}, err
		}
		if h := batch.Header(); h.NextOffset() > r.next {
			r.next = h.NextOffset()
			return batch, nil
		}
	}
	return record.Batch{}, io.EOF
}

// step returns the batch at pos, whether wanted or not, and goes behind it.
func (r *Reader) step(bound int64) (record.Batch, error) {
	for {
		if r.view.Segment() == nil {
			if err := r.locate(); err != nil {
				return record.Batch{}, err
			}
		}
		batch, err := record.Parse(r.buf)
		if err == nil {
			h := batch.Header()
			if h.NextOffset() > bound {
				r.buf = nil // read again when the bound has moved: above it nothing is final
				return record.Batch{}, io.EOF
			}
			if h.BaseOffset > r.next {
				return record.Batch{}, r.corrupt(fmt.Errorf("%w: batch with offset %d where %d follows", ErrCorrupt, h.BaseOffset, r.next))
			}
			r.pos += int64(h.Size())
			r.buf = r.buf[h.Size():]
			return batch, nil
		}
		if !errors.Is(err, record.ErrIncomplete) {
			return record.Batch{}, r.corrupt(err)
		}
		more, err := r.fill()
		if err != nil {
			return record.Batch{}, err
		}
		if more {
			continue
		}
		if err := r.leaveSegment(); err != nil {
			return record.Batch{}, err
		}
	}
}

// locate finds the segment and the position of the batch that holds next, or one before it.
func (r *Reader) locate() error {
	for {
		segs := *r.log.segments.Load()
		i := sort.Search(len(segs), func(i int) bool { return segs[i].Base() > r.next }) - 1
		if i < 0 {
			return r.nothing()
		}
		v, err := segs[i].Acquire()
		if errors.Is(err, segment.ErrRemoved) && r.next >= r.log.start.Load() {
			continue // the list was replaced meanwhile
		}
		if err != nil {
			return r.readError(err)
		}
		pos, err := segs[i].Lookup(r.next)
		if err != nil {
			_ = v.Release()
			return r.readError(err)
		}
		r.view, r.pos, r.buf = v, pos, nil
		return nil
	}
}

// nothing is the error where no segment holds the offset.
func (r *Reader) nothing() error {
	if start := r.log.start.Load(); r.next < start {
		return &OffsetError{Asked: r.next, Start: start, End: r.log.end.Load()}
	}
	return r.closedOr(io.EOF)
}

func (r *Reader) closedOr(err error) error {
	if r.log.stable.Err() != nil {
		return ErrClosed
	}
	return err
}

// readError makes an error of reading one of the reader.
func (r *Reader) readError(err error) error {
	if start := r.log.start.Load(); r.next < start {
		return &OffsetError{Asked: r.next, Start: start, End: r.log.end.Load()}
	}
	return r.closedOr(err)
}

// fill gets more of the segment into buf: a chunk, or the whole of a batch that is longer. It returns false where the
// published bytes end.
func (r *Reader) fill() (bool, error) {
	left := r.view.Segment().Size() - r.pos
	if left <= int64(len(r.buf)) {
		return false, nil
	}
	want := min(left, readChunk)
	if len(r.buf) >= record.HeaderSize { // its header is good, or Parse had said so
		h, err := record.ParseHeader(r.buf)
		if err != nil {
			return false, r.corrupt(err)
		}
		if want = max(want, int64(h.Size())); want > left {
			return false, r.corrupt(fmt.Errorf("%w: batch of %d bytes where %d are left", ErrCorrupt, h.Size(), left))
		}
	}
	if int64(cap(r.store)) < want {
		r.store = make([]byte, max(want, min(2*int64(cap(r.store)), readChunk)))
	}
	n, err := r.view.ReadAt(r.store[:want], r.pos)
	if err != nil {
		r.buf = nil
		return false, r.readError(err)
	}
	r.buf = r.store[:n]
	return true, nil
}

// leaveSegment goes on to the segment behind, or returns io.EOF when this one is the last.
func (r *Reader) leaveSegment() error {
	seg := r.view.Segment()
	segs := *r.log.segments.Load()
	i := sort.Search(len(segs), func(i int) bool { return segs[i].Base() > seg.Base() })
	switch {
	case i == 0 || segs[i-1] != seg:
		return r.release() // removed, reopened for appending, or given more room: look again
	case i < len(segs) && r.pos+int64(len(r.buf)) < seg.Size():
		return nil // it grew before it was rolled
	case len(r.buf) > 0:
		return r.corrupt(fmt.Errorf("%w: half a batch at the end of the segment", ErrCorrupt))
	case i == len(segs):
		return r.atEnd(seg)
	case r.next < segs[i].Base():
		return r.corrupt(fmt.Errorf("%w: the segment ends at offset %d, the next begins at %d", ErrCorrupt, r.next, segs[i].Base()))
	}
	return r.release()
}

// atEnd decides what it means that the last segment has no more.
func (r *Reader) atEnd(seg *segment.Segment) error {
	if r.log.stable.Err() != nil {
		return ErrClosed
	}
	if end := r.log.end.Load(); !seg.Active() && r.next < end && seg.Next() == end && r.pos >= seg.Size() {
		return r.corrupt(fmt.Errorf("%w: the log ends at offset %d, its batches at %d", ErrCorrupt, end, r.next))
	}
	r.buf = nil
	if cap(r.store) > pageSize {
		r.store = nil // a reader that waits holds little memory
	}
	return io.EOF
}

const pageSize = 4096

// corrupt describes the damage at pos, and remembers it for Skip.
func (r *Reader) corrupt(cause error) error {
	seg := r.view.Segment()
	end, next, err := r.view.Resync(r.pos, r.next)
	if err != nil {
		return r.readError(err)
	}
	if end == seg.Size() {
		next = r.log.end.Load()
		segs := *r.log.segments.Load()
		if i := sort.Search(len(segs), func(i int) bool { return segs[i].Base() > seg.Base() }); i < len(segs) {
			next = segs[i].Base()
		}
	}
	r.damaged = &segment.CorruptionError{Path: seg.Path(), Start: r.pos, End: end, FirstOffset: r.next, NextOffset: next, Err: cause}
	return r.damaged
}

// Skip steps over the damage that Next reported: the reader goes on with the next good batch. Without damage it does
// nothing.
func (r *Reader) Skip() error {
	if r.damaged == nil {
		return nil
	}
	d := r.damaged
	r.damaged = nil
	r.next = max(r.next, d.NextOffset)
	r.pos, r.buf = d.End, nil
	if d.End < r.view.Segment().Size() {
		return nil
	}
	return r.release()
}
