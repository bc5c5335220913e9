package segment

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/ottlalog/ottla/record"
)

// scanChunk is how much a scanner reads at once.
const scanChunk = 256 << 10

// offsetSpan is how many offsets a segment can hold: its index has 32 bits for them.
const offsetSpan = math.MaxUint32

// scanner walks over the batches of a file, verifying each, without trusting anything in it.
//
// Offsets are dense, and the base offset stands outside of a batch's checksum: so a batch is good only if it has exactly
// the offset that follows.
type scanner struct {
	r     io.ReaderAt
	size  int64
	limit int64 // offset that no record of the file reaches
	at    Place // of the next batch

	buf   []byte // file content from bufAt on
	bufAt int64
}

func newScanner(r io.ReaderAt, size, limit int64, at Place) *scanner {
	return &scanner{r: r, size: size, limit: limit, at: at}
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

// batch returns the batch at pos. It is valid until the following call.
//
// io.EOF: the file ends here, or zeros stand where a header would. record.ErrIncomplete and errors that match
// record.ErrCorrupt: no good batch stands here. Others: reading failed.
func (sc *scanner) batch(pos int64) (record.Batch, error) {
	b, err := sc.bytes(pos, record.HeaderSize)
	if err != nil {
		return record.Batch{}, err
	}
	if len(b) == 0 || record.IsZero(b[:min(len(b), record.HeaderSize)]) {
		return record.Batch{}, io.EOF
	}
	h, err := record.ParseHeader(b)
	if err != nil {
		return record.Batch{}, err
	}
	if int64(h.Size()) > sc.size-pos {
		return record.Batch{}, record.ErrIncomplete
	}
	if b, err = sc.bytes(pos, h.Size()); err != nil {
		return record.Batch{}, err
	}
	return record.Parse(b[:h.Size()])
}

// next returns the batch that follows and steps over it; see batch.
func (sc *scanner) next() (record.Batch, error) {
	batch, err := sc.batch(sc.at.Pos)
	if err != nil {
		return record.Batch{}, err
	}
	h := batch.Header()
	if h.BaseOffset != sc.at.Offset {
		return record.Batch{}, fmt.Errorf("%w: batch at byte %d has base offset %d where %d follows",
			record.ErrCorrupt, sc.at.Pos, h.BaseOffset, sc.at.Offset)
	}
	sc.at = Place{sc.at.Pos + int64(h.Size()), h.NextOffset()}
	return batch, nil
}

// resync moves to the next place behind, where a good batch with the same or a later offset stands, and says whether
// there is one.
func (sc *scanner) resync() (bool, error) {
	claim, err := sc.claim()
	if err != nil {
		return false, err
	}
	probe := newScanner(sc.r, sc.size, sc.limit, sc.at) // with a window of its own: that of sc stays where the search is
	for pos := sc.at.Pos + 1; pos+record.HeaderSize <= sc.size; pos++ {
		b, err := sc.bytes(pos, record.HeaderSize)
		if err != nil {
			return false, err
		}
		skip, ok := candidate(b, sc.at.Offset)
		pos += int64(skip)
		if !ok {
			pos--
			continue
		}
		ok, err = probe.resumesAt(pos, claim)
		if err != nil {
			return false, err
		}
		if ok {
			sc.at = probe.at
			return true, nil
		}
	}
	return false, nil
}

// resumesAt says whether the batch at pos is the first good one behind the bad place at sc.at, and goes there then. What
// makes that hard: the base offset stands outside of the checksum, and what is whole may be the content of a record.
func (sc *scanner) resumesAt(pos int64, claim Place) (bool, error) {
	batch, err := sc.batch(pos)
	if err != nil {
		return false, unlessDamage(err)
	}
	h := batch.Header()
	found := Place{pos, h.BaseOffset}
	switch {
	case h.NextOffset() > sc.limit:
		return false, nil
	case found.Offset == claim.Offset:
	case pos < claim.Pos:
		return false, nil
	default:
		after, err := sc.batch(pos + int64(h.Size()))
		if unlessDamage(err) != nil {
			return false, err
		}
		if err == nil && after.Header().BaseOffset != h.NextOffset() {
			return false, nil // one of the two is wrong, and the other will tell
		}
		if err != nil && found.Offset-sc.at.Offset > pos-sc.at.Pos {
			return false, nil // more records missing than bytes
		}
	}
	sc.at = found
	return true, nil
}

// unlessDamage returns an error of reading, and nil for one that is about the bytes or their end.
func unlessDamage(err error) error {
	if err == io.EOF || isDamage(err) {
		return nil
	}
	return err
}

// claim returns where the bad batch at hand says that it ends. What looks like a batch before that place is most likely
// the content of one of its records (people do store Kafka's batches in queues), unless it has the very offset that
// follows and so tells that the length is what's wrong. A header that isn't whole claims nothing.
func (sc *scanner) claim() (Place, error) {
	b, err := sc.bytes(sc.at.Pos, record.HeaderSize)
	if err != nil {
		return Place{}, err
	}
	h, err := record.ParseHeader(b)
	if err != nil || h.BaseOffset != sc.at.Offset || h.LastOffsetDelta < 0 {
		return Place{}, nil
	}
	return Place{sc.at.Pos + int64(h.Size()), h.NextOffset()}, nil
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

// Resync looks behind a place where no good batch stands for the next good one. ok is false when the published bytes
// hold none; found.Pos is their end then.
func (v View) Resync(bad Place) (found Place, ok bool, err error) {
	size := v.seg.Size()
	sc := newScanner(readerAt{v}, size, v.seg.Next(), bad)
	if ok, err = sc.resync(); err != nil {
		return Place{}, false, err
	}
	if !ok {
		return Place{size, bad.Offset}, false, nil
	}
	return sc.at, true, nil
}
