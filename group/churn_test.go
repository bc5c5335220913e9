package group

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/partition"
	"github.com/ottlalog/ottla/record"
)

// history judges what a group was handed: in each stay of a partition with a member offsets follow each other, and the
// stay begins at or before the first record that nobody has processed.
type history struct {
	t         testing.TB
	group     string
	mu        sync.Mutex
	processed map[TopicPartition]int64 // all below have been, by somebody
	deliv     int
}

// reader is one goroutine's view of a group.
type reader struct {
	*history
	next    map[TopicPartition]int64
	pending map[TopicPartition]int64
	paused  map[TopicPartition]bool
}

const disposable = "d" // a topic that is deleted and made anew: its records aren't judged

func (h *history) reader() *reader {
	return &reader{history: h, next: map[TopicPartition]int64{}, pending: map[TopicPartition]int64{}, paused: map[TopicPartition]bool{}}
}

func (r *reader) assigned(m *Member, tps []TopicPartition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, tp := range tps {
		at, ok := m.Position(tp.Topic, tp.Partition)
		if tp.Topic == disposable || !ok {
			continue // not ok: fenced meanwhile
		}
		if at > r.processed[tp] {
			r.t.Errorf("%s: %v begins at %d, and only %d are processed", r.group, tp, at, r.processed[tp])
		}
		r.next[tp] = at
	}
}

func (r *reader) gone(_ *Member, tps []TopicPartition) {
	for _, tp := range tps {
		delete(r.next, tp)
		delete(r.pending, tp)
		delete(r.paused, tp)
	}
}

// seek moves a member somewhere in one of its partitions. What it skips counts as processed.
func (r *reader) seek(m *Member, rng *rand.Rand) {
	tps := slices.DeleteFunc(m.Assignment(), func(tp TopicPartition) bool { return tp.Topic == disposable })
	if len(tps) == 0 {
		return
	}
	tp := tps[rng.IntN(len(tps))]
	r.mu.Lock()
	defer r.mu.Unlock()
	to := partition.At(rng.Int64N(r.processed[tp] + 1))
	switch rng.IntN(10) {
	case 0:
		to = partition.Latest
	case 1:
		to = partition.Earliest
	}
	err := m.Seek(tp.Topic, tp.Partition, to)
	at, ok := m.Position(tp.Topic, tp.Partition)
	if errors.Is(err, ErrFenced) || !ok {
		return
	}
	assert.NoError(r.t, err)
	r.processed[tp] = max(r.processed[tp], at)
	r.next[tp] = at
	delete(r.pending, tp)
}

// pause pauses one of a member's partitions, or resumes it.
func (r *reader) pause(m *Member, rng *rand.Rand) {
	tps := m.Assignment()
	if len(tps) == 0 {
		return
	}
	tp := tps[rng.IntN(len(tps))]
	do := m.Pause
	if r.paused[tp] {
		do = m.Resume
	}
	if err := do(tp); errors.Is(err, ErrFenced) {
		return
	} else if assert.NoError(r.t, err) {
		r.paused[tp] = !r.paused[tp]
	}
}

func (r *reader) got(rec record.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deliv++
	tp := TopicPartition{rec.Topic, rec.Partition}
	if r.paused[tp] {
		r.t.Errorf("%s: %v is paused, and offset %d is handed out", r.group, tp, rec.Offset)
	}
	if tp.Topic == disposable {
		return
	}
	want, ok := r.next[tp]
	if !ok || want != rec.Offset {
		r.t.Errorf("%s: %v: offset %d where %d follows (owned: %v)", r.group, tp, rec.Offset, want, ok)
	}
	r.next[tp], r.pending[tp] = rec.Offset+1, rec.Offset+1
}

// failed says that a record isn't processed, and is to come again.
func (r *reader) failed(rec record.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	tp := TopicPartition{rec.Topic, rec.Partition}
	delete(r.pending, tp)
	if _, ok := r.next[tp]; ok {
		r.next[tp] = rec.Offset
	}
}

// done says that what was got is processed.
func (r *reader) done() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for tp, next := range r.pending {
		r.processed[tp] = max(r.processed[tp], next)
	}
	clear(r.pending)
}

// churn is a run of members that come and go at random.
type churn struct {
	*house
	unit   time.Duration // the time of small things
	real   bool          // time goes on while the machine is busy with other things
	rng    func() *rand.Rand
	lives  atomic.Int64
	limit  int64
	topics []string
}

