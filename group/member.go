package group

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

type memberState int

const (
	stateLive   memberState = iota // in the group
	stateFenced                    // out of it; the next Poll joins again
	stateClosed                    // out of it for good
)

// Member is one consumer of a group. All methods are safe for concurrent use, but records are for one goroutine at a time:
// Poll while another goroutine is inside Poll, or in a step of Records, returns ErrConcurrentPoll.
//
// A member is alive as long as it polls: see MemberConfig.MaxPollInterval. After Close of the member or the broker, methods
// return log.ErrClosed.
type Member struct {
	c       *coordinator
	cfg     MemberConfig
	number  int64         // in the order of joins
	wake    chan struct{} // holds a token when there may be something for who waits in Poll
	commits chan struct{} // held, by a value in it, during a commit: they don't overtake each other

	// Guarded by c.mu.
	id         string
	state      memberState
	busy       bool // a goroutine is inside Poll or Close, and not in a callback
	inCallback bool
	closing    closing
	ousted     bool // fenced for good
	stale      bool // there may be steps to do
	claims     map[TopicPartition]*claim
	target     []*slot
	lost       []*claim // taken away, and OnLost not told yet
	touched    []*claim // with handed beyond done
	last       *claim   // whose record was handed out last
	clock      clock
	auto       autoCommit

	feed feed // of who is busy, or has found under c.mu that nobody is
}

// closing says how far Close has come.
type closing int

const (
	closingNot       closing = iota
	closingRequested         // somebody waits for the member to stop being busy
	closingDeferred          // who runs the callback closes after it
)

func newMember(c *coordinator, cfg MemberConfig) *Member {
	m := &Member{
		c:       c,
		cfg:     cfg,
		number:  c.set.joins.Add(1),
		wake:    make(chan struct{}, 1),
		commits: make(chan struct{}, 1),
		claims:  make(map[TopicPartition]*claim),
		feed:    newFeed(cfg, c.logger),
	}
	m.clock.member = m
	m.auto.member = m
	return m
}

// ID returns the name of the member's stay in the group. A member that was fenced and polls again gets another one.
func (m *Member) ID() string {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	return m.id
}

// Assignment returns what the member owns now, sorted.
func (m *Member) Assignment() []TopicPartition {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	return m.assignmentLocked()
}

func (m *Member) assignmentLocked() []TopicPartition {
	tps := make([]TopicPartition, 0, len(m.claims))
	for tp := range m.claims {
		tps = append(tps, tp)
	}
	sortPartitions(tps)
	return tps
}

// Position returns the offset of the next record that the member will be handed from a partition. ok is false unless it owns
// the partition.
func (m *Member) Position(topic string, partition int) (offset int64, ok bool) {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	cl := m.claims[TopicPartition{topic, partition}]
	if cl == nil {
		return 0, false
	}
	return cl.handed, true
}

// Skip goes on with a partition that Poll returned an error for: behind the damage, if that was it, otherwise by trying
// again. What is stepped over counts as handed out. Without an error it does nothing. ErrFenced if the member doesn't own the partition.
func (m *Member) Skip(topic string, partition int) error {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	cl, err := m.claimLocked(TopicPartition{topic, partition})
	if err != nil {
		return err
	}
	if cl.stuck != nil {
		cl.stuck = nil
		cl.skip.Store(true)
		m.nudgeLocked()
	}
	return nil
}

// goneLocked returns why the member can't be used any more.
func (m *Member) goneLocked() error {
	switch {
	case m.c.closed || m.state == stateClosed || m.closing != closingNot:
		return errClosed
	case m.ousted:
		return fmt.Errorf("%w: another member joined as instance %q", ErrFenced, m.cfg.InstanceID)
	}
	return nil
}

// nudgeLocked has the member look for steps to do, at once if it waits.
func (m *Member) nudgeLocked() {
	m.stale = true
	m.wakeUp()
}

func (m *Member) wakeUp() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// ownsLocked says whether a claim is one of the member's still.
func (m *Member) ownsLocked(cl *claim) bool { return m.claims[cl.slot.tp] == cl }

// handedLocked notes how far a claim has been handed out. It goes back where the log has lost its end.
func (m *Member) handedLocked(cl *claim, next int64) {
	if next < cl.done {
		cl.done, cl.committed, cl.replace = next, next, true
	}
	cl.handed = next
	m.last = cl
	if !cl.touched {
		cl.touched = true
		m.touched = append(m.touched, cl)
	}
}

// doneLocked counts what was handed out as processed.
func (m *Member) doneLocked() {
	for _, cl := range m.touched {
		cl.touched = false
		cl.done = cl.handed
	}
	if len(m.touched) > 0 && !m.cfg.ManualCommit {
		m.auto.startLocked()
	}
	m.touched = m.touched[:0]
}

