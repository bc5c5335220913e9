package group

import (
	"slices"
)

// model is a second opinion on what the best sticky answers are. It treats every partition by itself, has no classes, no
// network, and no code in common with the assignor.
type model struct {
	members  []Subscription
	tps      []TopicPartition // those with a subscriber
	eligible [][]int          // by position in tps: who may have it
	owner    []int            // by position in tps: who owns it now, or -1
}

// score rates an answer: loads from high to low, then moves.
type score struct {
	loads []int
	moves int
}

func (s score) equal(o score) bool { return slices.Equal(s.loads, o.loads) && s.moves == o.moves }

func (s score) better(o score) bool {
	if c := slices.Compare(s.loads, o.loads); c != 0 {
		return c < 0
	}
	return s.moves < o.moves
}

func newModel(members []Subscription, partitions map[string]int) *model {
	m := &model{members: members}
	for topic, n := range partitions {
		var eligible []int
		for i, s := range members {
			if slices.Contains(s.Topics, topic) {
				eligible = append(eligible, i)
			}
		}
		for p := range n {
			if tp := (TopicPartition{topic, p}); len(eligible) > 0 {
				m.tps = append(m.tps, tp)
				m.eligible = append(m.eligible, eligible)
				m.owner = append(m.owner, ownerOf(tp, members))
			}
		}
	}
	return m
}

// ownerOf is the position of the one member that claims tp in the highest generation in which it is claimed, if that member
// reads the topic, else -1.
func ownerOf(tp TopicPartition, members []Subscription) int {
	var claimants []int
	newest := -1
	for i, s := range members {
		if slices.Contains(s.Owned, tp) {
			claimants = append(claimants, i)
			newest = max(newest, s.Generation)
		}
	}
	claimants = slices.DeleteFunc(claimants, func(i int) bool { return members[i].Generation < newest })
	if len(claimants) == 1 && slices.Contains(members[claimants[0]].Topics, tp.Topic) {
		return claimants[0]
	}
	return -1
}

func (m *model) ownerNames() map[TopicPartition]string {
	names := make(map[TopicPartition]string)
	for i, tp := range m.tps {
		if m.owner[i] >= 0 {
			names[tp] = m.members[m.owner[i]].Member
		}
	}
	return names
}

func (m *model) score(a Assignment) score {
	var s score
	owners := m.ownerNames()
	for _, member := range m.members {
		s.loads = append(s.loads, len(a[member.Member]))
		for _, tp := range a[member.Member] {
			if owner, owned := owners[tp]; owned && owner != member.Member {
				s.moves++
			}
		}
	}
	slices.Sort(s.loads)
	slices.Reverse(s.loads)
	return s
}

// answers is the number of valid answers.
func (m *model) answers() float64 {
	n := 1.0
	for _, e := range m.eligible {
		n *= float64(len(e))
	}
	return n
}

// enumerate tries every valid answer and returns the best score and how many answers reach it.
func (m *model) enumerate() (best score, ways int) {
	load, moves := make([]int, len(m.members)), 0
	var place func(i int)
	place = func(i int) {
		if i == len(m.tps) {
			s := score{slices.Clone(load), moves}
			slices.SortFunc(s.loads, func(a, b int) int { return b - a })
			switch {
			case ways == 0 || s.better(best):
				best, ways = s, 1
			case s.equal(best):
				ways++
			}
			return
		}
		for _, e := range m.eligible[i] {
			load[e]++
			moves += m.move(i, e)
			place(i + 1)
			moves -= m.move(i, e)
			load[e]--
		}
	}
	place(0)
	return best, ways
}

// move is 1 if the i-th partition would leave its owner for e.
func (m *model) move(i, e int) int {
	if m.owner[i] >= 0 && m.owner[i] != e {
		return 1
	}
	return 0
}

// best finds the best score by successive shortest paths, one partition after the other: a new partition goes to an
// eligible member, which may pass one of its own on, and so on; it ends where the load is least, by the way with the fewest
// moves.
func (m *model) best() score {
	const far = 1 << 30
	holder, load := make([]int, len(m.tps)), make([]int, len(m.members))
	for next := range m.tps {
		moves := slices.Repeat([]int{far}, len(m.members)) // fewest on a way to each member
		via := make([]int, len(m.members))                 // the partition that comes to it on that way
		for _, e := range m.eligible[next] {
			moves[e], via[e] = m.move(next, e), next
		}
		for again := true; again; {
			again = false
			for i := range next {
				from := holder[i]
				for _, to := range m.eligible[i] {
					d := moves[from] + m.move(i, to) - m.move(i, from)
					if moves[from] < far && to != from && d < moves[to] {
						moves[to], via[to], again = d, i, true
					}
				}
			}
		}
		end := m.eligible[next][0]
		for e := range moves {
			if moves[e] < far && (load[e] < load[end] || load[e] == load[end] && moves[e] < moves[end]) {
				end = e
			}
		}
		load[end]++
		for i := via[end]; ; i = via[end] {
			from := holder[i]
			holder[i] = end
			if end = from; i == next {
				break
			}
		}
	}
	a := make(Assignment)
	for i, tp := range m.tps {
		id := m.members[holder[i]].Member
		a[id] = append(a[id], tp)
	}
	return m.score(a)
}
