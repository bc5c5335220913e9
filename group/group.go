package group

import (
	"context"
	"slices"
	"strings"

	"github.com/ottlalog/ottla/internal/journal"
	"github.com/ottlalog/ottla/topic"
)

// Group is a consumer group: members of one name share the partitions of their topics, groups of different names each get
// everything. All methods are safe for concurrent use. A Group is a handle: it holds nothing and needs no closing.
type Group struct {
	set  *Set
	name string
}

// Name returns the group's name.
func (g *Group) Name() string { return g.name }

// Join makes a member of the group, to be closed. It owns nothing before its first Poll; its time to poll begins here.
//
// If the group is new to one of the topics, MemberConfig.Start is applied and committed now: with partition.Latest, what is
// produced after Join is read. The context bounds the waiting for other joins.
//
// ErrInvalidGroup and ErrInvalidMember say what is wrong with the arguments.
func (g *Group) Join(ctx context.Context, cfg MemberConfig) (*Member, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c, err := g.set.acquire(g.name)
	if err != nil {
		return nil, err
	}
	m, err := c.join(ctx, cfg)
	if err != nil {
		c.put()
		return nil, err
	}
	return m, nil
}

// Committed returns the committed offset of a partition: that of the next record to read. ok is false if there is none.
func (g *Group) Committed(topic string, partition int) (offset int64, ok bool) {
	t, err := g.set.topics.Topic(topic)
	if err != nil {
		return 0, false
	}
	g.set.journal.View(func(st *journal.State) {
		var c journal.Committed
		c, ok = st.Groups[g.name][journal.TopicPartition{TopicID: t.ID(), Partition: partition}]
		offset = c.Next
	})
	return offset, ok
}

// Lag returns how many offsets lie between what the group has committed and the high watermark, for each partition of the
// topics that its members read or in which it has committed something. Without a commit it counts from the log start.
func (g *Group) Lag() map[TopicPartition]int64 {
	committed := make(map[journal.TopicPartition]int64)
	ids := make(map[string]bool)
	g.set.journal.View(func(st *journal.State) {
		for tp, c := range st.Groups[g.name] {
			committed[tp] = c.Next
			ids[tp.TopicID] = true
		}
	})
	for _, m := range g.Members() {
		for _, name := range m.Topics {
			if t, err := g.set.topics.Topic(name); err == nil {
				ids[t.ID()] = true
			}
		}
	}
	lag := make(map[TopicPartition]int64)
	for _, t := range g.set.topics.Topics() {
		if ids[t.ID()] {
			lagIn(t, committed, lag)
		}
	}
	return lag
}

func lagIn(t *topic.Topic, committed map[journal.TopicPartition]int64, lag map[TopicPartition]int64) {
	for i := range t.Partitions() {
		p := t.Partition(i)
		from := max(p.StartOffset(), committed[journal.TopicPartition{TopicID: t.ID(), Partition: i}])
		lag[TopicPartition{t.Name(), i}] = max(p.HighWatermark()-from, 0)
	}
}

// MemberDescription is what the coordinator knows of a member.
type MemberDescription struct {
	ID       string
	Instance string // "" for a dynamic member
	Topics   []string
	Assigned []TopicPartition // what it owns now
	Target   []TopicPartition // what it shall own
	Epoch    int64            // of the target: counts the group's rebalances
}

// Members describes the members that are in the group now, sorted by ID. Those that were fenced aren't.
func (g *Group) Members() []MemberDescription {
	g.set.mu.Lock()
	c := g.set.mu.groups[g.name]
	g.set.mu.Unlock()
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]MemberDescription, 0, len(c.members))
	for _, m := range c.members {
		target := make([]TopicPartition, len(m.target))
		for i, s := range m.target {
			target[i] = s.tp
		}
		sortPartitions(target)
		list = append(list, MemberDescription{
			ID: m.id, Instance: m.cfg.InstanceID, Topics: slices.Clone(m.cfg.Topics),
			Assigned: m.assignmentLocked(), Target: target, Epoch: c.epoch,
		})
	}
	slices.SortFunc(list, func(a, b MemberDescription) int { return strings.Compare(a.ID, b.ID) })
	return list
}
