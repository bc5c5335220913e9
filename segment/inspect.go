package segment

import (
	"errors"
	"fmt"
	"io"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/record"
)

// Hole is a place where no good batch stands although good ones follow.
type Hole struct {
	Start Place // behind the good batch before it
	End   Place // where good batches go on
	Err   error // what is wrong at Start
}

// Found is what a walk over a segment's file found.
type Found struct {
	Size  int64 // the file's length
	Good  bool  // there is a good batch
	Holes []Hole
	End   Place // behind the last good batch
	// Tail is what is wrong at End, nil when only zeros follow; TailEnd is behind the last byte that isn't zero.
	Tail    error
	TailEnd int64
}

// Inspect walks over the file of batches at path from the place of a batch on and reports what stands there. No record
// of it has an offset of limit or more. It changes nothing.
func Inspect(fs vfs.FS, path string, from Place, limit int64) (found Found, err error) {
	f, err := fs.OpenRead(path)
	if err != nil {
		return Found{}, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return Found{}, err
	}
	from.Pos = min(from.Pos, size)
	sc := newScanner(f, size, limit, from)
	found.Size = size
	bad, err := sc.walk(&found)
	for err == nil {
		hole := Hole{Start: sc.at, Err: bad}
		var ok bool
		if ok, err = sc.resync(); !ok {
			break
		}
		hole.End = sc.at
		if hole.Err == nil {
			hole.Err = fmt.Errorf("%w: zeros", record.ErrCorrupt)
		}
		found.Holes = append(found.Holes, hole)
		bad, err = sc.walk(&found)
	}
	if err != nil {
		return Found{}, fmt.Errorf("%s: %w", path, err)
	}
	found.End, found.Tail = sc.at, bad
	if err := sc.tail(&found); err != nil {
		return Found{}, err
	}
	return found, nil
}

// walk steps over good batches and returns what stopped it, nil where there is nothing or zeros.
func (sc *scanner) walk(found *Found) (bad, err error) {
	for {
		_, err := sc.next()
		switch {
		case err == nil:
			found.Good = true
		case err == io.EOF:
			return nil, nil
		case isDamage(err):
			return err, nil
		default:
			return nil, err
		}
	}
}

// tail looks at what follows the last good batch.
func (sc *scanner) tail(found *Found) error {
	found.TailEnd = found.End.Pos
	for pos := found.End.Pos; pos < sc.size; {
		b, err := sc.bytes(pos, 1)
		if err != nil {
			return err
		}
		if n := lastByte(b); n > 0 {
			found.TailEnd = pos + int64(n)
		}
		pos += int64(len(b))
	}
	switch {
	case found.TailEnd == found.End.Pos:
		found.Tail = nil // zeros too few for a header
	case found.Tail == nil:
		found.Tail = fmt.Errorf("%w: bytes that are no batch behind byte %d", record.ErrCorrupt, found.End.Pos)
	}
	return nil
}

// lastByte returns the length of b without the zeros at its end.
func lastByte(b []byte) int {
	const step = 512
	for len(b) >= step && record.IsZero(b[len(b)-step:]) {
		b = b[:len(b)-step]
	}
	for len(b) > 0 && b[len(b)-1] == 0 {
		b = b[:len(b)-1]
	}
	return len(b)
}
