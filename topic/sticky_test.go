package topic_test

import (
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/internal/vfs/vfstest"
	"github.com/ottlalog/ottla/record"
	"github.com/ottlalog/ottla/topic"
)

var stickies = map[string]func() topic.Partitioner{"StickyBatch": topic.StickyBatch, "Murmur2Key": topic.Murmur2Key}

// A partition gets a run of records, and each partition as much as the others.
func TestStickyRuns(t *testing.T) {
	for name, p := range stickies {
		place := p().ForTopic("t")
		rec := &record.Record{Value: make([]byte, 1023)} // 16 of them make a run
		last := place(rec, 6)
		for i := 1; i < 600; i++ {
			at := place(rec, 6)
			if want := last; i%16 != 0 {
				require.Equal(t, want, at, "%s: record %d", name, i)
			} else {
				require.Equal(t, (last+1)%6, at, "%s: record %d", name, i)
			}
			last = at
		}
	}
}

func TestStickyIsEvenInBytes(t *testing.T) {
	sizes := map[string]func(rng *rand.Rand) int{
		"equal":           func(*rand.Rand) int { return 100 },
		"mixed":           func(rng *rand.Rand) int { return rng.IntN(2000) },
		"larger than run": func(*rand.Rand) int { return 40_000 },
		"empty":           func(*rand.Rand) int { return 0 },
	}
	value := make([]byte, 40_000)
	for name, size := range sizes {
		for _, n := range []int{1, 2, 6, 7} {
			rng := rand.New(rand.NewPCG(1, 5))
			place := topic.StickyBatch().ForTopic("t")
			got, total := make([]int64, n), int64(0)
			for range 1_000_000 {
				rec := record.Record{Value: value[:size(rng)]}
				got[place(&rec, n)] += int64(len(rec.Value) + 1)
				total += int64(len(rec.Value) + 1)
			}
			for _, bytes := range got {
				even := total / int64(n)
				require.InDelta(t, even, bytes, 0.05*float64(even)+16<<10, "%s: %v", name, got) // and a run
			}
		}
	}
}

func TestStickyFromManyGoroutinesAndForAnyNumber(t *testing.T) {
	place := topic.StickyBatch().ForTopic("t")
	rec := &record.Record{Value: make([]byte, 1023)}
	var counts [4]atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 16 * 50 {
				counts[place(rec, 4)].Add(1)
			}
		})
	}
	wg.Wait()
	for i := range counts {
		require.EqualValues(t, 8*16*50/4, counts[i].Load())
	}
	for _, n := range []int{1, 2, 3, 7, math.MaxInt32} { // and when the number changes
		for range 1000 {
			at := place(rec, n)
			require.True(t, at >= 0 && at < n)
		}
	}
}

// Producers of few records each don't all begin with the same partition.
func TestStickyBeginsAnywhere(t *testing.T) {
	var seen [8]bool
	for range 1000 {
		seen[topic.StickyBatch().ForTopic("t")(&record.Record{}, len(seen))] = true
	}
	require.NotContains(t, seen, false)
}

func TestStickySendsFewBatches(t *testing.T) {
	h := open(t, vfs.NewMem(vfstest.HostDir(t)), topic.Options{})
	tp := create(t, h, "a", 8)
	recs := make([]record.Record, 10)
	results, err := producer(t, h, topic.ProducerConfig{Partitioner: topic.StickyBatch()}).SendBatch(t.Context(), "a", recs)
	require.NoError(t, err)
	for i, r := range results {
		require.Equal(t, results[0].Partition, r.Partition)
		require.EqualValues(t, i, r.Offset)
	}
	require.Len(t, values(t, tp.Partition(results[0].Partition)), 10)
}

func BenchmarkPlace(b *testing.B) {
	for name, p := range map[string]topic.Partitioner{
		"ByKey": topic.ByKey(), "Murmur2Key": topic.Murmur2Key(), "StickyBatch": topic.StickyBatch(),
	} {
		place := p.ForTopic("t")
		for kind, rec := range map[string]*record.Record{"key": {Key: []byte("customer-1234567")}, "none": {Value: make([]byte, 100)}} {
			b.Run(name+"/"+kind, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					place(rec, 6)
				}
			})
		}
	}
}
