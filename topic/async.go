package topic

import (
	"context"
	"fmt"
	"sync"

	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/partition"
	"github.com/ottlalog/ottla/record"
)

// async collects the records of SendAsync and stores them from one goroutine, which runs while there is something to do:
// what comes in while it waits for the disk goes out together next. So batches form under load and nobody lingers.
type async struct {
	producer *Producer
	mu       struct {
		sync.Mutex
		queue   []sending
		bytes   int           // taken by queue and by what is in flight
		running bool          // the goroutine is there
		changed chan struct{} // closed and replaced when bytes have fallen, if that is awaited
		awaited bool
		added   int64 // records ever queued,
		done    int64 // and called back
	}
	sender sync.WaitGroup
	flight []sending // taken off the queue and not yet called back; the sender's own
}

// sending is one record on its way.
type sending struct {
	route *route
	part  *partition.Partition
	rec   record.Record // a copy
	bytes int
	call  func(Result, error)
	res   Result // of its storing; res.Err is the error
}

// overhead is about what a record takes beside its content, and headerOverhead a header.
const overhead, headerOverhead = 256, 40

func newAsync(p *Producer) *async {
	a := &async{producer: p}
	a.mu.changed = make(chan struct{})
	return a
}

// SendAsync takes a record to be stored and returns; done is called with the outcome, exactly once for each record for
// which SendAsync returned nil: in order for each partition, by one goroutine at a time, which therefore should not be held
// up, nor call Flush or Close of this producer. It may call Send; SendAsync waits while MaxBufferedBytes are on their way,
// and called from done it could wait for ever, unless its context ends. The record is copied. done may be nil.
//
// A later Send or SendBatch may overtake the record: Flush in between where order matters.
func (p *Producer) SendAsync(ctx context.Context, topic string, rec record.Record, done func(Result, error)) error {
	rt, err := p.route(topic)
	if err != nil {
		return err
	}
	part, err := rt.choose(&rec)
	if err != nil {
		return err
	}
	if err := rt.topic.check(&rec); err != nil {
		return err
	}
	if done == nil {
		done = func(Result, error) {}
	}
	bytes := log.ContentBytes(&rec) + overhead + len(rec.Headers)*headerOverhead
	s := sending{route: rt, part: part, rec: rec.Clone(), bytes: bytes, call: done}
	return p.async.add(ctx, s)
}

func (a *async) add(ctx context.Context, s sending) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.mu.bytes > 0 && a.mu.bytes+s.bytes > a.producer.config.MaxBufferedBytes {
		if err := a.waitLocked(ctx); err != nil {
			return err
		}
	}
	if a.producer.closed.Load() {
		return log.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	a.mu.queue = append(a.mu.queue, s)
	a.mu.bytes += s.bytes
	a.mu.added++
	if !a.mu.running {
		a.mu.running = true
		a.sender.Go(a.run)
	}
	return nil
}

// waitLocked waits for the next change, without the lock.
func (a *async) waitLocked(ctx context.Context) error {
	changed := a.mu.changed
	a.mu.awaited = true
	a.mu.Unlock()
	defer a.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (a *async) changedLocked() {
	if a.mu.awaited {
		close(a.mu.changed)
		a.mu.changed = make(chan struct{})
		a.mu.awaited = false
	}
}

// run stores and calls back until nothing is queued. If a callback ends its goroutine, as FailNow of testing does with
// runtime.Goexit, another one goes on.
func (a *async) run() {
	finished := false
	defer func() {
		if !finished {
			a.sender.Go(a.run)
		}
	}()
	a.callBack()
	for a.take() {
		a.store()
		a.callBack()
	}
	finished = true
}

// asyncBatch is about how many bytes of records are stored together.
const asyncBatch = 1 << 20

// take takes the next records off the queue. When there are none, the goroutine is to end.
func (a *async) take() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	n, bytes := 0, 0
	for n < len(a.mu.queue) && bytes < asyncBatch {
		bytes += a.mu.queue[n].bytes
		n++
	}
	a.flight, a.mu.queue = a.mu.queue[:n:n], a.mu.queue[n:]
	if len(a.mu.queue) == 0 {
		a.mu.queue = nil // its memory goes with the flight
	}
	a.mu.running = n > 0
	return n > 0
}

// store stores what is in flight, each partition's records as one batch.
func (a *async) store() {
	s := shares.Get().(*split)
	defer s.release()
	for i := range a.flight {
		s.add(a.flight[i].route, a.flight[i].part, &a.flight[i].rec)
	}
	ctx := context.Background()
	s.store(ctx)
	s.await(ctx)
	for i := range a.flight {
		f := &a.flight[i]
		if sh := s.shares[s.shareOf[i]]; sh.err != nil {
			f.res = Result{Err: sh.err}
		} else {
			f.res = resultAt(sh.part, sh.at, s.index[i], &f.rec)
		}
	}
}

// callBack calls back for all that is in flight, in the order of the queue.
func (a *async) callBack() {
	for len(a.flight) > 0 {
		s := a.flight[0]
		a.flight[0] = sending{} // the memory of the queue may live on in what is still queued
		a.flight = a.flight[1:]
		a.finish(&s)
	}
}

// finish calls back. A panic in the callback is the caller's fault, logged, and doesn't cost the other records.
func (a *async) finish(s *sending) {
	defer func() {
		if r := recover(); r != nil {
			a.producer.set.opts.Logger.Error("callback of SendAsync panicked", "topic", s.route.topic.name, "panic", fmt.Sprint(r))
		}
		a.mu.Lock()
		a.mu.bytes -= s.bytes
		a.mu.done++
		a.changedLocked()
		a.mu.Unlock()
	}()
	s.call(s.res, s.res.Err)
}

// flush waits until as many records have been called back as were queued before it.
func (a *async) flush(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for target := a.mu.added; a.mu.done < target; {
		if err := a.waitLocked(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (a *async) close() {
	_ = a.flush(context.Background())
	a.sender.Wait()
}
