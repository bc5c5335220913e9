package group

import (
	"context"
	"fmt"
	"slices"

	"github.com/ottlalog/ottla/internal/journal"
	"github.com/ottlalog/ottla/partition"
)

// OffsetReset says what ResetOffsets shall do.
type OffsetReset struct {
	// Topics and Partitions are what is reset: both nil: all in which the group has committed something.
	Topics     []string
	Partitions []TopicPartition
	// To is where the group shall go on; the zero value is partition.Earliest.
	To partition.Start
	// Shift, unless it is 0, counts instead of To: so many offsets ahead, or back if it is negative, of what is committed, or
	// else of the log start.
	Shift int64
	// DryRun changes nothing.
	DryRun bool
}

// OffsetChange is a committed offset that ResetOffsets changes.
type OffsetChange struct {
	TopicPartition
	HadCommitted bool
	From         int64 // the committed offset before, if there was one
	To           int64
}

// ResetOffsets moves committed offsets of a group that has no members: all of them or none. A place that a partition doesn't
// have becomes the nearest that it has. It returns what it has changed, or would with DryRun, sorted; partitions that are
// there already are among it.
//
// ErrGroupNotEmpty; ErrUnknownGroup if neither Topics nor Partitions are given and nothing is committed;
// topic.ErrUnknownTopic, partition.ErrUnknownPartition and errors of looking up a time. Members that come meanwhile wait.
func (g *Group) ResetOffsets(ctx context.Context, r OffsetReset) (changes []OffsetChange, err error) {
	err = g.administer(ctx, func(c *coordinator) error {
		if err := c.vacant(); err != nil {
			return err
		}
		committed := c.committed()
		tps, err := c.toReset(r, committed)
		if err != nil {
			return err
		}
		var offsets []journal.Offset
		for _, tp := range tps {
			change, offset, err := c.planReset(tp, r, committed)
			if err != nil {
				return err
			}
			changes, offsets = append(changes, change), append(offsets, offset)
		}
		if r.DryRun {
			return nil
		}
		return c.write(offsets)
	})
	if err != nil {
		return nil, err
	}
	return changes, nil
}

// Delete removes all that a group without members has committed: ErrGroupNotEmpty, ErrUnknownGroup. Who joins it later begins
// as in a new group.
func (g *Group) Delete(ctx context.Context) error {
	return g.administer(ctx, func(c *coordinator) error {
		if err := c.vacant(); err != nil {
			return err
		}
		if len(c.committed()) == 0 {
			return fmt.Errorf("%w: %q", ErrUnknownGroup, c.name)
		}
		return c.record(journal.Event{GroupDeleted: &journal.GroupDeleted{Group: c.name}})
	})
}

// DeleteOffsets removes what the group has committed in partitions. Whoever reads them next begins at the log start, or, if
// nothing is left in the topic, at MemberConfig.Start. A partition without a committed offset is no error.
//
// ErrGroupNotEmpty if a member reads one of the topics; ErrUnknownGroup; topic.ErrUnknownTopic.
func (g *Group) DeleteOffsets(ctx context.Context, ps ...TopicPartition) error {
	return g.administer(ctx, func(c *coordinator) error {
		event := journal.OffsetsDeleted{Group: c.name}
		for _, tp := range ps {
			if c.reads(tp.Topic) {
				return fmt.Errorf("%w: %q reads topic %q", ErrGroupNotEmpty, c.name, tp.Topic)
			}
			t, err := c.set.topics.Topic(tp.Topic)
			if err != nil {
				return err
			}
			event.Partitions = append(event.Partitions, journal.TopicPartition{TopicID: t.ID(), Partition: tp.Partition})
		}
		if len(c.committed()) == 0 {
			return fmt.Errorf("%w: %q", ErrUnknownGroup, c.name)
		}
		if len(ps) == 0 {
			return nil
		}
		return c.record(journal.Event{OffsetsDeleted: &event})
	})
}

// administer does something while nobody can join.
func (g *Group) administer(ctx context.Context, do func(c *coordinator) error) error {
	c, err := g.set.acquire(g.name, 1)
	if err != nil {
		return err
	}
	defer c.put(1)
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case c.joining <- struct{}{}:
		defer func() { <-c.joining }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return do(c)
}

// vacant returns an error if the group has members, or one that has left is still committing.
func (c *coordinator) vacant() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return errClosed
	case len(c.members) > 0 || c.table.pinned():
		return fmt.Errorf("%w: %q has %d", ErrGroupNotEmpty, c.name, len(c.members))
	}
	return nil
}

// reads says whether a member reads a topic, or one that has left is still committing in it.
func (c *coordinator) reads(name string) bool {
	c.refresh()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.members {
		if slices.Contains(m.cfg.Topics, name) {
			return true
		}
	}
	return c.pinnedLocked(name)
}

// committed returns a copy of what the group has committed.
func (c *coordinator) committed() map[journal.TopicPartition]int64 {
	next := make(map[journal.TopicPartition]int64)
	c.set.journal.View(func(st *journal.State) {
		for tp, at := range st.Groups[c.name] {
			next[tp] = at.Next
		}
	})
	return next
}

// toReset returns the partitions that a reset is about, sorted.
func (c *coordinator) toReset(r OffsetReset, committed map[journal.TopicPartition]int64) ([]TopicPartition, error) {
	tps := slices.Clone(r.Partitions)
	for _, name := range r.Topics {
		t, err := c.set.topics.Topic(name)
		if err != nil {
			return nil, err
		}
		for i := range t.Partitions() {
			tps = append(tps, TopicPartition{name, i})
		}
	}
	if r.Topics == nil && r.Partitions == nil {
		if len(committed) == 0 {
			return nil, fmt.Errorf("%w: %q", ErrUnknownGroup, c.name)
		}
		names := make(map[string]string)
		for _, t := range c.set.topics.Topics() {
			names[t.ID()] = t.Name()
		}
		for tp := range committed {
			if name, there := names[tp.TopicID]; there {
				tps = append(tps, TopicPartition{name, tp.Partition})
			}
		}
	}
	sortPartitions(tps)
	return slices.Compact(tps), nil
}

// planReset returns what a reset changes in a partition.
func (c *coordinator) planReset(tp TopicPartition, r OffsetReset, committed map[journal.TopicPartition]int64) (OffsetChange, journal.Offset, error) {
	t, err := c.set.topics.Topic(tp.Topic)
	if err != nil {
		return OffsetChange{}, journal.Offset{}, err
	}
	p := t.Partition(tp.Partition)
	to, err := p.Resolve(r.To)
	if err != nil {
		return OffsetChange{}, journal.Offset{}, err
	}
	start, end := p.StartOffset(), p.HighWatermark()
	ch := OffsetChange{TopicPartition: tp}
	ch.From, ch.HadCommitted = committed[journal.TopicPartition{TopicID: t.ID(), Partition: tp.Partition}]
	if r.Shift != 0 {
		if to = start; ch.HadCommitted {
			to = ch.From
		}
		to += min(max(r.Shift, start-to), end-to) // no further than the range, so that nothing overflows
	}
	ch.To, _ = ResetEarliest.resolve(to, start, end)
	return ch, offsetOf(&slot{topicID: t.ID(), tp: tp}, ch.To), nil
}
