package group

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// crowd makes members m0000, m0001, … who read all of topics t0000, … where reads says so.
func crowd(members, topics int, reads func(member, topic int) bool) []Subscription {
	subs := make([]Subscription, members)
	for m := range subs {
		subs[m] = Subscription{Member: fmt.Sprintf("m%04d", m), Generation: -1}
		for t := range topics {
			if reads(m, t) {
				subs[m].Topics = append(subs[m].Topics, fmt.Sprintf("t%04d", t))
			}
		}
	}
	return subs
}

func sizes(topics, partitions int) map[string]int {
	sizes := make(map[string]int, topics)
	for t := range topics {
		sizes[fmt.Sprintf("t%04d", t)] = partitions
	}
	return sizes
}

// settle makes members own what the assignment gave them.
func settle(members []Subscription, a Assignment) []Subscription {
	settled := make([]Subscription, len(members))
	for i, m := range members {
		m.Owned, m.Generation = a[m.Member], m.Generation+1
		settled[i] = m
	}
	return settled
}

func hogged(members []Subscription, partitions map[string]int) Assignment {
	a, taken := make(Assignment), make(map[string]bool)
	for _, m := range members {
		for _, topic := range m.Topics {
			for p := range partitions[topic] {
				if !taken[topic] {
					a[m.Member] = append(a[m.Member], TopicPartition{topic, p})
				}
			}
			taken[topic] = true
		}
	}
	return a
}

func everything(int, int) bool { return true }

// BenchmarkSticky measures a group's life: nobody owns anything, nothing has changed, one member joins, one
// leaves, and the worst: the first subscriber of every topic owns all of it.
func BenchmarkSticky(b *testing.B) {
	rnd := rand.New(rand.NewPCG(1, 2))
	third := func(int, int) bool { return rnd.IntN(3) == 0 }
	nested := func(m, t int) bool { return t <= 2*m }
	for _, group := range []struct {
		name       string
		members    []Subscription
		partitions map[string]int
	}{
		{"equal-1000x10000", crowd(1000, 100, everything), sizes(100, 100)},
		{"unequal-100x1000", crowd(100, 200, third), sizes(200, 5)},
		{"unequal-100x1000-singles", crowd(100, 1000, third), sizes(1000, 1)},
		{"nested-100x1000", crowd(100, 200, nested), sizes(200, 5)},
		{"unequal-1000x10000", crowd(1000, 100, third), sizes(100, 100)},
	} {
		all := settle(group.members, Sticky().Assign(group.members, group.partitions))
		joins := settle(group.members[1:], Sticky().Assign(group.members[1:], group.partitions))
		for _, step := range []struct {
			name    string
			members []Subscription
		}{
			{"fresh", group.members},
			{"same", all},
			{"joins", append(joins, group.members[0])},
			{"leaves", all[1:]},
			{"hogged", settle(group.members, hogged(group.members, group.partitions))},
		} {
			b.Run(group.name+"/"+step.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					Sticky().Assign(step.members, group.partitions)
				}
			})
		}
	}
}

func BenchmarkRange(b *testing.B)      { benchmarkSimple(b, Range()) }
func BenchmarkRoundRobin(b *testing.B) { benchmarkSimple(b, RoundRobin()) }

func benchmarkSimple(b *testing.B, a Assignor) {
	members, partitions := crowd(1000, 100, everything), sizes(100, 100)
	b.ReportAllocs()
	for b.Loop() {
		a.Assign(members, partitions)
	}
}
