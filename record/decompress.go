package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/pierrec/lz4/v4"
)

// Decompress returns the batch as it would be if it had not been compressed: another batch, of the same records, whose
// codec is CodecNone. A batch that isn't compressed is returned as it is. What is decompressed stands in buf's memory where
// that has the room, whatever it held, and otherwise in new memory; Bytes of the result, cut to nothing, serves as the next buf.
//
// The result, header included, has at most limit bytes, or else the error is a *SizeError. Memory grows with what has been
// decompressed, up to that limit, and never with what the bytes claim; that of the codecs themselves is a few MiB. Bytes
// that are not what the codec writes are a *FormatError.
func (b Batch) Decompress(buf []byte, limit int) (Batch, error) {
	c := b.header.Attributes.Codec()
	if c == CodecNone {
		return b, nil
	}
	limit = min(limit, MaxBatchSize)
	plain, err := b.decompress(buf[:0], limit)
	if errors.Is(err, errLimit) {
		return Batch{}, &SizeError{Codec: c, Limit: limit}
	}
	if err != nil {
		return Batch{}, corrupt(StageRecords, HeaderSize, c.String()+": "+err.Error(), 0)
	}
	h := b.header
	h.Length = int32(len(plain) - lengthEnd)
	h.Attributes &^= codecBits
	h.put(plain)
	h.CRC = seal(plain)
	return Batch{header: h, bytes: plain}, nil
}

// decompress leaves room for the header in front of the records.
func (b Batch) decompress(dst []byte, limit int) ([]byte, error) {
	src := b.bytes[HeaderSize:]
	if limit < HeaderSize {
		return nil, errLimit
	}
	codec := b.header.Attributes.Codec()
	if room := int(min(HeaderSize+codec.guess(src)+1, int64(limit))); cap(dst) < room {
		dst = make([]byte, 0, room)
	}
	dst = dst[:HeaderSize]
	if len(src) == 0 {
		return dst, nil // the records, if there should be any, will be missed
	}
	switch codec {
	case CodecGzip:
		return ungzip(dst, src, limit)
	case CodecSnappy:
		return unsnappy(dst, src, limit)
	case CodecLZ4:
		return unlz4(dst, src, limit)
	default:
		return unzstd(dst, src, limit)
	}
}

// guess is how many bytes src may well hold: what it says, if that is likely.
func (c Codec) guess(src []byte) int64 {
	size := int64(len(src))
	says := 4 * size
	switch c {
	case CodecGzip:
		if tail := src[max(len(src)-4, 0):]; len(tail) == 4 {
			says = int64(binary.LittleEndian.Uint32(tail))
		}
	case CodecZstd:
		says = min(zstdBound(src), 8*size)
	}
	return min(says, 64*size)
}

// errLimit says that there is more than may be taken.
var errLimit = errors.New("beyond the limit")

// reserve returns b with room for n more bytes, as long as it has no more than limit bytes then. It doubles what it has.
func reserve(b []byte, n, limit int) ([]byte, error) {
	if n > limit-len(b) {
		return b, errLimit
	}
	if need := len(b) + n; need > cap(b) {
		larger := make([]byte, len(b), min(max(need, 2*cap(b)), limit))
		copy(larger, b)
		b = larger
	}
	return b, nil
}

// readAll appends what r gives to b, up to limit bytes in all.
func readAll(r io.Reader, b []byte, limit int) ([]byte, error) {
	for {
		room := b[len(b):max(min(cap(b), limit), len(b))]
		if len(room) == 0 {
			larger, full := reserve(b, 1, limit)
			if full == nil {
				b = larger
				continue
			}
			if n, err := io.ReadFull(r, make([]byte, 1)); n == 0 {
				return b, unlessEnd(err)
			}
			return b, full
		}
		n, err := r.Read(room)
		b = b[:len(b)+n]
		if err != nil {
			return b, unlessEnd(err)
		}
	}
}

func unlessEnd(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

// gzipReader is kept for its tables.
type gzipReader struct {
	src bytes.Reader
	r   gzip.Reader
}

var gzipReaders = sync.Pool{New: func() any { return new(gzipReader) }}

func ungzip(dst, src []byte, limit int) ([]byte, error) {
	g := gzipReaders.Get().(*gzipReader)
	defer gzipReaders.Put(g)
	defer g.src.Reset(nil)
	g.src.Reset(src)
	if err := g.r.Reset(&g.src); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return dst, err
	}
	return readAll(&g.r, dst, limit)
}

const lz4Magic = "\x04\x22\x4d\x18"

var errNoFrame = errors.New("no frame")

// unlz4 takes a new reader each time: a used one would let a damaged frame refer back to the content of another batch. What
// is dear, the memory for blocks, is pooled by lz4 itself.
func unlz4(dst, src []byte, limit int) ([]byte, error) {
	if !bytes.HasPrefix(src, []byte(lz4Magic)) {
		return dst, errNoFrame // nor one of the older or skippable kinds, which no client writes
	}
	return readAll(lz4.NewReader(bytes.NewReader(src)), dst, limit)
}
