package group

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/ottlalog/ottla/topic"
)

// coordinator knows the members of one group, and is where they agree.
type coordinator struct {
	set    *Set
	name   string
	logger *slog.Logger // names the group

	joining chan struct{} // held, by a value in it, during a join or administration: nobody else comes in meanwhile

	mu     sync.Mutex // guards all below and what members say it does
	idle   *sync.Cond // a member has stopped being busy
	closed bool
	users  int // members that aren't closed, and joins

	table   table
	topics  map[string]knownTopic // whose slots are in the table, by name
	members map[string]*Member    // live ones, by id
	epoch   int64                 // of the target
	plan    planning
}

// knownTopic is a topic as the table has it.
type knownTopic struct {
	id         string
	partitions int
}

func newCoordinator(s *Set, name string) *coordinator {
	c := &coordinator{
		set:     s,
		name:    name,
		logger:  s.opts.Logger.With("group", name),
		joining: make(chan struct{}, 1),
		table:   newTable(nil),
		topics:  make(map[string]knownTopic),
		members: make(map[string]*Member),
	}
	c.idle = sync.NewCond(&c.mu)
	if trace := s.opts.trace; trace != nil {
		c.table.trace = func(sl *slot) { trace(name, sl) }
	}
	return c
}

// join makes members. Before the group can read a topic that is new to it, it is decided and committed where it begins.
func (c *coordinator) join(ctx context.Context, cfg MemberConfig, instances []string) ([]*Member, error) {
	select {
	case c.joining <- struct{}{}:
		defer func() { <-c.joining }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.refresh()
	if err := c.decideStarts(cfg); err != nil {
		return nil, err
	}
	members := make([]*Member, len(instances))
	for i, instance := range instances {
		cfg.InstanceID = instance
		members[i] = newMember(c, cfg)
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, errClosed
	}
	var replaced []string
	var gone []*claim
	for _, m := range members {
		if old := c.staticLocked(m.cfg.InstanceID); old != nil {
			replaced = append(replaced, old.id)
			gone = append(gone, c.oustLocked(old)...)
		}
		c.addLocked(m)
		m.seenLocked()
	}
	gone = append(gone, c.refreshLocked()...)
	c.mu.Unlock()
	for _, id := range replaced {
		c.logger.Warn("member replaced", "member", id)
	}
	closeAll(gone, ErrFenced)
	c.rebalance()
	return members, nil
}

// rejoin takes a fenced member that is busy into the group again, as joins come: one at a time, and not while the group is
// administered.
func (c *coordinator) rejoin(m *Member) {
	c.joining <- struct{}{}
	defer func() { <-c.joining }()
	c.mu.Lock()
	if m.goneLocked() != nil || m.state != stateFenced {
		c.mu.Unlock()
		return
	}
	c.addLocked(m)
	gone := c.refreshLocked()
	c.mu.Unlock()
	closeAll(gone, ErrFenced)
	c.rebalance()
}

// addLocked makes a member live, under an id of its own.
func (c *coordinator) addLocked(m *Member) {
	m.id = c.set.newID(m.cfg.InstanceID)
	m.state = stateLive
	c.members[m.id] = m
	c.plan.dirty = true
}

// staticLocked returns the member of an instance ID, nil if there is none.
func (c *coordinator) staticLocked(instance string) *Member {
	for _, m := range c.members {
		if instance != "" && m.cfg.InstanceID == instance && !m.ousted {
			return m
		}
	}
	return nil
}

// oustLocked fences a member for good. It returns claims to close without the lock.
func (c *coordinator) oustLocked(m *Member) []*claim {
	m.ousted = true
	if m.busy {
		m.nudgeLocked() // it leaves by itself: its readers are in use
		return nil
	}
	return c.fenceLocked(m)
}

// fenceLocked takes a member that isn't busy out of the group, and its partitions away. The claims returned are to be
// closed, without the lock, and a rebalance is due.
func (c *coordinator) fenceLocked(m *Member) []*claim {
	gone := make([]*claim, 0, len(m.claims))
	for _, cl := range m.claims {
		gone = append(gone, cl)
		c.releaseLocked(cl, m.id)
	}
	m.lost = append(m.lost, gone...)
	c.removeLocked(m, stateFenced)
	return gone
}

// removeLocked takes a member that has no slot any more out of the group.
func (c *coordinator) removeLocked(m *Member, state memberState) {
	m.claims = make(map[TopicPartition]*claim)
	m.touched, m.target = nil, nil
	m.feed = newFeed(m.cfg, c.logger)
	m.auto.stopLocked()
	m.state = state
	delete(c.members, m.id)
	c.plan.dirty = true
}

// releaseLocked gives a member's slot up and wakes who shall have it.
func (c *coordinator) releaseLocked(cl *claim, id string) {
	if c.table.release(cl.slot, id) {
		c.wakeLocked(cl.slot.target)
	}
}

func (c *coordinator) wakeLocked(id string) {
	if m := c.members[id]; m != nil {
		m.nudgeLocked()
	}
}

// refresh brings the table in line with the topics that are there.
func (c *coordinator) refresh() {
	c.mu.Lock()
	gone := c.refreshLocked()
	c.mu.Unlock()
	closeAll(gone, ErrFenced)
	c.rebalance()
}

// refreshLocked returns claims to close without the lock. A rebalance may be due.
func (c *coordinator) refreshLocked() (gone []*claim) {
	if c.closed {
		return nil
	}
	there := make(map[string]*topic.Topic)
	for _, m := range c.members {
		for _, name := range m.cfg.Topics {
			if _, seen := there[name]; seen {
				continue
			}
			t, err := c.set.topics.Topic(name)
			if err != nil && !errors.Is(err, topic.ErrUnknownTopic) {
				return gone // the topics are being closed: that deletes nothing
			}
			there[name] = t
		}
	}
	for name, known := range c.topics {
		t, wanted := there[name]
		if !wanted && c.pinnedLocked(name) {
			continue // somebody may want it again before a commit under way has ended
		}
		if t == nil || t.ID() != known.id {
			gone = append(gone, c.removeTopicLocked(name)...)
		}
	}
	for name, t := range there {
		if t != nil {
			c.addTopicLocked(name, t)
		}
	}
	return gone
}

// pinnedLocked reports whether a commit is under way in a topic.
func (c *coordinator) pinnedLocked(name string) bool {
	for i := range c.topics[name].partitions {
		if c.table.slots[TopicPartition{name, i}].pins > 0 {
			return true
		}
	}
	return false
}

func (c *coordinator) addTopicLocked(name string, t *topic.Topic) {
	known := c.topics[name]
	n := t.Partitions()
	if known.partitions == n {
		return
	}
	for i := known.partitions; i < n; i++ {
		tp := TopicPartition{name, i}
		c.table.slots[tp] = &slot{tp: tp, topicID: t.ID(), part: t.Partition(i)}
	}
	c.topics[name] = knownTopic{t.ID(), n}
	c.plan.dirty = true
}

// removeTopicLocked takes the partitions of a topic that was deleted, or that nobody subscribes to, from whoever has
// them. A busy member closes its claims itself.
func (c *coordinator) removeTopicLocked(name string) (gone []*claim) {
	for i := range c.topics[name].partitions {
		s := c.table.slots[TopicPartition{name, i}]
		if m := c.members[s.owner]; m != nil && m.claims[s.tp] != nil {
			cl := m.claims[s.tp]
			delete(m.claims, s.tp)
			m.lost = append(m.lost, cl)
			m.nudgeLocked()
			if !m.busy {
				gone = append(gone, cl)
			}
		}
		c.table.remove(s)
	}
	delete(c.topics, name)
	c.plan.dirty = true
	return gone
}

// put gives back what acquire returned, for so many users.
func (c *coordinator) put(users int) {
	c.mu.Lock()
	c.users -= users
	c.mu.Unlock()
	c.set.forget(c)
}

// stopLocked ends what runs by itself.
func (c *coordinator) stopLocked() {
	c.closed = true
	if c.plan.timer != nil {
		c.plan.timer.Stop()
	}
}

// shut ends all members. It waits for those inside Poll, not for their callbacks.
func (c *coordinator) shut() {
	c.mu.Lock()
	c.stopLocked()
	var gone []*claim
	for _, m := range c.members {
		m.clock.Stop()
		m.auto.stopLocked()
		m.nudgeLocked()
	}
	members := make([]*Member, 0, len(c.members))
	for _, m := range c.members {
		members = append(members, m)
	}
	for slices.ContainsFunc(members, func(m *Member) bool { return m.busy }) {
		c.idle.Wait()
	}
	for _, m := range members {
		gone = append(gone, c.fenceLocked(m)...)
	}
	c.mu.Unlock()
	closeAll(gone, errClosed)
}

// now is the clock that liveness and merging go by; it is monotonic.
func now() time.Time { return time.Now() }
