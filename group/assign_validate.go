package group

import (
	"fmt"
	"maps"
	"slices"
)

// Validate returns an error unless a gives every partition of every topic that has a subscriber to exactly one member,
// and to one that subscribes to its topic. A custom assignor's answer that passes can't break the rule of one owner for a
// partition. A member without an entry gets nothing, and the order of partitions is free.
func Validate(a Assignment, members []Subscription, partitions map[string]int) error {
	r := newRoster(members, partitions)
	position := make(map[string]int, len(r.members))
	for i, m := range r.members {
		if _, twice := position[m.Member]; twice {
			return fmt.Errorf("group: member %q is listed twice", m.Member)
		}
		position[m.Member] = i
	}
	owner := make(map[TopicPartition]string)
	for _, id := range slices.Sorted(maps.Keys(a)) {
		i, known := position[id]
		if !known {
			return fmt.Errorf("group: assignment names %q, which is not a member", id)
		}
		for _, tp := range a[id] {
			if tp.Partition < 0 || tp.Partition >= partitions[tp.Topic] {
				return fmt.Errorf("group: assignment gives %v to member %q, but there is no such partition", tp, id)
			}
			if _, subscribes := slices.BinarySearch(r.subscribers[tp.Topic], i); !subscribes {
				return fmt.Errorf("group: assignment gives %v to member %q, which does not subscribe to it", tp, id)
			}
			if other, taken := owner[tp]; taken {
				return fmt.Errorf("group: assignment gives %v twice, to member %q and to %q", tp, other, id)
			}
			owner[tp] = id
		}
	}
	for _, topic := range r.topics {
		for p := range partitions[topic] {
			tp := TopicPartition{topic, p}
			if _, owned := owner[tp]; !owned {
				return fmt.Errorf("group: assignment leaves out %v, which has subscribers", tp)
			}
		}
	}
	return nil
}
