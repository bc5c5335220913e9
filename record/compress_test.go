package record_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ottlalog/ottla/record"
)

// TestMain: whatever the codecs start has ended with the tests.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var codecs = []record.Codec{record.CodecGzip, record.CodecSnappy, record.CodecLZ4, record.CodecZstd}

// eachCodec runs a test for each codec.
func eachCodec(t *testing.T, test func(t *testing.T, c record.Codec)) {
	for _, c := range codecs {
		t.Run(c.String(), func(t *testing.T) { test(t, c) })
	}
}

func decompress(tb testing.TB, b record.Batch) record.Batch {
	tb.Helper()
	plain, err := b.Decompress(nil, 64<<20)
	require.NoError(tb, err)
	require.Equal(tb, record.CodecNone, plain.Header().Attributes.Codec())
	return plain
}

// pack encodes records as a compressed batch, if that is smaller.
func pack(tb testing.TB, c record.Codec, h record.BatchHeader, recs []record.Record) record.Batch {
	tb.Helper()
	l, err := record.Plan(recs, now)
	require.NoError(tb, err)
	l.Compress(nil, c, recs)
	raw := make([]byte, l.Size)
	l.Put(raw, h, recs)
	b, err := record.Parse(raw)
	require.NoError(tb, err)
	return b
}

// repetitive returns records that every codec makes smaller.
func repetitive(n int) []record.Record {
	recs := make([]record.Record, n)
	for i := range recs {
		recs[i] = record.Record{
			Time: record.TimeOf(now + int64(i)), Key: fmt.Appendf(nil, "key-%d", i%10),
			Value: []byte(strings.Repeat(fmt.Sprintf("payload %d ", i), 8)),
		}
	}
	return recs
}

// requireDecompressed checks what a batch of another implementation holds, and that ours of the same records holds it too.
func requireDecompressed(t *testing.T, b record.Batch, want []record.Record, sum *uint32) {
	t.Helper()
	require.ErrorIs(t, b.Validate(), record.ErrCompressed)
	requireIteratorAgrees(t, b, record.ErrCompressed)
	plain := decompress(t, b)
	require.NoError(t, plain.Validate())
	recs := decode(t, plain)
	if sum == nil {
		require.Equal(t, want, recs)
	} else {
		require.Equal(t, want, []record.Record{recs[0], recs[len(recs)-1]})
		require.Equal(t, *sum, digest(recs))
	}

	h := b.Header()
	ours := pack(t, h.Attributes.Codec(), h, recs)
	require.Equal(t, h.Attributes, ours.Header().Attributes)
	require.Equal(t, plain.Bytes(), decompress(t, ours).Bytes())
	require.Less(t, len(ours.Bytes()), len(b.Bytes())*5/4)
}

func digest(recs []record.Record) uint32 {
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	for _, r := range recs {
		fmt.Fprintf(sum, "%d %d %x %x\n", r.Offset, r.Time.UnixMilli(), r.Key, r.Value)
	}
	return sum.Sum32()
}

func TestCompressedComeBack(t *testing.T) {
	eachCodec(t, func(t *testing.T, c record.Codec) {
		for seed := range uint64(60) {
			recs := randomRecords(rand.New(rand.NewPCG(seed, 1)))
			h := record.BatchHeader{BaseOffset: 77, LeaderEpoch: 3, ProducerID: 9, ProducerEpoch: 2, BaseSequence: 5,
				Attributes: record.FlagTransactional}
			plain := encode(t, h, recs)
			b := pack(t, c, h, recs)
			require.LessOrEqual(t, len(b.Bytes()), len(plain))
			require.Equal(t, plain, decompress(t, b).Bytes())
		}
	})
}

// One batch that is as large as a batch may well be: many blocks of each codec.
func TestCompressedLargeBatch(t *testing.T) {
	recs := repetitive(20_000)
	rnd := rand.New(rand.NewPCG(1, 1))
	for i := range recs {
		recs[i].Value = append(recs[i].Value, byte(rnd.Uint32()), byte(rnd.Uint32()), byte(rnd.Uint32()))
	}
	plain := encode(t, record.HeaderAt(0, 0), recs)
	eachCodec(t, func(t *testing.T, c record.Codec) {
		b := pack(t, c, record.HeaderAt(0, 0), recs)
		require.Equal(t, c, b.Header().Attributes.Codec())
		require.Less(t, len(b.Bytes()), len(plain)/2)
		require.Equal(t, plain, decompress(t, b).Bytes())
	})
}

