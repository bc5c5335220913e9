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
		changed chan struct{} // closed and replaced whenever bytes fall or the goroutine ends
		added   int64         // records ever queued,
		done    int64         // and called back
	}
	sender sync.WaitGroup
}

// sending is one record on its way.
type sending struct {
	topic string
	part  *partition.Partition
	rec   record.Record // a copy
	bytes int
	call  func(Result, error)
}

func newAsync(p *Producer) *async {
	a := &async{producer: p}
	a.mu.changed = make(chan struct{})
	return a
}

// SendAsync takes a record to be stored and returns; done is called with the outcome, exactly once for each record for
// which SendAsync returned nil: in order for each partition, by one goroutine at a time, which therefore should not be held
// up, nor call Flush or Close of this producer. The record is copied. SendAsync waits while MaxBufferedBytes are on their
// way. done may be nil.
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
	s := sending{topic: topic, part: part, rec: rec.Clone(), bytes: len(rec.Key) + len(rec.Value) + 256, call: done}
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
	close(a.mu.changed)
	a.mu.changed = make(chan struct{})
}

// run sends until nothing is queued.
func (a *async) run() {
	for {
		a.mu.Lock()
		batch := a.takeLocked()
		if len(batch) == 0 {
			a.mu.running = false
			a.changedLocked()
			a.mu.Unlock()
			return
		}
		a.mu.Unlock()
		a.send(batch)
	}
}

// asyncBatch is about how many bytes of records are stored together.
const asyncBatch = 1 << 20

// takeLocked takes the next records off the queue.
func (a *async) takeLocked() []sending {
	n, bytes := 0, 0
	for n < len(a.mu.queue) && bytes < asyncBatch {
		bytes += a.mu.queue[n].bytes
		n++
	}
	batch := a.mu.queue[:n:n]
	a.mu.queue = a.mu.queue[n:]
	return batch
}

// send stores a part of the queue, each partition's records as one batch, and calls back in the order of the queue.
func (a *async) send(batch []sending) {
	s := shares.Get().(*split)
	defer s.release()
	for i := range batch {
		s.add(batch[i].part, &batch[i].rec)
	}
	ctx := context.Background()
	s.store(ctx)
	s.await(ctx)
	for i := range batch {
		sh := s.shares[s.shareOf[i]]
		if sh.err != nil {
			a.finish(&batch[i], Result{Err: sh.err}, sh.err)
			continue
		}
		a.finish(&batch[i], resultAt(sh.part, sh.at, s.index[i], &batch[i].rec), nil)
	}
}

// finish calls back. A panic in the callback is the caller's fault, logged, and doesn't cost the other records.
func (a *async) finish(s *sending, res Result, err error) {
	defer func() {
		if r := recover(); r != nil {
			a.producer.set.opts.Logger.Error("callback of SendAsync panicked", "topic", s.topic, "panic", fmt.Sprint(r))
		}
		a.mu.Lock()
		a.mu.bytes -= s.bytes
		a.mu.done++
		a.changedLocked()
		a.mu.Unlock()
	}()
	s.call(res, err)
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
