package bench

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/partition"
	"github.com/ottlalog/ottla/record"
)

// beside runs both sides b.N times each, in turns, and reports the ratio.
func beside(b *testing.B, raw, ours func(n int)) (rawTime, ourTime time.Duration) {
	b.Helper()
	const rounds = 20
	raw(1)
	ours(1)
	b.ResetTimer()
	for done := 0; done < b.N; {
		n := min(max(b.N/rounds, 1), b.N-done)
		start := time.Now()
		raw(n)
		middle := time.Now()
		ours(n)
		rawTime += middle.Sub(start)
		ourTime += time.Since(middle)
		done += n
	}
	b.ReportMetric(float64(ourTime.Nanoseconds())/float64(b.N), "ns/op")
	b.ReportMetric(float64(rawTime.Nanoseconds())/float64(b.N), "raw-ns/op")
	b.ReportMetric(float64(ourTime)/float64(rawTime), "x-raw")
	return rawTime, ourTime
}

// mapped returns populated, mapped memory of a real file.
func mapped(b *testing.B, size int64) vfs.Mapping {
	b.Helper()
	f, err := vfs.OS.Create(filepath.Join(b.TempDir(), "raw"))
	must(b, err)
	must(b, f.Allocate(0, size))
	m, err := f.Map(size, vfs.MapWrite)
	must(b, err)
	must(b, m.Populate(0, size))
	b.Cleanup(func() {
		must(b, m.Unmap())
		must(b, f.Close())
	})
	return m
}

func open(b *testing.B, cfg log.Config) *partition.Partition {
	b.Helper()
	p, err := partition.Open(vfs.OS, partition.Config{Topic: "bench", Dir: b.TempDir(), Log: cfg})
	must(b, err)
	b.Cleanup(func() { must(b, p.Close()) })
	return p
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// records returns n records with a key of 8 bytes and values of the given size.
func records(n, size int) []record.Record {
	recs := make([]record.Record, n)
	for i := range recs {
		recs[i] = record.Record{Key: []byte("key-0123"), Value: make([]byte, size), Time: time.UnixMilli(1_700_000_000_000)}
	}
	return recs
}

// noSync leaves the disk to the kernel.
var noSync = log.Config{Sync: log.SyncNever}

// appends measures Partition.Append without sync beside a loop that plans, encodes, checksums and copies the same batch
// into populated mapped memory.
func appends(b *testing.B, n, size int) {
	recs := records(n, size)
	const room = 64 << 20
	mem := mapped(b, room).Bytes()
	pos := 0
	raw := func(times int) {
		for i := range times {
			l, err := record.Plan(recs, 0)
			if err != nil {
				b.Fatal(err)
			}
			if pos+l.Size > room {
				pos = 0
			}
			l.Put(mem[pos:pos+l.Size], record.HeaderAt(int64(i), 0), recs)
			pos += l.Size
		}
	}
	p := open(b, noSync)
	ctx := context.Background()
	ours := func(times int) {
		for range times {
			if _, err := p.Append(ctx, recs); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportAllocs()
	beside(b, raw, ours)
	b.ReportMetric(float64(n), "records/op")
}

func BenchmarkAppend1x100(b *testing.B)   { appends(b, 1, 100) }
func BenchmarkAppend1x1K(b *testing.B)    { appends(b, 1, 1024) }
func BenchmarkAppend100x100(b *testing.B) { appends(b, 100, 100) }
func BenchmarkAppend100x1K(b *testing.B)  { appends(b, 100, 1024) }

// BenchmarkRead100 reads a partition of 100-byte records from front to back with checksums, beside a loop that copies the
// same batches out of mapped memory and checks and decodes them.
func BenchmarkRead100(b *testing.B) {
	const batches, perBatch = 2000, 100
	recs := records(perBatch, 100)
	l, err := record.Plan(recs, 0)
	must(b, err)
	mem := mapped(b, int64(batches*l.Size)).Bytes()
	p := open(b, log.Config{Sync: log.SyncNever})
	ctx := context.Background()
	for i := range batches {
		l.Put(mem[i*l.Size:(i+1)*l.Size], record.HeaderAt(int64(i*perBatch), 0), recs)
		_, err := p.Append(ctx, recs)
		must(b, err)
	}
	buf := make([]byte, l.Size)
	raw := func(times int) {
		var rec record.Record
		for range times {
			for i := range batches {
				copy(buf, mem[i*l.Size:])
				batch, err := record.Parse(buf)
				if err != nil {
					b.Fatal(err)
				}
				for it := batch.Records(); it.Next(&rec); {
				}
			}
		}
	}
	r, err := p.NewReader(partition.Earliest)
	must(b, err)
	defer r.Close()
	ours := func(times int) {
		for range times {
			must(b, r.SeekTo(partition.Earliest))
			n := 0
			for _, err := range r.Views(ctx) {
				if err != nil {
					b.Fatal(err)
				}
				if n++; n == batches*perBatch {
					break
				}
			}
		}
	}
	b.ReportAllocs()
	b.SetBytes(int64(batches * l.Size))
	beside(b, raw, ours)
	b.ReportMetric(batches*perBatch, "records/op")
}

// BenchmarkHandOff sends a record to a waiting reader and waits until it has it, beside the same over two bare channels.
func BenchmarkHandOff(b *testing.B) {
	there, back := make(chan int), make(chan int)
	go func() {
		for v := range there {
			back <- v
		}
		close(back)
	}()
	defer close(there)
	raw := func(times int) {
		for i := range times {
			there <- i
			<-back
		}
	}
	p := open(b, noSync)
	r, err := p.NewReader(partition.Latest)
	must(b, err)
	got := make(chan int64)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for rec, err := range r.Views(ctx) {
			if err != nil {
				return
			}
			got <- rec.Offset
		}
	}()
	defer func() { cancel(); <-done; must(b, r.Close()) }()
	recs := records(1, 100)
	ours := func(times int) {
		for range times {
			if _, err := p.Append(ctx, recs); err != nil {
				b.Fatal(err)
			}
			<-got
		}
	}
	beside(b, raw, ours)
}
