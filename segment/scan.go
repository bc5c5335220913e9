package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/record"
)

// scanChunk is how much a scanner reads at once.
const scanChunk = 256 << 10

// scanner walks over the batches of a file, verifying each, without trusting anything in it.
type scanner struct {
	r    io.ReaderAt
	size int64
	pos  int64 // of the next batch
	off  int64 // smallest base offset that the next batch can have

	buf   []byte // file content from bufAt on
	bufAt int64
}

func newScanner(r io.ReaderAt, size, pos, next int64) *scanner {
	return &scanner{r: r, size: size, pos: pos, off: next}
}

// bytes returns the file's content from pos on: n bytes or more, fewer at the end of the file.
func (sc *scanner) bytes(pos int64, n int) ([]byte, error) {
	if left := sc.size - pos; int64(n) > left {
		n = int(max(left, 0))
	}
	if at := pos - sc.bufAt; at >= 0 && at+int64(n) <= int64(len(sc.buf)) {
		return sc.buf[at:], nil
	}
	want := min(max(int64(n), scanChunk), sc.size-pos)
	if int64(cap(sc.buf)) < want {
		sc.buf = make([]byte, want)
	}
	sc.buf = sc.buf[:want]
	sc.bufAt = pos
	if got, err := sc.r.ReadAt(sc.buf, pos); int64(got) < want {
		sc.buf = sc.buf[:0]
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return sc.buf, nil
}

// next returns the batch at pos and steps over it. The batch is valid until the following call.
//
// io.EOF: the file ends here, or only zeros follow the last batch as far as the next batch's header could reach.
// record.ErrIncomplete and errors that match record.ErrCorrupt: no good batch stands here. Others: reading failed.
func (sc *scanner) next() (record.Batch, error) {
	b, err := sc.bytes(sc.pos, record.HeaderSize)
	if err != nil {
		return record.Batch{}, err
	}
	if len(b) == 0 || allZero(b[:min(len(b), record.HeaderSize)]) {
		return record.Batch{}, io.EOF
	}
	h, err := record.ParseHeader(b)
	if err != nil {
		return record.Batch{}, err
	}
	if int64(h.Size()) > sc.size-sc.pos {
		return record.Batch{}, record.ErrIncomplete
	}
	if b, err = sc.bytes(sc.pos, h.Size()); err != nil {
		return record.Batch{}, err
	}
	batch, err := record.Parse(b[:h.Size()])
	if err != nil {
		return record.Batch{}, err
	}
	if h.BaseOffset < sc.off || h.BaseOffset-sc.off > offsetSpan {
		return record.Batch{}, fmt.Errorf("%w: batch at byte %d has base offset %d where %d follows",
			record.ErrCorrupt, sc.pos, h.BaseOffset, sc.off)
	}
	sc.pos += int64(h.Size())
	sc.off = h.NextOffset()
	return batch, nil
}

// resync moves to the next place behind pos where a good batch with a later offset stands, and says whether there is one.
func (sc *scanner) resync() (bool, error) {
	pos, off := sc.pos, sc.off
	for at := pos + 1; at+record.HeaderSize <= sc.size; {
		b, err := sc.bytes(at, record.HeaderSize)
		if err != nil {
			return false, err
		}
		skip, ok := candidate(b, off+1)
		at += int64(skip)
		if !ok {
			continue
		}
		probe := *sc
		probe.pos, probe.off = at, off+1
		probe.buf = nil // the window of sc stays where the search is
		if _, err := probe.next(); err == nil {
			sc.pos, sc.off = at, off+1
			return true, nil
		} else if !isDamage(err) && err != io.EOF {
			return false, err
		}
		at++
	}
	return false, nil
}

// candidate looks for the first place in b where the header of a batch with a base offset in [off, off+offsetSpan) may
// stand. It returns how far to go, and whether one stands there.
func candidate(b []byte, off int64) (skip int, ok bool) {
	const magicAt, magic = 16, 2
	for i := 0; i+record.HeaderSize <= len(b); i++ {
		// The magic byte is the rarest thing to be right by chance: jump to the next one.
		j := bytes.IndexByte(b[i+magicAt:], magic)
		if j < 0 || i+j+record.HeaderSize > len(b) {
			break
		}
		i += j
		base := int64(binary.BigEndian.Uint64(b[i:]))
		if base >= off && base-off < offsetSpan {
			if _, err := record.ParseHeader(b[i:]); err == nil {
				return i, true
			}
		}
	}
	return max(len(b)-record.HeaderSize+1, 1), false
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// Found is what a recovery walk over a segment's file found.
type Found struct {
	// End and Next are the byte and the offset behind the last good batch before the first bad place.
	End, Next int64
	// Size is the file's length.
	Size int64
	// Bad is what is wrong at End: nil when only zeros follow.
	Bad error
	// After says that good batches stand behind the bad place; ResumeAt, ResumeOffset are the first one's position and
	// base offset, LastEnd and LastNext the byte and the offset behind the last one.
	After                  bool
	ResumeAt, ResumeOffset int64
	LastEnd, LastNext      int64
}

// Inspect walks over the file of batches at path from byte pos, where the batch with offset next stands, and reports
// where the good batches end and what follows. It changes nothing.
func Inspect(fs vfs.FS, path string, pos, next int64) (found Found, err error) {
	f, err := fs.OpenRead(path)
	if err != nil {
		return Found{}, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return Found{}, err
	}
	found = Found{Size: size}
	sc := newScanner(f, size, min(pos, size), next)
	bad, err := sc.walk()
	if err != nil {
		return Found{}, err
	}
	found.End, found.Next, found.Bad = sc.pos, sc.off, bad
	for {
		ok, err := sc.resync()
		if err != nil {
			return Found{}, err
		}
		if !ok {
			break
		}
		if !found.After {
			found.After, found.ResumeAt = true, sc.pos
			b, err := sc.next()
			if err != nil {
				return Found{}, err
			}
			found.ResumeOffset = b.Header().BaseOffset
		}
		if _, err := sc.walk(); err != nil {
			return Found{}, err
		}
		found.LastEnd, found.LastNext = sc.pos, sc.off
	}
	if found.Bad == nil && found.End < size {
		if found.Bad, err = sc.leftover(found.End); err != nil {
			return Found{}, err
		}
	}
	return found, nil
}

// walk steps over good batches and returns what stopped it, nil at the end of the log.
func (sc *scanner) walk() (bad, err error) {
	for {
		_, err := sc.next()
		switch {
		case err == nil:
		case err == io.EOF:
			return nil, nil
		case isDamage(err):
			return err, nil
		default:
			return nil, err
		}
	}
}

// leftover says whether anything but zeros stands from pos to the end of the file.
func (sc *scanner) leftover(pos int64) (bad, err error) {
	for pos < sc.size {
		b, err := sc.bytes(pos, 1)
		if err != nil {
			return nil, err
		}
		if !allZero(b) {
			return fmt.Errorf("%w: bytes that are no batch behind byte %d", record.ErrCorrupt, pos), nil
		}
		pos += int64(len(b))
	}
	return nil, nil
}

// Resync looks behind pos, where no good batch stands, for the next one whose base offset is above off. It returns its
// position and base offset, or the end of the published bytes.
func (v View) Resync(pos, off int64) (at, next int64, err error) {
	size := v.seg.Size()
	sc := newScanner(readerAt{v}, size, pos, off)
	found, err := sc.resync()
	if err != nil || !found {
		return size, off, err
	}
	b, err := sc.bytes(sc.pos, record.HeaderSize)
	if err != nil {
		return 0, 0, err
	}
	h, err := record.ParseHeader(b)
	return sc.pos, h.BaseOffset, err
}