func (c *churn) config(r *reader, rng *rand.Rand) MemberConfig {
	return MemberConfig{
		Topics: append([]string{disposable}, c.topics...), MaxPollInterval: 50 * c.unit,
		AutoCommitInterval: time.Duration(1+rng.IntN(20)) * c.unit, MaxPollRecords: 1 + rng.IntN(50),
		OnAssigned: r.assigned,
		OnRevoked:  func(m *Member, tps []TopicPartition) { c.nap(rng); r.done(); r.gone(m, tps) },
		OnLost:     r.gone,
	}
}

func (c *churn) nap(rng *rand.Rand) { time.Sleep(time.Duration(rng.IntN(5)) * c.unit) }

// member lives one life after the other in the group.
func (c *churn) member(h *history) {
	rng := c.rng()
	for c.lives.Add(1) <= c.limit {
		done := make(chan struct{})
		go func() { // a life may end its goroutine
			defer close(done)
			defer func() { _ = recover() }()
			switch rng.IntN(4) {
			case 0:
				c.run(h, rng)
			case 1:
				c.ranging(h, rng)
			default:
				c.polling(h, rng)
			}
		}()
		<-done
		c.nap(rng)
	}
}

func (c *churn) polling(h *history, rng *rand.Rand) {
	r := h.reader()
	m := c.join(h.group, c.config(r, rng))
	for range 1 + rng.IntN(20) {
		r.done()
		recs, err := m.Poll(within(time.Duration(1+rng.IntN(30)) * c.unit))
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			c.t.Errorf("poll: %v", err)
		}
		for _, rec := range recs {
			r.got(rec)
		}
		switch rng.IntN(10) {
		case 0:
			r.done()
			if err := m.Commit(context.Background()); err != nil && !errors.Is(err, ErrFenced) {
				c.t.Errorf("commit: %v", err)
			}
		case 1:
			time.Sleep(120 * c.unit) // hangs
			if c.real {
				r.done() // whoever fences may be late
			}
			if err := m.Commit(context.Background()); len(recs) > 0 && !c.real && !errors.Is(err, ErrFenced) {
				c.t.Errorf("a late commit: %v", err)
			}
			clear(r.pending)
		case 2:
			if rng.IntN(3) == 0 {
				return // crashed: never heard of again
			}
		case 3:
			r.done()
			r.seek(m, rng)
		case 4:
			r.pause(m, rng)
		default:
			c.nap(rng)
		}
	}
	r.done()
	if err := m.Close(); err != nil && !errors.Is(err, ErrFenced) {
		c.t.Errorf("close: %v", err)
	}
}

func (c *churn) ranging(h *history, rng *rand.Rand) {
	r := h.reader()
	m := c.join(h.group, c.config(r, rng))
	end := rng.IntN(100)
	for rec, err := range m.Records(within(time.Duration(rng.IntN(60)) * c.unit)) {
		r.done()
		if err != nil {
			break
		}
		r.got(rec)
		switch rng.IntN(40) { // in the middle of a batch
		case 0:
			r.done()
			r.seek(m, rng)
		case 1:
			r.pause(m, rng)
		}
		if end--; end <= 0 {
			if rng.IntN(2) == 0 {
				panic("poison")
			}
			break
		}
	}
	r.done()
	_ = m.Close()
}

func (c *churn) run(h *history, rng *rand.Rand) {
	r := h.reader()
	end, how := rng.IntN(100), rng.IntN(5)
	cfg := c.config(r, rng)
	cfg.Run = RunConfig{Retries: rng.IntN(4), RetryBackoff: c.unit, DrainTimeout: time.Duration(rng.IntN(2)) * c.unit}
	_ = c.groups.Group(h.group).Run(within(time.Duration(rng.IntN(100))*c.unit), cfg,
		func(ctx context.Context, rec record.Record) (err error) {
			r.got(rec)
			defer func() {
				if p := recover(); p != nil || err != nil {
					r.failed(rec)
					err = cmp.Or(err, errors.New("panic"))
				}
			}()
			if rng.IntN(20) == 0 {
				return errors.New("not yet")
			}
			if end--; end <= 0 {
				switch how {
				case 0:
					panic("poison")
				case 1:
					goexit()
				case 2:
					return errors.New("no")
				case 3:
					<-ctx.Done()
					clear(r.pending)
					return ctx.Err()
				}
			}
			r.done()
			return nil
		})
}

