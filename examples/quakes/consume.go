package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ottlalog/ottla"
)

// consumers are the members of both groups.
type consumers struct {
	b     *ottla.Broker
	total int
	n     atomic.Int64 // events counted by this process
	bar   *bar
	barMu sync.Mutex
	wg    sync.WaitGroup
	errMu sync.Mutex
	err   error
}

func newConsumers(b *ottla.Broker, total int) *consumers {
	return &consumers{b: b, total: total, bar: newBar(fmt.Sprintf("of %d counted", total))}
}

// mishap is what happens to a member at its n-th record.
type mishap func(n int, leave func())

func leaveAfter(limit int) mishap {
	return func(n int, leave func()) {
		if n == limit {
			leave()
		}
	}
}

func panicAt(limit int) mishap {
	return func(n int, _ func()) {
		if n == limit {
			panic("a bug in the handler")
		}
	}
}

// start runs a member of the group tally. Its handler writes what it has counted to a topic, so the count outlives the
// process; Run commits an event after its handler has returned.
func (c *consumers) start(ctx context.Context, name string, what mishap) {
	c.wg.Go(func() {
		ctx, leave := context.WithCancel(ctx)
		defer leave()
		p, err := c.b.NewProducer(ottla.ProducerConfig{})
		if err != nil {
			c.fail(err)
			return
		}
		handled := 0
		err = c.b.Group("tally").Run(ctx, ottla.MemberConfig{Topics: []string{events}, AutoCommitInterval: 20 * time.Millisecond}, func(ctx context.Context, rec ottla.Record) error {
			if handled++; what != nil {
				what(handled, leave)
			}
			if err := count(context.WithoutCancel(ctx), p, rec); err != nil {
				return err
			}
			c.show(c.n.Add(1))
			return nil
		})
		var panicked *ottla.PanicError
		switch {
		case errors.As(err, &panicked):
			fmt.Printf("member %s of group tally crashed at its event %d: %v\n", name, handled, panicked.Value)
		case errors.Is(err, context.Canceled) || err == nil:
			if what != nil {
				fmt.Printf("member %s of group tally left after %d events\n", name, handled)
			}
		default:
			c.fail(err)
		}
	})
}

// count writes one event's contribution. Its key is the event's place, so an event that is delivered twice counts once.
func count(ctx context.Context, p *ottla.Producer, rec ottla.Record) error {
	e, err := parse(rec.Value, "")
	if err != nil {
		return err
	}
	value, err := json.Marshal(contribution{Key: string(rec.Key), Class: class(e.mag)})
	if err != nil {
		return err
	}
	_, err = p.Send(ctx, counted, ottla.Record{Key: fmt.Appendf(nil, "%d/%d", rec.Partition, rec.Offset), Value: value})
	return err
}

// startStrongest runs the only member of the group strongest, by hand: poll, write down what was found, commit.
func (c *consumers) startStrongest(ctx context.Context) {
	c.wg.Go(func() {
		if err := c.findStrongest(ctx); err != nil && !errors.Is(err, context.Canceled) {
			c.fail(err)
		}
	})
}

func (c *consumers) findStrongest(ctx context.Context) (err error) {
	best, err := readStrongest(c.b)
	if err != nil {
		return err
	}
	p, err := c.b.NewProducer(ottla.ProducerConfig{})
	if err != nil {
		return err
	}
	m, err := c.b.Group("strongest").Join(ctx, ottla.MemberConfig{Topics: []string{events}, MaxPollRecords: 50, ManualCommit: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	for {
		recs, err := m.Poll(ctx)
		if err != nil {
			return err
		}
		for _, rec := range recs {
			e, err := parse(rec.Value, "")
			if err != nil {
				return err
			}
			if found := describe(e); stronger(found, best) {
				best = found
				value, err := json.Marshal(best)
				if err != nil {
					return err
				}
				if _, err := p.Send(ctx, strongest, ottla.Record{Value: value}); err != nil {
					return err
				}
			}
		}
		if err := m.Commit(ctx); err != nil && !errors.Is(err, ottla.ErrFenced) {
			return err
		}
		time.Sleep(time.Millisecond) // as if it were work: the other group shall not be the slower one by much
	}
}

func (c *consumers) show(n int64) {
	c.barMu.Lock()
	defer c.barMu.Unlock()
	c.bar.show(int(n))
}

func (c *consumers) counted() int { return int(c.n.Load()) }

func (c *consumers) fail(err error) {
	c.errMu.Lock()
	defer c.errMu.Unlock()
	c.err = errors.Join(c.err, err)
}

func (c *consumers) failed() error {
	c.errMu.Lock()
	defer c.errMu.Unlock()
	return c.err
}

func (c *consumers) wait() { c.wg.Wait() }

// committed is how many events a group has committed.
func (c *consumers) committed(group string) (n int) {
	t, err := c.b.Topic(events)
	if err != nil {
		return 0
	}
	for i := range t.Partitions() {
		if offset, ok := c.b.Group(group).Committed(events, i); ok {
			n += int(offset)
		}
	}
	return n
}