// Close leaves the group: what was handed out counts as processed and is committed, unless ManualCommit is set; then the
// partitions go to others. So close a member whose records you have done with. OnRevoked runs before.
//
// It returns ErrFenced if records that were handed out couldn't be committed because the member had been fenced, ErrInCallback
// while a callback of the member's runs, which is then followed by the leaving. Closing again returns nil.
func (m *Member) Close() error {
	c := m.c
	c.mu.Lock()
	for m.busy {
		m.closing = max(m.closing, closingRequested)
		m.nudgeLocked()
		c.idle.Wait()
	}
	if m.state == stateClosed {
		c.mu.Unlock()
		return nil
	}
	if m.inCallback {
		m.closing = closingDeferred
		c.mu.Unlock()
		return ErrInCallback
	}
	m.closing = max(m.closing, closingRequested)
	m.busy = true
	defer m.left()
	if c.closed {
		c.mu.Unlock()
		return errClosed
	}
	if m.state == stateFenced {
		lost := m.lost
		m.lost = nil
		c.mu.Unlock()
		m.call(m.cfg.OnLost, namesOf(lost))
		return m.missed(lost)
	}
	m.doneLocked()
	lost := m.lost
	m.lost = nil
	all := make([]*claim, 0, len(m.claims))
	for _, cl := range m.claims {
		all = append(all, cl)
	}
	c.mu.Unlock()
	m.giveUpLost(lost)
	return m.revoke(all)
}

// left ends the leaving, whatever happened during it.
func (m *Member) left() {
	c := m.c
	c.mu.Lock()
	gone := append(c.fenceLocked(m), m.lost...)
	m.lost = nil
	m.state = stateClosed
	m.busy = false
	m.clock.Stop()
	c.idle.Broadcast()
	gone = append(gone, c.refreshLocked()...)
	c.mu.Unlock()
	closeAll(gone, errClosed)
	c.put(1)
	c.rebalance()
}

// missed is the error of a member that leaves and can't commit what it was handed. Who commits by hand has heard of it.
func (m *Member) missed(lost []*claim) error {
	if m.cfg.ManualCommit {
		return nil
	}
	return uncommitted(lost)
}

// uncommitted is the error where records were handed out and can't be committed any more.
func uncommitted(lost []*claim) error {
	for _, cl := range lost {
		if cl.handed > cl.committed {
			return fmt.Errorf("%w: %v, from offset %d", ErrFenced, cl.slot.tp, cl.committed)
		}
	}
	return nil
}

// clock fences a member that doesn't poll.
type clock struct {
	member *Member
	seen   time.Time // when the member stopped being busy
	timer  *time.Timer
	armed  bool
}

// Stop ends the clock.
func (k *clock) Stop() {
	if k.timer != nil {
		k.timer.Stop()
	}
}

// seenLocked begins the time that the member may do without Poll.
func (m *Member) seenLocked() {
	k := &m.clock
	k.seen = now()
	if k.armed || m.state != stateLive || m.c.closed {
		return // an armed timer looks at seen when it fires
	}
	k.armed = true
	if k.timer == nil {
		k.timer = time.AfterFunc(m.cfg.MaxPollInterval, m.checkAlive)
	} else {
		k.timer.Reset(m.cfg.MaxPollInterval)
	}
}

// checkAlive runs when the time may be over.
func (m *Member) checkAlive() {
	c := m.c
	c.mu.Lock()
	m.clock.armed = false
	if m.busy || m.state != stateLive || c.closed {
		c.mu.Unlock()
		return
	}
	if left := m.cfg.MaxPollInterval - now().Sub(m.clock.seen); left > 0 {
		m.clock.armed = true
		m.clock.timer.Reset(left)
		c.mu.Unlock()
		return
	}
	id, n := m.id, len(m.claims)
	m.fenceAndUnlock()
	c.logger.Warn("member fenced: it didn't poll", "member", id,
		"interval", m.cfg.MaxPollInterval, "partitions", n)
}

// fenceAndUnlock fences a member that isn't busy. The lock is held, and given back.
func (m *Member) fenceAndUnlock() {
	gone := m.c.fenceLocked(m)
	gone = append(gone, m.c.refreshLocked()...)
	m.c.mu.Unlock()
	closeAll(gone, ErrFenced)
	m.c.rebalance()
}

// abandon fences the member at once: the code that handles its records has ended without a word.
func (m *Member) abandon() {
	m.c.mu.Lock()
	if m.busy || m.state != stateLive || m.c.closed {
		m.c.mu.Unlock()
		return
	}
	id := m.id
	m.fenceAndUnlock()
	m.c.logger.Error("member fenced: panic or Goexit", "member", id)
}

// contextFor returns the context in which the record handed out last is handled: it ends, with ErrFenced as its cause,
// when the member doesn't own the partition any more.
func (m *Member) contextFor(parent context.Context) context.Context {
	m.c.mu.Lock()
	cl := m.last
	run := cl.run
	m.c.mu.Unlock()
	if run != nil {
		return run
	}
	run, cancel := context.WithCancelCause(parent)
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	if m.ownsLocked(cl) {
		cl.run, cl.cancel = run, cancel
	} else {
		cancel(ErrFenced)
	}
	return run
}

// ownsLast says whether the member still owns the partition of the record handed out last.
func (m *Member) ownsLast() bool {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	return m.last != nil && m.ownsLocked(m.last)
}

// terminal says whether polling again is of no use.
func terminal(ctx context.Context, err error) bool {
	is := func(target error) bool { return errors.Is(err, target) }
	return ctx.Err() != nil || slices.ContainsFunc([]error{errClosed, ErrFenced, ErrInCallback, ErrConcurrentPoll}, is)
}
