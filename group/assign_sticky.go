package group

import (
	"encoding/binary"
	"slices"
)

// Sticky returns the assignor that balances best and moves least. Among all answers it takes those with the best
// balance (the fullest member has as few partitions as possible, then the next fullest, and so on), and among these one
// that takes the fewest partitions away from members that own them. This holds for unequal subscriptions too.
//
// A partition claimed by several members belongs to the claim of the highest generation; if that one is shared, to nobody.
func Sticky() Assignor { return stickyAssignor{} }

type stickyAssignor struct{}

func (stickyAssignor) Name() string { return "sticky" }

func (stickyAssignor) Assign(members []Subscription, partitions map[string]int) Assignment {
	r := newRoster(members, partitions)
	classes := r.classes()
	if len(classes) == 1 {
		classes[0].divide()
	} else {
		balance(classes, len(r.members))
	}
	byMember := make([][]TopicPartition, len(r.members))
	for _, c := range classes {
		c.deal(byMember)
	}
	return r.assignment(byMember)
}

// class is all partitions of all topics with the same subscribers. Any of them can stand in for any other, so a plan
// need not name partitions: how many each member gets settles its load, and, since a member best keeps its own first, how
// many move. The slices owned and count run parallel to members.
type class struct {
	members []int              // the subscribers: positions in the roster, ascending
	owned   [][]TopicPartition // what each owns now, sorted
	free    []TopicPartition   // what nobody owns, sorted
	count   []int              // the plan: how many each shall have
}

// size is the number of partitions in the class.
func (c *class) size() int {
	n := len(c.free)
	for _, owned := range c.owned {
		n += len(owned)
	}
	return n
}

// divide plans a class whose members subscribe to nothing else. The best balance has shares that differ by one at most.
// A larger share keeps one partition more only for a member that owns more than the smaller share, so the larger ones go
// to those that own most.
func (c *class) divide() {
	order := make([]int, len(c.members))
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(c.owned[b]) - len(c.owned[a]) })
	n := c.size()
	for i, k := range order {
		c.count[k] = quota(n, len(order), i)
	}
}

// deal carries the plan out: members keep what they own up to their count, and the rest goes round in turn, so that a
// topic's partitions spread over the members.
func (c *class) deal(byMember [][]TopicPartition) {
	rest := slices.Clone(c.free)
	var short []int // positions in members that lack a partition
	lacks := slices.Clone(c.count)
	for k, m := range c.members {
		kept := min(c.count[k], len(c.owned[k]))
		byMember[m] = append(byMember[m], c.owned[k][:kept]...)
		rest = append(rest, c.owned[k][kept:]...)
		if lacks[k] -= kept; lacks[k] > 0 {
			short = append(short, k)
		}
	}
	slices.SortFunc(rest, comparePartitions)
	for len(short) > 0 {
		again := short[:0]
		for _, k := range short {
			byMember[c.members[k]] = append(byMember[c.members[k]], rest[0])
			rest = rest[1:]
			if lacks[k]--; lacks[k] > 0 {
				again = append(again, k)
			}
		}
		short = again
	}
}

// classes groups the partitions by their topics' subscribers, in the order of topics.
func (r roster) classes() []class {
	owners := r.owners()
	var classes []class
	index := make(map[string]int) // by subscribers, encoded
	var key []byte
	for _, topic := range r.topics {
		subscribers := r.subscribers[topic]
		key = key[:0]
		for _, m := range subscribers {
			key = binary.AppendUvarint(key, uint64(m))
		}
		i, known := index[string(key)]
		if !known {
			i = len(classes)
			index[string(key)] = i
			classes = append(classes, class{
				members: subscribers,
				owned:   make([][]TopicPartition, len(subscribers)),
				count:   make([]int, len(subscribers)),
			})
		}
		classes[i].add(topic, r.partitions[topic], owners)
	}
	return classes
}

// add takes in a topic, which must sort after those added before.
func (c *class) add(topic string, partitions int, owners map[TopicPartition]int) {
	for p := range partitions {
		tp := TopicPartition{topic, p}
		if owner, owned := owners[tp]; owned {
			if k, subscribes := slices.BinarySearch(c.members, owner); subscribes {
				c.owned[k] = append(c.owned[k], tp)
				continue
			}
		}
		c.free = append(c.free, tp)
	}
}

// owners settles the claims. A member that wins a partition without subscribing to it still beats the older claims: they
// are stale, whoever makes them.
func (r roster) owners() map[TopicPartition]int {
	type claim struct {
		member, generation int
		shared             bool
	}
	claims := make(map[TopicPartition]claim)
	for i, m := range r.members {
		for _, tp := range m.Owned {
			best, claimed := claims[tp]
			switch {
			case !claimed || m.Generation > best.generation:
				claims[tp] = claim{member: i, generation: m.Generation}
			case m.Generation == best.generation && best.member != i:
				best.shared = true
				claims[tp] = best
			}
		}
	}
	owners := make(map[TopicPartition]int, len(claims))
	for tp, c := range claims {
		if !c.shared {
			owners[tp] = c.member
		}
	}
	return owners
}
