package segment

import (
	"fmt"

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

// Inspect reports what stands in the file of batches at path from the place of a batch on. No record of it has an offset
// of limit or more. It changes nothing.
func Inspect(fs vfs.FS, path string, from Place, limit int64) (Found, error) {
	return walk(fs, path, from, limit, func(Stretch) error { return nil })
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
