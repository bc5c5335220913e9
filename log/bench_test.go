package log_test

import (
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/record"
)

// benchRecords are records of 100 bytes with a time of their own.
func benchRecords(n int) []record.Record {
	recs := make([]record.Record, n)
	for i := range recs {
		recs[i] = record.Record{Time: time.UnixMilli(1_700_000_000_000), Value: make([]byte, 100)}
	}
	return recs
}

func benchLog(b *testing.B, cfg log.Config) *log.Log {
	l, err := log.Open(vfs.OS, b.TempDir(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	return l
}

func reportRecords(b *testing.B, perOp int) {
	b.ReportMetric(float64(b.N)*float64(perOp)/b.Elapsed().Seconds(), "records/s")
}

// BenchmarkRaw is what Append is measured by: the same bytes laid out, checksummed and copied into populated mapped memory.
func BenchmarkRaw(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(name("batch", n), func(b *testing.B) {
			mem := populated(b, 64<<20)
			recs := benchRecords(n)
			pos, offset := 0, int64(0)
			for b.Loop() {
				l, err := record.Plan(recs, 0)
				if err != nil {
					b.Fatal(err)
				}
				if pos+l.Size > len(mem) {
					pos = 0
				}
				l.Put(mem[pos:], record.HeaderAt(offset, 0), recs)
				pos += l.Size
				offset += int64(n)
			}
			reportRecords(b, n)
		})
	}
}

func populated(b *testing.B, size int64) []byte {
	f, err := vfs.OS.Create(filepath.Join(b.TempDir(), "raw"))
	if err != nil {
		b.Fatal(err)
	}
	m, err := f.Map(size, vfs.MapWrite)
	if err == nil {
		err = f.Allocate(0, size)
	}
	if err == nil {
		err = m.Populate(0, size)
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = m.Unmap(); _ = f.Close() })
	clear(m.Bytes())
	return m.Bytes()
}

func name(what string, n int) string {
	if n == 1 {
		return what + " of 1"
	}
	return what + " of 100"
}

// BenchmarkAppend appends without a sync. Retention keeps the disk from filling.
func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(name("batch", n), func(b *testing.B) {
			l := benchLog(b, log.Config{Sync: log.SyncNever, RetentionBytes: 1})
			recs := benchRecords(n)
			h := record.HeaderAt(0, 0)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if _, err := l.Append(h, recs); err != nil {
					b.Fatal(err)
				}
				if i++; i%1_000_000 == 0 {
					b.StopTimer()
					if err := l.Tick(b.Context(), time.Now()); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
			}
			reportRecords(b, n)
		})
	}
}

// BenchmarkRead reads 100-byte records from front to end, again and again: one by one stored, and in batches.
func BenchmarkRead(b *testing.B) {
	for _, n := range []int{1, 100} {
		for _, sealed := range []bool{false, true} {
			kind := " from the mapping"
			if sealed {
				kind = " from the file"
			}
			b.Run(name("batch", n)+kind, func(b *testing.B) {
				l := benchLog(b, log.Config{Sync: log.SyncNever})
				recs := benchRecords(n)
				for l.Size() < 32<<20 {
					if _, err := l.Append(record.HeaderAt(0, 0), recs); err != nil {
						b.Fatal(err)
					}
				}
				if sealed {
					if err := l.Tick(b.Context(), time.Now().Add(30*24*time.Hour)); err != nil {
						b.Fatal(err)
					}
				}
				r, err := l.NewReader(0)
				if err != nil {
					b.Fatal(err)
				}
				defer r.Close()
				var rec record.Record
				b.SetBytes(l.Size() / (l.End() / int64(n)))
				b.ReportAllocs()
				for b.Loop() {
					batch, err := r.Next(l.End())
					if err == io.EOF {
						if err := r.SeekTo(0); err != nil {
							b.Fatal(err)
						}
						continue
					}
					if err != nil {
						b.Fatal(err)
					}
					for it := batch.Records(); it.Next(&rec); {
					}
				}
				reportRecords(b, n)
			})
		}
	}
}

// BenchmarkDurable appends and waits for the disk, alone and 64 at a time, beside bare syncs of a mapped file.
func BenchmarkDurable(b *testing.B) {
	b.Run("bare sync", func(b *testing.B) {
		f, err := os.CreateTemp(b.TempDir(), "")
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		mem := vfsMapping(b, f.Name(), 64<<20)
		pos := int64(0)
		for b.Loop() {
			mem.Bytes()[pos] = 1
			if err := mem.Sync(pos, 172); err != nil {
				b.Fatal(err)
			}
			pos = (pos + 172) % (63 << 20)
		}
		reportRecords(b, 1)
	})
	for _, callers := range []int{1, 64} {
		b.Run(map[int]string{1: "1 caller", 64: "64 callers"}[callers], func(b *testing.B) {
			var syncs, left atomic.Int64
			fs := vfs.NewFault(vfs.OS, func(op vfs.Op) vfs.Outcome {
				if op.Kind == vfs.KindMsync {
					syncs.Add(1)
				}
				return vfs.Outcome{}
			})
			l, err := log.Open(fs, b.TempDir(), log.Config{})
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			recs := benchRecords(1)
			left.Store(int64(b.N))
			b.ResetTimer()
			done := make(chan error)
			for range callers {
				go func() {
					for left.Add(-1) >= 0 {
						at, err := l.Append(record.HeaderAt(0, 0), recs)
						if err == nil {
							err = l.Sync(b.Context(), at.Next)
						}
						if err != nil {
							done <- err
							return
						}
					}
					done <- nil
				}()
			}
			for range callers {
				if err := <-done; err != nil {
					b.Fatal(err)
				}
			}
			reportRecords(b, 1)
			b.ReportMetric(float64(b.N)/float64(syncs.Load()), "records/sync")
		})
	}
}

func vfsMapping(b *testing.B, path string, size int64) vfs.Mapping {
	f, err := vfs.OS.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	m, err := f.Map(size, vfs.MapWrite)
	if err == nil {
		err = f.Allocate(0, size)
	}
	if err == nil {
		err = m.Populate(0, size)
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = m.Unmap(); _ = f.Close() })
	return m
}