func TestCompressOnlyWhatGetsSmaller(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 100_000)
	for i := range noise {
		noise[i] = byte(rnd.Uint32())
	}
	eachCodec(t, func(t *testing.T, c record.Codec) {
		for _, recs := range [][]record.Record{{{}}, {{Value: noise}}, plain(1, 1)} {
			require.Equal(t, encode(t, record.HeaderAt(0, 0), recs), pack(t, c, record.HeaderAt(0, 0), recs).Bytes())
		}
	})
}

// Offsets, epoch, producer and the append time are known only when the batch is put.
func TestHeaderOfCompressedIsPutsToTake(t *testing.T) {
	recs := repetitive(50)
	eachCodec(t, func(t *testing.T, c record.Codec) {
		l, err := record.Plan(recs, now)
		require.NoError(t, err)
		buf := l.Compress([]byte("before"), c, recs)
		require.Equal(t, "before", string(buf[:6]))
		for offset := range int64(2) {
			h := record.HeaderAt(offset, 7)
			h.Attributes |= record.FlagLogAppendTime
			h.MaxTimestamp = now + 1000 + offset
			raw := make([]byte, l.Size)
			l.Put(raw, h, recs)
			b, err := record.Parse(raw)
			require.NoError(t, err)
			first := decode(t, decompress(t, b))[0]
			require.Equal(t, offset, first.Offset)
			require.Equal(t, now+1000+offset, first.Time.UnixMilli())
		}
	})
}

func TestCompressNothing(t *testing.T) {
	recs := repetitive(5)
	l, err := record.Plan(recs, now)
	require.NoError(t, err)
	before := l
	require.Nil(t, l.Compress(nil, record.CodecNone, recs))
	require.Nil(t, l.Compress(nil, 5, recs))
	require.Equal(t, before, l)
	require.Panics(t, func() { l.Compress(nil, record.CodecGzip, recs[1:]) })
}

// What other decoders make of our records: the standard library's gzip, and the forms that Kafka's clients expect.
func TestPackedForms(t *testing.T) {
	recs := repetitive(2000)
	want := encode(t, record.HeaderAt(0, 0), recs)[record.HeaderSize:]
	packed := func(c record.Codec) []byte {
		return pack(t, c, record.HeaderAt(0, 0), recs).Bytes()[record.HeaderSize:]
	}

	r, err := gzip.NewReader(bytes.NewReader(packed(record.CodecGzip)))
	require.NoError(t, err)
	got, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, want, got)

	require.Equal(t, "\x04\x22\x4d\x18\x60\x40\x82", string(packed(record.CodecLZ4)[:7])) // as in the vectors of Kafka
	require.Equal(t, "\x28\xb5\x2f\xfd", string(packed(record.CodecZstd)[:4]))

	xerial, ok := strings.CutPrefix(string(packed(record.CodecSnappy)), "\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
	require.True(t, ok)
	got = nil
	for len(xerial) > 0 {
		n := binary.BigEndian.Uint32([]byte(xerial))
		block, err := snappy.DecodeStrict(nil, []byte(xerial[4:4+n]))
		require.NoError(t, err)
		require.LessOrEqual(t, len(block), 32<<10)
		got, xerial = append(got, block...), xerial[4+n:]
	}
	require.Equal(t, want, got)
}

// sealed makes a batch of records that were compressed elsewhere.
func sealed(tb testing.TB, c record.Codec, count int, packed []byte) record.Batch {
	tb.Helper()
	raw := make([]byte, record.HeaderSize, record.HeaderSize+len(packed))
	raw[16], raw[22] = 2, byte(c)
	binary.BigEndian.PutUint32(raw[23:], uint32(max(count-1, 0)))
	binary.BigEndian.PutUint32(raw[57:], uint32(count))
	b, err := record.Parse(sign(append(raw, packed...)))
	require.NoError(tb, err)
	return b
}