// world changes topics and produces.
func (c *churn) world(stop <-chan struct{}, partitions int) {
	rng := c.rng()
	ctx := context.Background()
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(1+rng.IntN(4)) * c.unit):
		}
		name := c.topics[rng.IntN(len(c.topics))]
		t, err := c.house.topics.Topic(name)
		require.NoError(c.t, err)
		switch n := t.Partitions(); rng.IntN(20) {
		case 0:
			if n < partitions {
				_, err := c.house.topics.AddPartitions(ctx, name, n+1)
				require.NoError(c.t, err)
			}
		case 1:
			_ = c.house.topics.Delete(ctx, disposable)
		case 2, 3:
			if _, err := c.house.topics.Topic(disposable); err != nil {
				c.topic(disposable, 1+rng.IntN(3))
			}
		default:
			c.produce(name, rng.IntN(n), 1+rng.IntN(20))
		}
	}
}

// test runs it all, and judges the quiet after it.
func (c *churn) test(partitions, members int) {
	for _, name := range c.topics {
		c.topic(name, 1)
	}
	c.topic(disposable, 2)
	var wg, world sync.WaitGroup
	stop := make(chan struct{})
	world.Go(func() { c.world(stop, partitions) })
	groups := []*history{}
	for _, name := range []string{"g", "h"} {
		h := &history{t: c.t, group: name, processed: map[TopicPartition]int64{}}
		groups = append(groups, h)
		for range members {
			wg.Go(func() { c.member(h) })
		}
	}
	wg.Wait()
	close(stop)
	world.Wait()
	for _, h := range groups {
		c.t.Logf("group %s: %d records handed out, %d changes of owners, %v", h.group, h.deliv, c.owners.moved(), h.processed)
		c.quiet(h)
		if c.t.Failed() {
			return
		}
	}
}

// quiet checks that members which only poll get everything, and share it evenly.
func (c *churn) quiet(h *history) {
	const members = 3
	var wg sync.WaitGroup
	var ms []*Member
	ctx, cancel := context.WithCancel(context.Background())
	for range members {
		r := h.reader()
		cfg := c.config(r, c.rng())
		cfg.MaxPollInterval = time.Hour
		m := c.join(h.group, cfg)
		ms = append(ms, m)
		wg.Go(func() {
			for {
				r.done()
				recs, err := m.Poll(ctx)
				if err != nil {
					assert.ErrorIs(c.t, err, context.Canceled)
					return
				}
				for _, rec := range recs {
					r.got(rec)
				}
			}
		})
	}
	time.Sleep(300 * c.unit)
	total, low, high := 0, 1<<30, 0
	for _, m := range ms {
		n := len(m.Assignment())
		total, low, high = total+n, min(low, n), max(high, n)
	}
	all := 0
	for _, t := range c.house.topics.Topics() {
		all += t.Partitions()
	}
	assert.Equal(c.t, all, total, "every partition has an owner")
	assert.LessOrEqual(c.t, high-low, 1, "balanced")
	for tp, lag := range c.groups.Group(h.group).Lag() {
		assert.Zero(c.t, lag, "%s: %v", h.group, tp)
		if tp.Topic != disposable {
			t, _ := c.house.topics.Topic(tp.Topic)
			assert.Equal(c.t, t.Partition(tp.Partition).HighWatermark(), h.processed[tp], "%s: %v: records lost", h.group, tp)
		}
	}
	cancel()
	wg.Wait()
	for _, m := range ms {
		assert.NoError(c.t, m.Close())
	}
}

func seeded(seed uint64) func() *rand.Rand {
	var n atomic.Uint64
	return func() *rand.Rand { return rand.New(rand.NewPCG(seed, n.Add(1))) }
}

func TestChurn(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &churn{house: newHouse(t), unit: 10 * time.Millisecond, rng: seeded(seed), limit: 200, topics: []string{"a", "b"}}
				c.test(10, 2+int(seed)%7)
			})
		})
	}
}

func TestChurnInRealTimeOnRealFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, sync := range []log.SyncPolicy{log.SyncNever, log.SyncAlways} {
		t.Run(sync.String(), func(t *testing.T) {
			h := newHouseOn(t, vfs.OS, t.TempDir(), Options{Sync: sync})
			c := &churn{house: h, unit: time.Millisecond, real: true, rng: seeded(42), limit: 150, topics: []string{"a", "b"}}
			c.test(8, 4)
		})
	}
}
