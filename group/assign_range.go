package group

// Range returns the assignor that cuts each topic into contiguous ranges, one for each subscriber, the first ones being
// longer by one where the numbers don't divide. Partitions of the same number in topics of the same size and with the same
// subscribers go to the same member, which suits joins. The price is balance: the first members get each topic's remainder.
func Range() Assignor { return rangeAssignor{} }

type rangeAssignor struct{}

func (rangeAssignor) Name() string { return "range" }

func (rangeAssignor) Assign(members []Subscription, partitions map[string]int) Assignment {
	r := newRoster(members, partitions)
	byMember := make([][]TopicPartition, len(r.members))
	for _, topic := range r.topics {
		subscribers, next := r.subscribers[topic], 0
		for i, m := range subscribers {
			for range quota(partitions[topic], len(subscribers), i) {
				byMember[m] = append(byMember[m], TopicPartition{topic, next})
				next++
			}
		}
	}
	return r.assignment(byMember)
}

// quota is the i-th of k shares of n that differ by one at most, the larger ones first.
func quota(n, k, i int) int {
	if i < n%k {
		return n/k + 1
	}
	return n / k
}
