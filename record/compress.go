package record

import (
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/pierrec/lz4/v4"
)

// Compress packs the records ahead of Put, which then stores the packed bytes: l.Size becomes that of the compressed
// batch. What is packed is appended to buf, which stays in use until the last Put; the extended buf is returned, for reuse
// after that. Records that codec c doesn't make smaller, and CodecNone, leave l as it was planned.
//
// The offsets, the epoch and all else of the header are still Put's to take. Like Put, Compress panics if the records are
// not those that were planned.
func (l *Layout) Compress(buf []byte, c Codec, recs []Record) []byte {
	if c <= CodecNone || c > CodecZstd || l.codec != CodecNone {
		return buf
	}
	s := scratches.Get().(*scratch)
	defer s.release()
	plain := s.room(l.Size)
	if len(recs) != int(l.Count) || l.putRecords(plain, recs) != l.Size {
		panic(errChanged)
	}
	had := len(buf)
	buf = c.compress(buf, plain[HeaderSize:])
	if packed := buf[had:len(buf):len(buf)]; HeaderSize+len(packed) < l.Size {
		l.codec, l.packed, l.Size = c, packed, HeaderSize+len(packed)
	}
	return buf
}

// compress appends what the codec makes of plain to dst.
func (c Codec) compress(dst, plain []byte) []byte {
	switch c {
	case CodecGzip:
		return stream(&gzipWriters, dst, plain)
	case CodecSnappy:
		return appendXerial(dst, plain)
	case CodecLZ4:
		return stream(&lz4Writers, dst, plain)
	case CodecZstd:
		return zstdEncoder().EncodeAll(plain, dst)
	}
	panic("record: " + c.String())
}

// streamWriter is a codec that writes to a stream. It is kept for its tables, which are dear to make.
type streamWriter struct {
	out appender
	w   interface {
		io.WriteCloser
		Reset(io.Writer)
	}
}

var (
	gzipWriters = sync.Pool{New: func() any { return &streamWriter{w: gzip.NewWriter(nil)} }}
	lz4Writers  = sync.Pool{New: func() any { return &streamWriter{w: newLZ4Writer()} }}
)

// newLZ4Writer writes frames as Kafka's clients do: independent blocks of 64 KiB, without checksums of their own.
func newLZ4Writer() *lz4.Writer {
	w := lz4.NewWriter(nil)
	err := w.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false), lz4.ConcurrencyOption(1))
	must(err)
	return w
}

func stream(writers *sync.Pool, dst, plain []byte) []byte {
	s := writers.Get().(*streamWriter)
	s.out.b = dst
	s.w.Reset(&s.out)
	_, err := s.w.Write(plain)
	must(err)
	must(s.w.Close())
	dst, s.out.b = s.out.b, nil
	writers.Put(s)
	return dst
}

// must is for what can't fail: writes to memory, options that are constant.
func must(err error) {
	if err != nil {
		panic("record: " + err.Error())
	}
}

type appender struct{ b []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}

// scratch is where records are encoded before they are compressed.
type scratch struct{ b []byte }

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// maxScratch is the most that a scratch keeps for the next batch.
const maxScratch = 4 << 20

func (s *scratch) room(n int) []byte {
	if cap(s.b) < n {
		s.b = make([]byte, n)
	}
	return s.b[:n]
}

func (s *scratch) release() {
	if cap(s.b) > maxScratch {
		s.b = nil
	}
	scratches.Put(s)
}
