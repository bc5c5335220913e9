package record_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ottlalog/ottla/record"
)

// plain returns n records with values of size bytes, no keys, no headers.
func plain(n, size int) []record.Record {
	recs := make([]record.Record, n)
	for i := range recs {
		recs[i] = record.Record{Time: time.UnixMilli(1_700_000_000_000 + int64(i)), Value: make([]byte, size)}
	}
	return recs
}

func benchmarkPut(b *testing.B, recs []record.Record) {
	dst := make([]byte, 64<<10)
	h := record.HeaderAt(0, 0)
	b.ReportAllocs()
	for b.Loop() {
		l, err := record.Plan(recs, 1)
		if err != nil {
			b.Fatal(err)
		}
		l.Put(dst, h, recs)
		h.BaseOffset += int64(l.Count)
	}
	perRecord(b, len(recs))
}

func perRecord(b *testing.B, n int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/record")
}

func BenchmarkPut1x100(b *testing.B)   { benchmarkPut(b, plain(1, 100)) }
func BenchmarkPut100x100(b *testing.B) { benchmarkPut(b, plain(100, 100)) }

func BenchmarkPutNow1x100(b *testing.B) {
	recs := plain(1, 100)
	recs[0].Time = time.Time{}
	benchmarkPut(b, recs)
}

func BenchmarkIterate(b *testing.B) {
	for _, n := range []int{1, 100} {
		raw := encode(b, record.HeaderAt(0, 0), plain(n, 100))
		batch, err := record.Parse(raw)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("parse+records/%dx100", n), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(raw)))
			var r record.Record
			for b.Loop() {
				batch, err := record.Parse(raw)
				if err != nil {
					b.Fatal(err)
				}
				drain(b, batch, &r)
			}
			perRecord(b, n)
		})
		b.Run(fmt.Sprintf("records/%dx100", n), func(b *testing.B) {
			b.ReportAllocs()
			var r record.Record
			for b.Loop() {
				drain(b, batch, &r)
			}
			perRecord(b, n)
		})
		b.Run(fmt.Sprintf("validate/%dx100", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := batch.Validate(); err != nil {
					b.Fatal(err)
				}
			}
			perRecord(b, n)
		})
	}
}

func drain(tb testing.TB, batch record.Batch, r *record.Record) {
	it := batch.Records()
	for it.Next(r) {
	}
	if it.Err() != nil {
		tb.Fatal(it.Err())
	}
}

func encode(tb testing.TB, h record.BatchHeader, recs []record.Record) []byte {
	tb.Helper()
	l, err := record.Plan(recs, 1_700_000_000_000)
	if err != nil {
		tb.Fatal(err)
	}
	b := make([]byte, l.Size)
	l.Put(b, h, recs)
	return b
}

// BenchmarkCodecs compresses and decompresses a batch of 1000 records that differ a little.
func BenchmarkCodecs(b *testing.B) {
	recs := repetitive(1000)
	size := int64(len(encode(b, record.HeaderAt(0, 0), recs)))
	for _, c := range codecs {
		packed := pack(b, c, record.HeaderAt(0, 0), recs)
		var buf []byte
		b.Run(c.String()+"/compress", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(size)
			for b.Loop() {
				l, err := record.Plan(recs, now)
				if err != nil {
					b.Fatal(err)
				}
				buf = l.Compress(buf[:0], c, recs)
			}
			b.ReportMetric(float64(size)/float64(len(packed.Bytes())), "ratio")
		})
		b.Run(c.String()+"/decompress", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(size)
			for b.Loop() {
				plain, err := packed.Decompress(buf, 1<<20)
				if err != nil {
					b.Fatal(err)
				}
				buf = plain.Bytes()
			}
		})
	}
}