// Forms that we don't write and others do.
func TestForeignForms(t *testing.T) {
	recs := repetitive(3000)
	want := encode(t, record.HeaderAt(0, 0), recs)[record.HeaderSize:]
	written := func(w io.WriteCloser, b *bytes.Buffer) []byte {
		_, err := w.Write(want)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		return b.Bytes()
	}
	var linked, unsized bytes.Buffer
	lz := lz4.NewWriter(&linked)
	require.NoError(t, lz.Apply(lz4.BlockSizeOption(lz4.Block4Mb), lz4.BlockChecksumOption(true), lz4.SizeOption(uint64(len(want)))))
	zs, err := zstd.NewWriter(&unsized, zstd.WithEncoderConcurrency(1))
	require.NoError(t, err)
	half := len(want) / 2
	twice := func(c record.Codec) []byte { // two streams, one behind the other
		first := packBytes(t, c, want[:half])
		return append(first, packBytes(t, c, want[half:])...)
	}
	for _, f := range []struct {
		name   string
		codec  record.Codec
		packed []byte
	}{
		{"snappy block", record.CodecSnappy, snappy.Encode(nil, want)},
		{"lz4 frame with all that it can have", record.CodecLZ4, written(lz, &linked)},
		{"zstd of unknown size", record.CodecZstd, written(zs, &unsized)},
		{"two of gzip", record.CodecGzip, twice(record.CodecGzip)},
		{"two of lz4", record.CodecLZ4, twice(record.CodecLZ4)},
		{"two of zstd", record.CodecZstd, twice(record.CodecZstd)},
	} {
		t.Run(f.name, func(t *testing.T) {
			plain := decompress(t, sealed(t, f.codec, len(recs), f.packed))
			require.Equal(t, want, plain.Bytes()[record.HeaderSize:])
			require.NoError(t, plain.Validate())
		})
	}
}

// packBytes compresses bytes that are no records.
func packBytes(tb testing.TB, c record.Codec, b []byte) []byte {
	tb.Helper()
	var out bytes.Buffer
	var w io.WriteCloser
	switch c {
	case record.CodecGzip:
		w = gzip.NewWriter(&out)
	case record.CodecLZ4:
		w = lz4.NewWriter(&out)
	case record.CodecZstd:
		z, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
		require.NoError(tb, err)
		w = z
	case record.CodecSnappy:
		return snappy.Encode(nil, b)
	}
	_, err := w.Write(b)
	require.NoError(tb, err)
	require.NoError(tb, w.Close())
	return out.Bytes()
}

// A batch is read up to the limit to the byte, and beyond it not at all, whatever it claims; memory doesn't follow claims.
func TestBombs(t *testing.T) {
	const limit = 4 << 20
	eachCodec(t, func(t *testing.T, c record.Codec) {
		fits := sealed(t, c, 0, packBytes(t, c, make([]byte, limit-record.HeaderSize)))
		plain, err := fits.Decompress(nil, limit)
		require.NoError(t, err)
		require.Len(t, plain.Bytes(), limit)
		require.LessOrEqual(t, cap(plain.Bytes()), limit)

		for _, size := range []int{limit - record.HeaderSize + 1, 128 << 20} {
			bomb := sealed(t, c, 0, packBytes(t, c, make([]byte, size)))
			var se *record.SizeError
			allocated := allocates(func() { _, err = bomb.Decompress(nil, limit) })
			require.ErrorAs(t, err, &se)
			require.Equal(t, record.SizeError{Codec: c, Limit: limit}, *se)
			require.ErrorIs(t, err, record.ErrSize)
			require.NotErrorIs(t, err, record.ErrCorrupt)
			require.Contains(t, err.Error(), c.String())
			require.Less(t, allocated, uint64(16*limit), "%d bytes", size) // with all that was outgrown, and what the codecs need
		}
	})
}

