package topic_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/internal/vfs/vfstest"
	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/record"
	"github.com/ottlalog/ottla/topic"
)

// slowSyncs delays every sync of records.
func slowSyncs(d time.Duration) func(vfs.Op) vfs.Outcome {
	return func(op vfs.Op) (o vfs.Outcome) {
		if op.Kind == vfs.KindMsync {
			o.Delay = d
		}
		return o
	}
}

func TestACallbackThatEndsItsGoroutineCostsNoOther(t *testing.T) {
	h := open(t, vfs.NewMem(vfstest.HostDir(t)), topic.Options{})
	create(t, h, "a", 1)
	p := producer(t, h, topic.ProducerConfig{})
	var calls atomic.Int64
	for range 30 {
		require.NoError(t, p.SendAsync(t.Context(), "a", record.Record{}, func(res topic.Result, err error) {
			if err != nil || res.Offset != calls.Add(1)-1 {
				t.Errorf("offset %d: %v", res.Offset, err)
			}
			runtime.Goexit() // as FailNow does
		}))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.NoError(t, p.Flush(ctx))
	require.EqualValues(t, 30, calls.Load())
	require.NoError(t, p.Close())
}

func TestHeadersCountAsBufferedBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fault := vfs.NewFault(vfs.NewMem(vfstest.HostDir(t)), slowSyncs(time.Second))
		h := open(t, fault, topic.Options{})
		create(t, h, "a", 1)
		p := producer(t, h, topic.ProducerConfig{MaxBufferedBytes: 8 << 10})
		rec := record.Record{Headers: []record.Header{{Key: "k", Value: make([]byte, 5<<10)}}}
		require.NoError(t, p.SendAsync(t.Context(), "a", rec, nil))
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, p.SendAsync(ctx, "a", rec, nil), context.DeadlineExceeded)
		require.NoError(t, p.SendAsync(t.Context(), "a", rec, nil), "when there is room")
		require.NoError(t, p.Close())
	})
}

func TestFlushAndCloseWhileTheDiskIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fault := vfs.NewFault(vfs.NewMem(vfstest.HostDir(t)), slowSyncs(time.Second))
		h := open(t, fault, topic.Options{})
		tp := create(t, h, "a", 1)
		p := producer(t, h, topic.ProducerConfig{MaxBufferedBytes: 1})
		require.NoError(t, p.Flush(t.Context()), "nothing to wait for")

		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		done := func(_ topic.Result, err error) {
			require.NoError(t, err)
			calls++
		}
		require.NoError(t, p.SendAsync(ctx, "a", record.Record{}, done))
		blocked, flushed, refused := make(chan error, 1), make(chan error, 1), make(chan error, 1)
		go func() { blocked <- p.SendAsync(ctx, "a", record.Record{}, done) }()
		go func() { flushed <- p.Flush(ctx) }()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-blocked, context.Canceled)
		require.ErrorIs(t, <-flushed, context.Canceled)
		require.ErrorIs(t, p.SendAsync(ctx, "a", record.Record{}, done), context.Canceled)

		go func() { refused <- p.SendAsync(t.Context(), "a", record.Record{}, done) }()
		synctest.Wait()
		require.NoError(t, p.Close())
		require.ErrorIs(t, <-refused, log.ErrClosed)
		require.Equal(t, 1, calls, "what was taken is stored, and what wasn't isn't")
		require.EqualValues(t, 1, tp.Partition(0).EndOffset())
		require.NoError(t, p.Flush(t.Context()))
	})
}

