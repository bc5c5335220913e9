package topic_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/internal/vfs/vfstest"
	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/partition"
	"github.com/ottlalog/ottla/record"
	"github.com/ottlalog/ottla/topic"
)

// TestKeysArePlaced where other implementations of the two hashes place them.
func TestKeysArePlaced(t *testing.T) {
	var vectors []struct {
		KeyHex  string         `json:"key_hex"`
		XXH64   map[string]int `json:"xxh64_partition"`
		Murmur2 map[string]int `json:"murmur2_partition"`
	}
	b, err := os.ReadFile("testdata/partitioner.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &vectors))
	require.Len(t, vectors, 117)
	for _, v := range vectors {
		key, err := hex.DecodeString(v.KeyHex)
		require.NoError(t, err)
		require.Len(t, v.XXH64, 14)
		require.Len(t, v.Murmur2, 14)
		requirePlaced(t, topic.ByKey(), key, v.XXH64)
		requirePlaced(t, topic.StickyBatch(), key, v.XXH64)
		requirePlaced(t, topic.Murmur2Key(), key, v.Murmur2)
	}
}

func requirePlaced(t *testing.T, p topic.Partitioner, key []byte, want map[string]int) {
	t.Helper()
	place := p.ForTopic("any")
	for n, want := range want {
		partitions, err := strconv.Atoi(n)
		require.NoError(t, err)
		require.Equal(t, want, place(&record.Record{Key: key}, partitions), "key %x of %d", key, partitions)
	}
}

func TestPartitioners(t *testing.T) {
	count := func(p topic.Partitioner, n, records int) []int {
		place := p.ForTopic("t")
		got := make([]int, n)
		for range records {
			got[place(&record.Record{}, n)]++
		}
		return got
	}
	require.Equal(t, []int{100, 100, 100}, count(topic.RoundRobin(), 3, 300), "exactly even")
	require.Equal(t, []int{100, 100, 100}, count(topic.ByKey(), 3, 300), "without a key in turn")

	w, err := topic.Weighted(5, 1, 0)
	require.NoError(t, err)
	require.Equal(t, []int{500, 100, 0, 100}, count(w, 4, 700), "a partition beyond the list has weight 1")
	place := w.ForTopic("t")
	run := 0
	for range 60 { // evenly mixed: never more in a row than the weights make needed
		if place(&record.Record{}, 2) == 0 {
			run++
		} else {
			run = 0
		}
		require.LessOrEqual(t, run, 5)
	}
	_, err = topic.Weighted(0, 0)
	require.Error(t, err)
	_, err = topic.Weighted(1, -1)
	require.Error(t, err)

	a, b := topic.RoundRobin().ForTopic("a"), topic.RoundRobin().ForTopic("b")
	for i := range 6 { // topics don't take turns from each other
		require.Equal(t, i%3, a(&record.Record{}, 3))
		require.Equal(t, i%3, b(&record.Record{}, 3))
	}
}

func TestBadPartitionersAreErrorsOfTheSend(t *testing.T) {
	h := open(t, vfs.NewMem(vfstest.HostDir(t)), topic.Options{})
	tp := create(t, h, "a", 2)
	for _, n := range []int{-1, 2, 1 << 30} {
		p := producer(t, h, topic.ProducerConfig{Partitioner: topic.Explicit()})
		_, err := p.Send(t.Context(), "a", record.Record{Partition: n})
		require.ErrorIs(t, err, partition.ErrUnknownPartition)
		_, err = p.SendBatch(t.Context(), "a", []record.Record{{}, {Partition: n}})
		require.ErrorIs(t, err, partition.ErrUnknownPartition)
	}
	p := producer(t, h, topic.ProducerConfig{Partitioner: topic.PartitionBy(
		func(string, *record.Record, int) int { panic("mine") })})
	_, err := p.Send(t.Context(), "a", record.Record{})
	require.ErrorContains(t, err, "mine")
	require.Zero(t, tp.Partition(0).EndOffset()+tp.Partition(1).EndOffset(), "nothing of a batch was stored")
}

func TestSendBatchTellsEachRecordsPlace(t *testing.T) {
	h := open(t, vfs.NewMem(vfstest.HostDir(t)), topic.Options{})
	tp := create(t, h, "a", 4)
	p := producer(t, h, topic.ProducerConfig{Partitioner: topic.Explicit()})
	for round := range 3 {
		recs := make([]record.Record, 100)
		for i := range recs {
			recs[i] = record.Record{Partition: (i * i) % 4, Value: fmt.Appendf(nil, "%d/%d", round, i), Time: time.UnixMilli(int64(i))}
		}
		results, err := p.SendBatch(t.Context(), "a", recs)
		require.NoError(t, err)
		require.Len(t, results, len(recs))
		for i, res := range results {
			require.NoError(t, res.Err)
			require.Equal(t, recs[i].Partition, res.Partition)
			require.Equal(t, recs[i].Time, res.Time)
			require.Equal(t, string(recs[i].Value), values(t, tp.Partition(res.Partition))[res.Offset])
		}
	}
	results, err := p.SendBatch(t.Context(), "a", nil)
	require.NoError(t, err)
	require.Empty(t, results)
}

func TestABatchIsStoredWholeOrNotAtAll(t *testing.T) {
	h := open(t, vfs.NewMem(vfstest.HostDir(t)), topic.Options{})
	cfg := small(2)
	cfg.MaxRecordBytes = 10
	tp, err := h.Create(t.Context(), "a", cfg)
	require.NoError(t, err)
	p := producer(t, h, topic.ProducerConfig{Partitioner: topic.Explicit()})
	results, err := p.SendBatch(t.Context(), "a", []record.Record{
		{Partition: 0, Value: []byte("fine")},
		{Partition: 1, Value: []byte("fine too")},
		{Partition: 0, Value: []byte("much too large")},
	})
	require.ErrorIs(t, err, log.ErrRecordTooLarge)
	var se *partition.SendError
	require.ErrorAs(t, err, &se)
	require.Equal(t, partition.NotStored, se.Outcome)
	require.Zero(t, se.Partition)
	require.ErrorIs(t, results[0].Err, log.ErrRecordTooLarge)
	require.NoError(t, results[1].Err)
	require.ErrorIs(t, results[2].Err, log.ErrRecordTooLarge)
	require.Zero(t, tp.Partition(0).EndOffset())
	require.EqualValues(t, 1, tp.Partition(1).EndOffset())
}

func TestTimeOfARecordWithoutOne(t *testing.T) {
	h := open(t, vfs.NewMem(vfstest.HostDir(t)), topic.Options{})
	create(t, h, "a", 1)
	p := producer(t, h, topic.ProducerConfig{})
	before := time.Now().Truncate(time.Millisecond)
	res, err := p.Send(t.Context(), "a", record.Record{})
	require.NoError(t, err)
	require.False(t, res.Time.Before(before))
	require.False(t, res.Time.After(time.Now()))
}

func TestEachSendersRecordsKeepTheirOrder(t *testing.T) {
	h := open(t, vfs.NewMem(vfstest.HostDir(t)), topic.Options{})
	tp := create(t, h, "a", 3)
	p := producer(t, h, topic.ProducerConfig{})
	const senders, each = 8, 200
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			key := fmt.Appendf(nil, "%d", s)
			for i := range each {
				rec := record.Record{Key: key, Value: fmt.Appendf(nil, "%d", i)}
				if _, err := p.Send(context.Background(), "a", rec); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	next := map[string]int{}
	for i := range tp.Partitions() {
		r, err := tp.Partition(i).NewReader(partition.Earliest)
		require.NoError(t, err)
		recs, err := r.Read(nil, senders*each)
		require.NoError(t, err)
		for _, rec := range recs {
			require.Equal(t, fmt.Sprint(next[string(rec.Key)]), string(rec.Value))
			next[string(rec.Key)]++
		}
		require.NoError(t, r.Close())
	}
	for s := range senders {
		require.Equal(t, each, next[fmt.Sprint(s)])
	}
}

func TestSendAsyncCallsBackInOrderOnceForEach(t *testing.T) {
	h := open(t, vfs.NewMem(vfstest.HostDir(t)), topic.Options{})
	tp := create(t, h, "a", 2)
	p := producer(t, h, topic.ProducerConfig{MaxBufferedBytes: 20_000})
	var last [2]int64
	var calls atomic.Int64
	value := make([]byte, 100)
	for i := range 2000 {
		copy(value, fmt.Sprint(i)) // reused: the record is copied
		err := p.SendAsync(t.Context(), "a", record.Record{Value: value}, func(res topic.Result, err error) {
			if err != nil || res.Offset != last[res.Partition] {
				t.Errorf("offset %d after %d: %v", res.Offset, last[res.Partition], err)
			}
			last[res.Partition]++
			calls.Add(1)
		})
		require.NoError(t, err)
	}
	require.NoError(t, p.Flush(t.Context()))
	require.EqualValues(t, 2000, calls.Load())
	require.Equal(t, "0", string(bytes.TrimRight([]byte(values(t, tp.Partition(0))[0]), "\x00")))
	require.EqualValues(t, 2000, tp.Partition(0).EndOffset()+tp.Partition(1).EndOffset())

	for range 10 {
		require.NoError(t, p.SendAsync(t.Context(), "a", record.Record{}, func(topic.Result, error) {
			calls.Add(1)
			panic("the caller's fault")
		}))
	}
	require.NoError(t, p.Close())
	require.EqualValues(t, 2010, calls.Load(), "Close delivers what was taken")
	require.ErrorIs(t, p.SendAsync(t.Context(), "a", record.Record{}, nil), log.ErrClosed)
}

func TestSendAsyncReportsFailures(t *testing.T) {
	broken := errors.New("disk broke")
	fault := vfs.NewFault(vfs.NewMem(vfstest.HostDir(t)), nil)
	h := open(t, fault, topic.Options{})
	create(t, h, "a", 1)
	p := producer(t, h, topic.ProducerConfig{})
	fault.Decide(func(op vfs.Op) vfs.Outcome {
		if op.Kind == vfs.KindMsync {
			return vfs.Outcome{Err: broken}
		}
		return vfs.Outcome{}
	})
	got := make(chan error, 1)
	require.NoError(t, p.SendAsync(t.Context(), "a", record.Record{}, func(_ topic.Result, err error) { got <- err }))
	require.ErrorIs(t, <-got, broken)
	require.ErrorIs(t, p.SendAsync(t.Context(), "a", record.Record{Value: make([]byte, 9<<20)}, nil), log.ErrRecordTooLarge)
}

func TestSendAllocatesOnceAtMost(t *testing.T) {
	h := open(t, vfs.NewMem(vfstest.HostDir(t)), topic.Options{Sync: log.SyncNever})
	_, err := h.Create(t.Context(), "a", topic.Config{SegmentBytes: 4 << 20})
	require.NoError(t, err)
	p := producer(t, h, topic.ProducerConfig{})
	rec := record.Record{Key: []byte("key"), Value: make([]byte, 100)}
	perSend := testing.AllocsPerRun(1000, func() {
		if _, err := p.Send(t.Context(), "a", rec); err != nil {
			t.Error(err)
		}
	})
	require.LessOrEqual(t, perSend, 1.0)

	recs := make([]record.Record, 100)
	for i := range recs {
		recs[i] = rec
	}
	perBatch := testing.AllocsPerRun(100, func() {
		if _, err := p.SendBatch(t.Context(), "a", recs); err != nil {
			t.Error(err)
		}
	})
	require.Less(t, perBatch, 20.0, "for a hundred records")
}
