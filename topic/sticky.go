package topic

import (
	"math/rand/v2"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"

	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/record"
)

// stickyBytes is how much of records without a key goes to one partition before it is the next one's turn: the size of a
// batch of Kafka's clients.
const stickyBytes = 16 << 10

// StickyBatch places records without a key (nil; an empty key is one) in runs: 16 KiB of keys, values and headers to one
// partition, then to the next, so that each partition gets fewer and larger batches, and in the long run as many bytes as
// the others. Each producer begins at a partition of its own choice. Records with a key are placed as by ByKey.
func StickyBatch() Partitioner {
	return partitionerFunc(func(string) Place {
		sticky := newSticky()
		return func(r *record.Record, n int) int {
			if r.Key == nil {
				return sticky(r, n)
			}
			return int(xxhash.Sum64(r.Key) % uint64(n))
		}
	})
}

// Murmur2Key places a record where Kafka's Java client does by default, for topics that are shared with a cluster: by the
// murmur2 of its key, and those without a key (nil; an empty key is one) in runs, as StickyBatch does.
func Murmur2Key() Partitioner {
	return partitionerFunc(func(string) Place {
		sticky := newSticky()
		return func(r *record.Record, n int) int {
			if r.Key == nil {
				return sticky(r, n)
			}
			return int(uint64(murmur2(r.Key)&0x7fffffff) % uint64(n))
		}
	})
}

// newSticky counts runs in the upper half of a number, and bytes of the current one in the lower half.
func newSticky() Place {
	first := rand.Uint32() // so that many producers of few records don't all send to the same partition
	var state atomic.Uint64
	return func(r *record.Record, n int) int {
		size := uint32(log.ContentBytes(r)) + 1 // an empty record is no reason to stay for ever
		for {
			was := state.Load()
			run, used := uint32(was>>32), uint32(was)
			next := uint64(run)<<32 | uint64(used+size)
			if used+size >= stickyBytes {
				next = uint64(run+1) << 32
			}
			if state.CompareAndSwap(was, next) {
				return int((uint64(first) + uint64(run)) % uint64(n))
			}
		}
	}
}
