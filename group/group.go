package group

import (
	"context"

	"github.com/ottlalog/ottla/internal/journal"
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
	ms, err := g.join(ctx, cfg, cfg.InstanceID)
	if err != nil {
		return nil, err
	}
	return ms[0], nil
}

// join makes a member for each instance ID, all or none, which counts as one change of the group. cfg has no faults and all
// defaults.
func (g *Group) join(ctx context.Context, cfg MemberConfig, instances ...string) ([]*Member, error) {
	c, err := g.set.acquire(g.name, len(instances))
	if err != nil {
		return nil, err
	}
	ms, err := c.join(ctx, cfg, instances)
	if err != nil {
		c.put(len(instances))
		return nil, err
	}
	return ms, nil
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
