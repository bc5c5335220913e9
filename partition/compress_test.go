package partition_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/partition"
	"github.com/ottlalog/ottla/record"
)

func openCodec(t testing.TB, fs vfs.FS, c record.Codec, cfg log.Config) *partition.Partition {
	t.Helper()
	p, err := partition.Open(fs, partition.Config{Topic: "orders", Number: 3, Dir: "orders-3", Codec: c, Log: cfg})
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func valueAt(offset int64) string { return strings.Repeat(fmt.Sprintf("<%d>", offset), 10) }

// sendMany appends batches of n records.
func sendMany(t testing.TB, p *partition.Partition, batches, n int) {
	t.Helper()
	for range batches {
		recs := make([]record.Record, n)
		for i := range recs {
			at := p.EndOffset() + int64(i)
			recs[i] = record.Record{Time: time.UnixMilli(at), Value: []byte(valueAt(at))}
		}
		_, err := p.Append(t.Context(), recs)
		require.NoError(t, err)
	}
}

func TestCompressedRecordsAreReadInEveryWay(t *testing.T) {
	for c := record.CodecNone; c <= record.CodecZstd; c++ {
		t.Run(c.String(), func(t *testing.T) {
			p := openCodec(t, newMem(t), c, log.Config{SegmentBytes: 8 << 10})
			sendMany(t, p, 20, 100)
			if c != record.CodecNone {
				require.Less(t, p.Size(), int64(2000*20))
			}
			for _, from := range []int64{0, 1, 99, 100, 1234, 1999, 2000} {
				r, err := p.NewReader(partition.At(from))
				require.NoError(t, err)
				next := from
				check := func(rec *record.Record) {
					require.Equal(t, next, rec.Offset)
					require.Equal(t, next, rec.Time.UnixMilli())
					require.Equal(t, valueAt(next), string(rec.Value))
					next++
				}
				var kept []record.Record
				for next < 2000 { // three ways in turn, within batches and over their ends
					recs, err := r.Read(nil, 37)
					require.NoError(t, err)
					for i := range recs {
						check(&recs[i])
					}
					kept = append(kept, recs...)
					for i := 0; i < 55 && next < 2000; i++ {
						rec, err := r.Next(t.Context())
						require.NoError(t, err)
						check(&rec)
						kept = append(kept, rec)
					}
					if next == 2000 {
						break
					}
					n := 0
					for rec, err := range r.Views(t.Context()) {
						require.NoError(t, err)
						check(rec)
						if n++; n == 120 || next == 2000 {
							break
						}
					}
				}
				for _, rec := range kept { // the caller's own, whatever was read since
					require.Equal(t, valueAt(rec.Offset), string(rec.Value))
				}
				require.NoError(t, r.Close())
			}
			offset, err := p.OffsetForTime(time.UnixMilli(777))
			require.NoError(t, err)
			require.EqualValues(t, 777, offset)
		})
	}
}

// One batch of many small records is decompressed once, however few records are read at a time.
func TestABatchIsDecompressedOnce(t *testing.T) {
	p := openCodec(t, newMem(t), record.CodecZstd, log.Config{SegmentBytes: 1 << 20})
	const n = 10_000
	sendMany(t, p, 1, n)
	plain := n * len(valueAt(n))
	allocated := func(read func(r *partition.Reader)) int {
		r, err := p.NewReader(partition.Earliest)
		require.NoError(t, err)
		defer r.Close()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		read(r)
		runtime.ReadMemStats(&after)
		require.EqualValues(t, n, r.Offset())
		return int(after.TotalAlloc - before.TotalAlloc)
	}
	one := make([]record.Record, 0, 1)
	require.Less(t, allocated(func(r *partition.Reader) {
		for range n {
			recs, err := r.Read(one, 1)
			if err != nil || len(recs) != 1 {
				require.NoError(t, err)
			}
		}
	}), 4*plain+n*256) // a Record itself may be allocated
	require.Less(t, allocated(func(r *partition.Reader) {
		for _, err := range r.Views(t.Context()) {
			require.NoError(t, err)
			if r.Offset() == n {
				break
			}
		}
	}), 4*plain)
}

func TestBatchThatIsTooLargeToBeDecompressedIsSkipped(t *testing.T) {
	mem := newMem(t)
	p := openCodec(t, mem, record.CodecZstd, log.Config{MaxRecordBytes: 65 << 20})
	sendMany(t, p, 1, 10)
	_, err := p.Append(t.Context(), []record.Record{{Value: make([]byte, 65<<20)}})
	require.NoError(t, err)
	sendMany(t, p, 1, 10)
	require.NoError(t, p.Close())

	p = openCodec(t, mem, record.CodecNone, log.Config{})
	r, err := p.NewReader(partition.Earliest)
	require.NoError(t, err)
	defer r.Close()
	recs, err := r.Read(nil, 100)
	require.Len(t, recs, 10)
	for range 2 {
		var se *record.SizeError
		require.ErrorAs(t, err, &se)
		require.ErrorContains(t, err, `topic "orders" partition 3`)
		require.EqualValues(t, 10, r.Offset())
		_, err = r.Next(t.Context())
	}
	require.NoError(t, r.Skip())
	recs, err = r.Read(nil, 100)
	require.NoError(t, err)
	require.Len(t, recs, 10)
	require.EqualValues(t, 11, recs[0].Offset)
}

func BenchmarkReadCompressed(b *testing.B) {
	for c := record.CodecNone; c <= record.CodecZstd; c++ {
		b.Run(c.String(), func(b *testing.B) {
			p := openCodec(b, newMem(b), c, log.Config{SegmentBytes: 64 << 20, Sync: log.SyncNever})
			sendMany(b, p, 100, 100)
			b.ReportAllocs()
			for b.Loop() {
				r, err := p.NewReader(partition.Earliest)
				if err != nil {
					b.Fatal(err)
				}
				for _, err := range r.Views(b.Context()) {
					if err != nil {
						b.Fatal(err)
					}
					if r.Offset() == p.HighWatermark() {
						break
					}
				}
				_ = r.Close()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*10_000), "ns/record")
		})
	}
}
