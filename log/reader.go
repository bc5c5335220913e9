package log

import (
	"errors"
	"fmt"
	"io"
	"sort"

	"github.com/ottlalog/ottla/record"
	"github.com/ottlalog/ottla/segment"
)

// Reader reads a log's batches in order from an offset on. A Reader is for one goroutine; it never blocks appends.
type Reader struct {
	log     *Log
	next    int64                    // offset of the next record wanted; the cursor may still be on its way there
	cursor  cursor                   // closed: to be placed
	damaged *segment.CorruptionError // at the cursor; until Skip or SeekTo
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
	return r.cursor.close()
}

// Close gives the reader's hold on the log's files back. Closing twice is harmless.
func (r *Reader) Close() error { return r.cursor.close() }

// Next returns the next batch that lies wholly below bound; records in it that are below Offset were asked to be left
// out. The batch lives until the next call of any method.
//
// io.EOF: there is none yet, the reader stays where it is. *OffsetError: retention has passed by; SeekTo. An error that
// matches ErrCorrupt is a *segment.CorruptionError and comes again until Skip or SeekTo. ErrClosed after the log's Close.
// Other errors are about reading; the reader stays where it is.
func (r *Reader) Next(bound int64) (record.Batch, error) {
	for r.damaged == nil && r.next < bound {
		if err := r.passedBy(); err != nil {
			return record.Batch{}, err
		}
		if !r.cursor.isOpen() {
			if err := r.locate(); err != nil {
				return record.Batch{}, err
			}
			continue
		}
		batch, err := r.cursor.peek()
		switch {
		case err == nil:
			h := batch.Header()
			if h.NextOffset() > bound {
				r.cursor.drop() // read again when the bound has moved: above it nothing is final
				return record.Batch{}, io.EOF
			}
			r.cursor.step(h)
			if h.NextOffset() > r.next {
				r.next = h.NextOffset()
				return batch, nil
			}
		case err == io.EOF:
			err = r.leave()
		case errors.Is(err, ErrCorrupt):
			err = r.meet(err)
		}
		if err != nil {
			return record.Batch{}, r.explain(err)
		}
	}
	if r.damaged != nil {
		return record.Batch{}, r.damaged
	}
	return record.Batch{}, io.EOF
}

// Decompress returns a batch of the log uncompressed, in memory that is the caller's: see [record.Batch.Decompress]. What is
// more than 64 MiB, and more than twice Config.MaxRecordBytes, is a *record.SizeError.
func (l *Log) Decompress(b record.Batch, buf []byte) (record.Batch, error) {
	return b.Decompress(buf, l.cfg.decompressed())
}

// passedBy is the error of a reader that retention has overtaken.
func (r *Reader) passedBy() error {
	if start := r.log.start.Load(); r.next < start {
		return &OffsetError{Asked: r.next, Start: start, End: r.log.end.Load()}
	}
	return nil
}

// explain says why reading failed, where it is the log that has moved on.
func (r *Reader) explain(err error) error {
	if passed := r.passedBy(); passed != nil {
		return passed
	}
	if r.log.stable.Err() != nil {
		return ErrClosed
	}
	return err
}

// locate places the cursor in the segment that holds next, at or before its batch.
func (r *Reader) locate() error {
	if r.log.stable.Err() != nil {
		return ErrClosed
	}
	for {
		list := r.log.segments.Load()
		segs := *list
		i := after(segs, r.next) - 1
		if i < 0 {
			return r.beforeFirst(segs)
		}
		err := r.enter(segs[i])
		if errors.Is(err, segment.ErrRemoved) && r.log.segments.Load() != list {
			continue
		}
		if err != nil {
			return r.explain(err)
		}
		return nil
	}
}

func (r *Reader) enter(s *segment.Segment) error {
	v, err := s.Acquire()
	if err != nil {
		return err
	}
	at, err := s.Lookup(r.next)
	if err != nil {
		return errors.Join(err, v.Release())
	}
	r.cursor.open(v, at)
	return nil
}

// after returns the index of the first segment that begins above an offset.
func after(segs []*segment.Segment, offset int64) int {
	return sort.Search(len(segs), func(i int) bool { return segs[i].Base() > offset })
}

// beforeFirst decides what it means that no segment begins at or before next.
func (r *Reader) beforeFirst(segs []*segment.Segment) error {
	if err := r.passedBy(); err != nil {
		return err
	}
	if len(segs) == 0 {
		return io.EOF
	}
	return r.found(missingBefore(segs[0].Path(), r.next, segs[0].Base()))
}

// leave goes on where the segment's published bytes end, or returns io.EOF when the log ends there too.
func (r *Reader) leave() error {
	end := r.log.end.Load() // before the look at the segments: they hold what is below it, or it is gone
	segs := *r.log.segments.Load()
	seg, at := r.cursor.view.Segment(), r.cursor.at
	i := after(segs, seg.Base())
	switch {
	case i == 0 || segs[i-1] != seg:
		return r.cursor.close() // removed, reopened for appending, or given more room: look again
	case at.Pos < seg.Size():
		return nil // it has grown
	case i < len(segs) && at.Offset < segs[i].Base():
		return r.meet(fmt.Errorf("%w: the segment ends at offset %d, the next begins at %d", ErrCorrupt, at.Offset, segs[i].Base()))
	case i < len(segs):
		return r.cursor.close()
	case at.Offset < end:
		return r.meet(fmt.Errorf("%w: the log ends at offset %d, its batches at %d", ErrCorrupt, end, at.Offset))
	}
	r.cursor.drop()
	return io.EOF
}

// meet decides what it means that no good batch stands at the cursor: it is an error if offsets are missing that are
// wanted, and otherwise a place to pass.
func (r *Reader) meet(cause error) error {
	end := r.log.end.Load() // before the search: what is appended meanwhile lies behind
	d, toEnd, err := r.cursor.damage(cause)
	if err != nil {
		return err
	}
	if toEnd {
		d.NextOffset = max(d.FirstOffset, end)
		segs := *r.log.segments.Load()
		if i := after(segs, r.cursor.view.Segment().Base()); i < len(segs) {
			d.NextOffset = max(d.FirstOffset, segs[i].Base())
		}
	}
	if d.NextOffset > r.next {
		return r.found(d)
	}
	r.pass(d)
	return nil
}

// found stops the reader at damage.
func (r *Reader) found(d *segment.CorruptionError) error {
	r.damaged = d
	r.log.damages.add(d)
	return d
}

// pass steps over damage.
func (r *Reader) pass(d *segment.CorruptionError) {
	r.next = max(r.next, d.NextOffset)
	if r.cursor.isOpen() {
		r.cursor.jump(segment.Place{Pos: d.End, Offset: d.NextOffset})
	}
}

// Skip steps over the damage that Next reported: the reader goes on with the next good batch. Without damage it does
// nothing.
func (r *Reader) Skip() error {
	if d := r.damaged; d != nil {
		r.damaged = nil
		r.pass(d)
	}
	return nil
}