// Few bytes that claim to be many.
func TestClaims(t *testing.T) {
	zeros := make([]byte, 60<<20)
	for name, b := range map[string]record.Batch{
		"snappy": sealed(t, record.CodecSnappy, 0, snappy.Encode(nil, zeros)[:200]),
		"zstd":   sealed(t, record.CodecZstd, 0, append([]byte("\x28\xb5\x2f\xfd\xa0\x00\x00\xc0\x03"), make([]byte, 100)...)),
		"gzip":   sealed(t, record.CodecGzip, 0, []byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\x03\x00\x00\x00\x00\x00\x00\x00\xc0\x03")),
	} {
		var err error
		allocated := allocates(func() { _, err = b.Decompress(nil, 64<<20) })
		require.Equal(t, record.StageRecords, stageOf(t, err), name)
		require.Less(t, allocated, uint64(4<<20), name)
	}
}

func allocates(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A stream that isn't all there, or has something behind it, or was changed, is never taken for less or other records.
func TestDamagedStreams(t *testing.T) {
	recs := repetitive(40)
	eachCodec(t, func(t *testing.T, c record.Codec) {
		good := pack(t, c, record.HeaderAt(0, 0), recs)
		packed := good.Bytes()[record.HeaderSize:]
		want := decompress(t, good).Bytes()
		readable := func(packed []byte) ([]byte, bool) {
			b, err := sealed(t, c, len(recs), packed).Decompress(nil, 1<<20)
			if err == nil {
				err = b.Validate()
			}
			if err != nil {
				require.Equal(t, record.StageRecords, stageOf(t, err))
				return nil, false
			}
			return b.Bytes(), true
		}
		for n := range packed {
			_, ok := readable(packed[:n])
			require.False(t, ok, "%d of %d bytes", n, len(packed))
		}
		for _, tail := range []string{"\x00", "more", "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"} {
			_, ok := readable(append(clone(packed), tail...))
			require.False(t, ok, "%q", tail)
		}
		for i := range packed {
			bad := clone(packed)
			bad[i] ^= 0x10
			got, ok := readable(bad)
			if ok && c == record.CodecGzip {
				require.Equal(t, want[record.HeaderSize:], got[record.HeaderSize:]) // in its header; it has a checksum
			}
		}
	})
}

// A batch without records needs no stream.
func TestCompressedWithoutBytes(t *testing.T) {
	eachCodec(t, func(t *testing.T, c record.Codec) {
		require.NoError(t, decompress(t, sealed(t, c, 0, nil)).Validate())
		require.Equal(t, record.StageRecords, stageOf(t, decompress(t, sealed(t, c, 1, nil)).Validate()))
	})
}

func TestDecompressInto(t *testing.T) {
	eachCodec(t, func(t *testing.T, c record.Codec) {
		b := pack(t, c, record.HeaderAt(0, 0), repetitive(300))
		want := decompress(t, b).Bytes()
		buf := bytes.Repeat([]byte{0xAA}, 1<<20)
		plain, err := b.Decompress(buf, 1<<20)
		require.NoError(t, err)
		require.Equal(t, want, plain.Bytes())
		require.Same(t, &buf[0], &plain.Bytes()[0])

		_, err = b.Decompress(buf, len(want)-1) // room isn't leave
		require.ErrorIs(t, err, record.ErrSize)
		plain, err = b.Decompress(buf[:0:10], len(want))
		require.NoError(t, err)
		require.Equal(t, want, plain.Bytes())
	})
	raw, err := record.Parse(sample(t))
	require.NoError(t, err)
	same, err := raw.Decompress(nil, 0)
	require.NoError(t, err)
	require.Equal(t, raw, same)
}

func TestCompressConcurrently(t *testing.T) {
	recs := repetitive(500)
	want := encode(t, record.HeaderAt(0, 0), recs)
	var wg sync.WaitGroup
	errs := make(chan error, 16)
	for i := range 16 {
		wg.Go(func() {
			for range 20 {
				b, err := pack(t, codecs[i%4], record.HeaderAt(0, 0), recs).Decompress(nil, 1<<20)
				if err == nil && !bytes.Equal(want, b.Bytes()) {
					err = errors.New("other bytes")
				}
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	require.Empty(t, errs)
}
