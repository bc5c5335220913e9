// Package notify lets goroutines wait until an offset has passed.
package notify

import (
	"context"
	"sync"
	"sync/atomic"
)

// Offset is a number that only grows and that goroutines wait for. Advancing it costs two atomic operations while
// nobody waits. The zero value is at 0. All methods are safe for concurrent use.
//
// No wake-up is lost: a waiter first announces itself and then looks at the value, an advance first stores the value
// and then looks for waiters, and Go's atomics are sequentially consistent.
type Offset struct {
	value   atomic.Int64
	waiting atomic.Int32 // len(mu.watches), read without the lock
	mu      struct {
		sync.Mutex
		watches []*Watch
		closed  error
	}
}

// Watch is one standing request to be woken; see [Offset.Watch].
type Watch struct {
	offset *Offset
	above  int64
	wake   chan<- struct{}
	at     int // its place in the offset's watches, −1: not there
}

// Waiter is what one goroutine waits with again and again, for one offset at a time, without allocating. The zero value is
// ready.
type Waiter struct {
	watch Watch
	wake  chan struct{}
}

// Load returns the value.
func (o *Offset) Load() int64 { return o.value.Load() }

// Advance raises the value to v and wakes those who wait for it. A smaller v changes nothing.
func (o *Offset) Advance(v int64) {
	for {
		old := o.value.Load()
		if v <= old {
			return
		}
		if o.value.CompareAndSwap(old, v) {
			break
		}
	}
	if o.waiting.Load() > 0 {
		o.wakeUp()
	}
}

// Reset sets the value, also to a smaller one. It is for the rare owner whose offset means something new: nobody may be
// waiting.
func (o *Offset) Reset(v int64) { o.value.Store(v) }

// Close wakes all who wait, now and later; Wait returns err to them. The first call counts.
func (o *Offset) Close(err error) {
	o.mu.Lock()
	if o.mu.closed == nil {
		o.mu.closed = err
	}
	o.mu.Unlock()
	o.wakeUp()
}

// Err returns the error given to Close, nil before.
func (o *Offset) Err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mu.closed
}

// Wait returns nil once the value is above v, or else the error of Close or of the context.
func (o *Offset) Wait(ctx context.Context, v int64) error {
	var w Waiter
	return w.Wait(ctx, o, v)
}

// Wait is [Offset.Wait] of o.
func (w *Waiter) Wait(ctx context.Context, o *Offset, v int64) error {
	if o.value.Load() > v {
		return nil
	}
	if w.wake == nil {
		w.wake = make(chan struct{}, 1)
	}
	w.watch = Watch{offset: o, above: v, wake: w.wake}
	o.add(&w.watch)
	defer w.watch.Stop()
	for {
		select {
		case <-w.wake: // or a token that an earlier wait has left
			if o.value.Load() > v {
				return nil
			}
			if err := o.Err(); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Watch sends a token to wake, once and without blocking, as soon as the value is above v or the offset is closed:
// at once where that is so already. wake has room for one token, so one channel can stand behind many watches: a
// token means "look again". The caller stops the watch when it is no longer needed.
func (o *Offset) Watch(v int64, wake chan<- struct{}) *Watch {
	w := &Watch{offset: o, above: v, wake: wake}
	o.add(w)
	return w
}

func (o *Offset) add(w *Watch) {
	o.mu.Lock()
	w.at = len(o.mu.watches)
	o.mu.watches = append(o.mu.watches, w)
	o.waiting.Store(int32(len(o.mu.watches)))
	closed := o.mu.closed != nil
	o.mu.Unlock()
	if closed || o.value.Load() > w.above {
		o.wakeUp()
	}
}

// Stop ends the watch. It may be called more than once. A token sent before stays in the channel.
func (w *Watch) Stop() {
	w.offset.mu.Lock()
	defer w.offset.mu.Unlock()
	if w.at >= 0 {
		w.offset.removeLocked(w.at)
	}
}

func (o *Offset) wakeUp() {
	o.mu.Lock()
	defer o.mu.Unlock()
	v := o.value.Load()
	for i := len(o.mu.watches) - 1; i >= 0; i-- {
		w := o.mu.watches[i]
		if v <= w.above && o.mu.closed == nil {
			continue
		}
		select {
		case w.wake <- struct{}{}:
		default:
		}
		o.removeLocked(i)
	}
}

// removeLocked puts the last watch into the place of the one that goes.
func (o *Offset) removeLocked(i int) {
	last := len(o.mu.watches) - 1
	o.mu.watches[i].at = -1
	if i < last {
		o.mu.watches[i] = o.mu.watches[last]
		o.mu.watches[i].at = i
	}
	o.mu.watches[last] = nil
	o.mu.watches = o.mu.watches[:last]
	o.waiting.Store(int32(last))
}
