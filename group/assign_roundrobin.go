package group

import "slices"

// RoundRobin returns the assignor that deals the partitions of all topics, in order, to the members in turn, passing over
// members that don't subscribe to the topic. With equal subscriptions no two members differ by more than one partition.
func RoundRobin() Assignor { return roundRobinAssignor{} }

type roundRobinAssignor struct{}

func (roundRobinAssignor) Name() string { return "roundrobin" }

func (roundRobinAssignor) Assign(members []Subscription, partitions map[string]int) Assignment {
	r := newRoster(members, partitions)
	byMember := make([][]TopicPartition, len(r.members))
	turn := 0 // position in members of whoever is served next; it carries over from topic to topic
	for _, topic := range r.topics {
		subscribers := r.subscribers[topic]
		for p := range partitions[topic] {
			i, _ := slices.BinarySearch(subscribers, turn)
			m := subscribers[i%len(subscribers)]
			byMember[m] = append(byMember[m], TopicPartition{topic, p})
			turn = m + 1
		}
	}
	return r.assignment(byMember)
}
