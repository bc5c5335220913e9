package group

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ottlalog/ottla/internal/journal"
)

// State says what a group is doing.
type State int

const (
	// Empty: it has no members.
	Empty State = iota
	// Stable: each partition has the owner that it shall have.
	Stable
	// Rebalancing: partitions are on the move.
	Rebalancing
)

func (s State) String() string { return [...]string{"empty", "stable", "rebalancing"}[s] }

// Description is what is known of a group, at one instant.
type Description struct {
	Name  string
	State State
	Epoch int64 // counts the rebalances since the group had no members
	// Members are those in the group, sorted by ID. Those that were fenced aren't.
	Members []MemberDescription
	// Partitions are those of the topics that the members read or in which something is committed, sorted.
	Partitions []PartitionDescription
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

// PartitionDescription is where a group stands in a partition.
type PartitionDescription struct {
	TopicPartition
	Owner        string // the ID of the member that owns it; "": nobody
	HasCommitted bool
	Committed    int64 // the committed offset, if there is one
	Position     int64 // of the record that the owner is handed next; without an owner: where one would begin
	Paused       bool  // by its owner
	Err          error // that its owner's Poll returned: the partition stands still
	StartOffset  int64 // what the partition holds: from here
	EndOffset    int64 // up to the high watermark
	Lag          int64 // offsets from Committed, or the start, to the end
}

// Describe returns what is known of the group: ErrUnknownGroup if there is nothing. It reads no disk.
func (g *Group) Describe() (Description, error) {
	d := Description{Name: g.name}
	partitions := make(map[TopicPartition]PartitionDescription) // as the owners have them
	committed := make(map[journal.TopicPartition]int64)
	look := func() {
		g.set.journal.View(func(st *journal.State) {
			for tp, c := range st.Groups[g.name] {
				committed[tp] = c.Next
			}
		})
	}
	if c := g.coordinator(); c != nil {
		c.mu.Lock()
		d.State, d.Epoch, d.Members = c.stateLocked(), c.epoch, c.describeLocked()
		for _, m := range c.members {
			for tp, cl := range m.claims {
				partitions[tp] = PartitionDescription{Owner: m.id, Position: cl.handed, Paused: cl.paused.Load(), Err: cl.stuck}
			}
		}
		look()
		c.mu.Unlock()
	} else {
		look()
	}
	if len(d.Members) == 0 && len(committed) == 0 {
		return d, fmt.Errorf("%w: %q", ErrUnknownGroup, g.name)
	}
	d.Partitions = g.where(committed, d.Members, partitions)
	return d, nil
}

// coordinator returns the coordinator of the group, nil if it has no members.
func (g *Group) coordinator() *coordinator {
	g.set.mu.Lock()
	defer g.set.mu.Unlock()
	return g.set.mu.groups[g.name]
}

// where completes what the owners say of partitions.
func (g *Group) where(committed map[journal.TopicPartition]int64, members []MemberDescription, owned map[TopicPartition]PartitionDescription) (list []PartitionDescription) {
	read := make(map[string]bool)
	for _, m := range members {
		for _, name := range m.Topics {
			read[name] = true
		}
	}
	known := make(map[string]bool)
	for tp := range committed {
		known[tp.TopicID] = true
	}
	for _, t := range g.set.topics.Topics() {
		if !read[t.Name()] && !known[t.ID()] {
			continue
		}
		for i := range t.Partitions() {
			tp := TopicPartition{t.Name(), i}
			d := owned[tp]
			d.TopicPartition = tp
			d.Committed, d.HasCommitted = committed[journal.TopicPartition{TopicID: t.ID(), Partition: i}]
			d.StartOffset, d.EndOffset = t.Partition(i).StartOffset(), t.Partition(i).HighWatermark()
			from := max(d.Committed, d.StartOffset)
			d.Lag = max(d.EndOffset-from, 0)
			if d.Owner == "" {
				d.Position = from
			}
			list = append(list, d)
		}
	}
	slices.SortFunc(list, func(a, b PartitionDescription) int { return comparePartitions(a.TopicPartition, b.TopicPartition) })
	return list
}

// Lag returns how many offsets lie between what the group has committed and the high watermark, for each partition of the
// topics that its members read or in which it has committed something. Without a commit it counts from the log start.
func (g *Group) Lag() map[TopicPartition]int64 {
	lag := make(map[TopicPartition]int64)
	d, _ := g.Describe() // an unknown group has no partitions
	for _, p := range d.Partitions {
		lag[p.TopicPartition] = p.Lag
	}
	return lag
}

// Members describes the members that are in the group now, sorted by ID. Those that were fenced aren't.
func (g *Group) Members() []MemberDescription {
	c := g.coordinator()
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.describeLocked()
}

func (c *coordinator) describeLocked() []MemberDescription {
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

func (c *coordinator) stateLocked() State {
	if len(c.members) == 0 {
		return Empty
	}
	if c.plan.dirty || c.plan.running {
		return Rebalancing
	}
	for _, s := range c.table.slots {
		if s.owner != s.target || s.orphan {
			return Rebalancing
		}
	}
	return Stable
}