func TestRecordsOfADeletedTopicAreCalledBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fault := vfs.NewFault(vfs.NewMem(vfstest.HostDir(t)), slowSyncs(time.Second))
		h := open(t, fault, topic.Options{})
		create(t, h, "a", 1)
		p := producer(t, h, topic.ProducerConfig{})
		errs := make(chan error, 2)
		done := func(_ topic.Result, err error) { errs <- err }
		require.NoError(t, p.SendAsync(t.Context(), "a", record.Record{}, done))
		synctest.Wait() // it is on its way
		require.NoError(t, p.SendAsync(t.Context(), "a", record.Record{}, done))
		require.NoError(t, h.Delete(t.Context(), "a"))
		for range 2 {
			if err := <-errs; err != nil { // otherwise it was stored before
				require.ErrorIs(t, err, topic.ErrUnknownTopic)
			}
		}
		require.ErrorIs(t, p.SendAsync(t.Context(), "a", record.Record{}, done), topic.ErrUnknownTopic)
		require.NoError(t, p.Close())
		require.Empty(t, errs)
	})
}

func TestACallbackMaySend(t *testing.T) {
	h := open(t, vfs.NewMem(vfstest.HostDir(t)), topic.Options{})
	tp := create(t, h, "a", 1)
	p := producer(t, h, topic.ProducerConfig{})
	require.NoError(t, p.SendAsync(t.Context(), "a", record.Record{}, func(topic.Result, error) {
		_, err := p.Send(context.Background(), "a", record.Record{})
		err = errors.Join(err, p.SendAsync(context.Background(), "a", record.Record{}, nil))
		if err != nil {
			t.Error(err)
		}
	}))
	require.NoError(t, p.Flush(t.Context()))
	require.NoError(t, p.Close())
	require.EqualValues(t, 3, tp.Partition(0).EndOffset())
}

// collected waits until the garbage collector has taken what a weak pointer points to.
func collected[T any](t *testing.T, p weak.Pointer[T]) {
	t.Helper()
	for range 100 {
		runtime.GC()
		if p.Value() == nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("still in memory")
}

func TestAnIdleProducerKeepsNoRecordsAlive(t *testing.T) {
	h := open(t, vfs.NewMem(vfstest.HostDir(t)), topic.Options{Sync: log.SyncNever})
	create(t, h, "a", 1)
	p := producer(t, h, topic.ProducerConfig{})
	var kept []weak.Pointer[[4096]byte]
	for range 20 {
		big := new([4096]byte)
		kept = append(kept, weak.Make(big))
		require.NoError(t, p.SendAsync(t.Context(), "a", record.Record{}, func(topic.Result, error) { big[0]++ }))
	}
	require.NoError(t, p.Flush(t.Context()))
	for _, k := range kept {
		collected(t, k)
	}
	runtime.KeepAlive(p)
}

func TestAProducerForgetsDeletedTopics(t *testing.T) {
	h := open(t, vfs.NewMem(vfstest.HostDir(t)), topic.Options{})
	p := producer(t, h, topic.ProducerConfig{})
	send := func(name string) weak.Pointer[topic.Topic] {
		tp := create(t, h, name, 1)
		_, err := p.Send(t.Context(), name, record.Record{})
		require.NoError(t, err)
		return weak.Make(tp)
	}
	old := send("a")
	require.NoError(t, h.Delete(t.Context(), "a"))
	send("b")
	collected(t, old)
	runtime.KeepAlive(p)
}

// asking is a partitioner whose ForTopic looks into another topic first.
type asking struct{ first func() }

func (a asking) ForTopic(name string) topic.Place {
	if name == "a" {
		a.first()
	}
	return topic.RoundRobin().ForTopic(name)
}

func TestAPartitionerMayUseItsProducer(t *testing.T) {
	h := open(t, vfs.NewMem(vfstest.HostDir(t)), topic.Options{})
	create(t, h, "a", 1)
	tp := create(t, h, "b", 1)
	var p *topic.Producer
	p, err := h.NewProducer(topic.ProducerConfig{Partitioner: asking{func() {
		_, err := p.Send(context.Background(), "b", record.Record{})
		require.NoError(t, err)
	}}})
	require.NoError(t, err)
	sent := make(chan error, 1)
	go func() { _, err := p.Send(context.Background(), "a", record.Record{}); sent <- err }()
	select {
	case err := <-sent:
		require.NoError(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("a lock is held while the partitioner runs")
	}
	require.EqualValues(t, 1, tp.Partition(0).EndOffset())
	require.NoError(t, p.Close())
}
