package topic

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"

	"github.com/ottlalog/ottla/record"
)

// Partitioner chooses partitions for a producer.
type Partitioner interface {
	// ForTopic returns the function that places the records of one topic. A producer asks when it first sends to the topic
	// and keeps the function, which may be called by several goroutines at once. Goroutines that are first at the same time
	// may all ask; one answer is kept.
	ForTopic(topic string) Place
}

// Place returns the partition of a record, from 0 to partitions-1. It must neither change nor keep the record. Another
// number is ErrUnknownPartition to the sender.
type Place func(r *record.Record, partitions int) int

type partitionerFunc func(topic string) Place

func (f partitionerFunc) ForTopic(topic string) Place { return f(topic) }

// ByKey places a record by the xxh64 of its key, so that all records of one key are in one partition for as long as the
// topic has as many partitions; those without a key (nil; an empty key is one) in turn. It is the default.
func ByKey() Partitioner {
	return partitionerFunc(func(string) Place {
		inTurn := newTurn()
		return func(r *record.Record, n int) int {
			if r.Key == nil {
				return inTurn(r, n)
			}
			return int(xxhash.Sum64(r.Key) % uint64(n))
		}
	})
}

// RoundRobin places records in turn: exactly even, whatever their keys.
func RoundRobin() Partitioner {
	return partitionerFunc(func(string) Place { return newTurn() })
}

func newTurn() Place {
	var next atomic.Uint64
	return func(_ *record.Record, n int) int { return int((next.Add(1) - 1) % uint64(n)) }
}

// Explicit places each record where its field Partition says.
func Explicit() Partitioner {
	return partitionerFunc(func(string) Place {
		return func(r *record.Record, _ int) int { return r.Partition }
	})
}

// PartitionBy places records by the caller's own function, which is called by several goroutines at once. A panic in it is
// an error of the send.
func PartitionBy(place func(topic string, r *record.Record, partitions int) int) Partitioner {
	return partitionerFunc(func(topic string) Place {
		return func(r *record.Record, n int) int { return place(topic, r, n) }
	})
}

// Weighted places records in proportion to weights, evenly mixed: weight i is partition i's share, and a partition
// beyond the list has weight 1. At least one weight must be positive and none negative.
func Weighted(weights ...int) (Partitioner, error) {
	var sum int
	for i, w := range weights {
		if w < 0 {
			return nil, fmt.Errorf("weight %d of partition %d is negative", w, i)
		}
		sum += w
	}
	if sum == 0 {
		return nil, errors.New("no partition has a positive weight")
	}
	weights = append([]int(nil), weights...)
	return partitionerFunc(func(string) Place {
		w := weighted{weights: weights}
		return w.place
	}), nil
}

// weighted gives each partition credit by its weight and takes the one with the most, which then pays for the whole round:
// the smooth weighted round-robin that nginx made known.
type weighted struct {
	weights []int
	mu      struct {
		sync.Mutex
		credit []int
	}
}

func (w *weighted) place(_ *record.Record, n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.mu.credit) < n {
		w.mu.credit = append(w.mu.credit, 0)
	}
	best, total := -1, 0
	for i := range n {
		weight := 1
		if i < len(w.weights) {
			weight = w.weights[i]
		}
		total += weight
		w.mu.credit[i] += weight
		if weight > 0 && (best < 0 || w.mu.credit[i] > w.mu.credit[best]) {
			best = i
		}
	}
	if best < 0 { // fewer partitions than weights, all of weight 0
		return 0
	}
	w.mu.credit[best] -= total
	return best
}
