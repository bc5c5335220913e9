package group

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// TopicPartition names a partition of a topic.
type TopicPartition struct {
	Topic     string
	Partition int
}

// String returns the name in the form that folders on disk have, such as "orders-0".
func (tp TopicPartition) String() string {
	return tp.Topic + "-" + strconv.Itoa(tp.Partition)
}

// Assignor decides which member of a group reads which partition. It must be safe for concurrent use.
type Assignor interface {
	// Name identifies the strategy in logs and diagnostics.
	Name() string

	// Assign hands out every partition of every topic that has a subscriber. partitions gives the number of
	// partitions of each topic; a topic that is absent does not exist. Equal input must give an equal answer, whatever
	// the order of members. Assign must not change its arguments or keep slices or maps of theirs.
	Assign(members []Subscription, partitions map[string]int) Assignment
}

// Subscription is what one member asks for and what it holds.
type Subscription struct {
	Member   string   // the member's id, unique in the group
	Instance string   // a static member's name, "" for a dynamic member
	Topics   []string // the topics it reads; they need not exist

	// Owned is what the member says it holds. Where claims collide, the highest Generation is believed.
	Owned      []TopicPartition
	Generation int // the group epoch in which Owned was valid, -1 if none
}

// Assignment maps each member's id to its partitions, sorted by topic and number. A member with nothing to read has an
// entry too.
type Assignment map[string][]TopicPartition

// roster is an assignor's input in the order that all assignors share, so that an answer can't depend on the order of
// arrival.
type roster struct {
	members     []Subscription
	topics      []string         // sorted; each exists and has a subscriber
	subscribers map[string][]int // of each of topics: positions in members, ascending
	partitions  map[string]int
}

func newRoster(members []Subscription, partitions map[string]int) roster {
	r := roster{
		members:     slices.SortedStableFunc(slices.Values(members), compareMembers),
		subscribers: make(map[string][]int),
		partitions:  partitions,
	}
	for i, m := range r.members {
		for _, topic := range m.Topics {
			s := r.subscribers[topic]
			if partitions[topic] <= 0 || len(s) > 0 && s[len(s)-1] == i {
				continue // no such topic, or named twice by this member
			}
			if len(s) == 0 {
				r.topics = append(r.topics, topic)
			}
			r.subscribers[topic] = append(s, i)
		}
	}
	slices.Sort(r.topics)
	return r
}

// assignment names the members of an answer given by position, and sorts it.
func (r roster) assignment(byMember [][]TopicPartition) Assignment {
	a := make(Assignment, len(r.members))
	for i, tps := range byMember {
		slices.SortFunc(tps, comparePartitions)
		a[r.members[i].Member] = tps
	}
	return a
}

// compareMembers puts static members first, by their lasting name: a restart, which changes the id, changes nothing.
func compareMembers(a, b Subscription) int {
	if (a.Instance == "") != (b.Instance == "") {
		return strings.Compare(b.Instance, a.Instance)
	}
	return cmp.Or(strings.Compare(a.Instance, b.Instance), strings.Compare(a.Member, b.Member))
}

func comparePartitions(a, b TopicPartition) int {
	return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}
