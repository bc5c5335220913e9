package bench

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/partition"
)

// durable measures appends of one 100-byte record from several goroutines under SyncAlways, beside bare syncs, one after
// the other, of 170 bytes stored into a mapped, allocated and populated file.
func durable(b *testing.B, goroutines int) {
	m := mapped(b, 256<<20)
	mem := m.Bytes()
	var pos int64
	raw := func(times int) {
		for range times {
			if pos+170 > int64(len(mem)) {
				pos = 0
			}
			mem[pos], mem[pos+169] = 1, 2
			must(b, m.Sync(pos, 170))
			pos += 170
		}
	}
	syncs := &syncCounter{FS: vfs.OS}
	p, err := partition.Open(syncs, partition.Config{Topic: "bench", Dir: b.TempDir(), Log: log.Config{}})
	must(b, err)
	defer func() { must(b, p.Close()) }()
	recs := records(1, 100)
	ours := func(times int) {
		var left atomic.Int64
		left.Store(int64(times))
		var wg sync.WaitGroup
		for range goroutines {
			wg.Go(func() {
				for left.Add(-1) >= 0 {
					if _, err := p.Append(context.Background(), recs); err != nil {
						b.Error(err)
					}
				}
			})
		}
		wg.Wait()
	}
	rawTime, ourTime := beside(b, raw, ours)
	perSync := float64(p.EndOffset()) / float64(syncs.n.Load())
	b.ReportMetric(perSync, "records/sync")
	b.ReportMetric(rawTime.Seconds()/(ourTime.Seconds()*perSync), "of-bare-syncs") // 1: all the time goes into the syncs
}

func BenchmarkDurable1(b *testing.B)  { durable(b, 1) }
func BenchmarkDurable64(b *testing.B) { durable(b, 64) }

// syncCounter counts the syncs of mapped ranges.
type syncCounter struct {
	vfs.FS
	n atomic.Int64
}

func (c *syncCounter) Create(name string) (vfs.File, error) {
	f, err := c.FS.Create(name)
	return countedFile{f, c}, err
}

type countedFile struct {
	vfs.File
	c *syncCounter
}

func (f countedFile) Map(size int64, mode vfs.MapMode) (vfs.Mapping, error) {
	m, err := f.File.Map(size, mode)
	return countedMapping{m, f.c}, err
}

type countedMapping struct {
	vfs.Mapping
	c *syncCounter
}

func (m countedMapping) Sync(off, n int64) error {
	m.c.n.Add(1)
	return m.Mapping.Sync(off, n)
}
