package log

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/ottlalog/ottla/record"
	"github.com/ottlalog/ottla/segment"
)

// readChunk is how much a cursor copies out of a segment at once: enough to make the copy's fixed costs small, little
// enough to stay in the processor's cache until it is decoded.
const readChunk = 64 << 10

// chunks has the buffers of cursors that don't wait at the end.
var chunks = sync.Pool{New: func() any { return new([readChunk]byte) }}

// cursor walks over the batches of one segment. It copies them, a stretch at a time, into a buffer of its own and
// verifies them there: what it returns is never a window into a file that may be cut short or unmapped, and what was
// verified can't change any more.
type cursor struct {
	view  segment.View
	at    segment.Place    // of the next batch: offsets are dense, so its offset is known before it is read
	buf   []byte           // the segment's bytes from there on
	chunk *[readChunk]byte // what buf is a part of, unless a batch is larger
}

// open places the cursor, which must be closed or new. The view is the cursor's from then on.
func (c *cursor) open(v segment.View, at segment.Place) {
	c.view, c.at = v, at
}

func (c *cursor) isOpen() bool { return c.view.Segment() != nil }

func (c *cursor) close() error {
	c.drop()
	if !c.isOpen() {
		return nil
	}
	v := c.view
	c.view = segment.View{}
	return v.Release()
}

// drop forgets what was read ahead, so that a cursor that waits holds little memory.
func (c *cursor) drop() {
	c.buf = nil
	if c.chunk != nil {
		chunks.Put(c.chunk)
		c.chunk = nil
	}
}

// peek returns the batch at the cursor, good until the next call of any method but step. io.EOF: the published bytes end
// here. Errors that match ErrCorrupt: no good batch stands here. Others: reading failed.
func (c *cursor) peek() (record.Batch, error) {
	for {
		batch, err := record.Parse(c.buf)
		if err == nil {
			if off := batch.Header().BaseOffset; off != c.at.Offset {
				return record.Batch{}, fmt.Errorf("%w: batch with offset %d where %d follows", ErrCorrupt, off, c.at.Offset)
			}
			return batch, nil
		}
		if !errors.Is(err, record.ErrIncomplete) {
			return record.Batch{}, err
		}
		if err := c.fill(); err != nil {
			return record.Batch{}, err
		}
	}
}

// step goes behind the batch that peek has returned.
func (c *cursor) step(h record.BatchHeader) {
	c.at = segment.Place{Pos: c.at.Pos + int64(h.Size()), Offset: h.NextOffset()}
	c.buf = c.buf[h.Size():]
}

// jump goes to another place in the segment.
func (c *cursor) jump(to segment.Place) {
	c.at, c.buf = to, nil
}

// fill gets more into buf, which holds no whole batch: a chunk, or all of a batch that is longer.
func (c *cursor) fill() error {
	left := c.view.Segment().Size() - c.at.Pos
	if left <= int64(len(c.buf)) { // bytes are published in whole batches
		if len(c.buf) == 0 {
			return io.EOF
		}
		return fmt.Errorf("%w: half a batch of %d bytes at the end of the segment", ErrCorrupt, left)
	}
	want := min(left, readChunk)
	if len(c.buf) >= record.HeaderSize {
		h, err := record.ParseHeader(c.buf)
		if err != nil {
			return err
		}
		if want = max(want, int64(h.Size())); want > left {
			return fmt.Errorf("%w: batch of %d bytes where %d are left", ErrCorrupt, h.Size(), left)
		}
	}
	dst := c.room(want)
	had := len(c.buf)
	n, err := c.view.ReadAt(dst, c.at.Pos)
	if err != nil && n <= had {
		c.buf = nil
		return err
	}
	c.buf = dst[:n] // what stands before a bad place is read; who gets there meets the error again
	return nil
}

func (c *cursor) room(n int64) []byte {
	if n > readChunk {
		return make([]byte, n)
	}
	if c.chunk == nil {
		c.chunk = chunks.Get().(*[readChunk]byte)
	}
	return c.chunk[:n]
}

// damage describes the place where peek has found no good batch, up to the next good one in the segment. Where there is
// none, toEnd is true, and which offsets are missing is for the caller to find out.
func (c *cursor) damage(cause error) (d *segment.CorruptionError, toEnd bool, err error) {
	to, ok, err := c.view.Resync(c.at)
	if err != nil {
		return nil, false, err
	}
	return &segment.CorruptionError{
		Path: c.view.Segment().Path(), Start: c.at.Pos, End: to.Pos,
		FirstOffset: c.at.Offset, NextOffset: to.Offset, Err: cause,
	}, !ok, nil
}
