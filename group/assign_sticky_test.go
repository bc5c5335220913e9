package group

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// requireValid asserts what every assignor owes, counting owners without Validate, and that Validate agrees.
func requireValid(t *testing.T, a Assignment, members []Subscription, partitions map[string]int) {
	t.Helper()
	require.Len(t, a, len(members))
	owners := make(map[TopicPartition]int)
	for _, m := range members {
		tps, entry := a[m.Member]
		require.True(t, entry, "member %s has no entry", m.Member)
		require.True(t, slices.IsSortedFunc(tps, comparePartitions))
		for _, tp := range tps {
			owners[tp]++
			require.Contains(t, m.Topics, tp.Topic)
		}
	}
	want := make(map[TopicPartition]int)
	for topic, n := range partitions {
		read := func(m Subscription) bool { return slices.Contains(m.Topics, topic) }
		if slices.ContainsFunc(members, read) {
			for p := range n {
				want[TopicPartition{topic, p}] = 1
			}
		}
	}
	require.Equal(t, want, owners)
	require.NoError(t, Validate(a, members, partitions))
}

// limits bound a random group.
type limits struct{ members, topics, partitions int }

// randomGroup makes a group with all that can go wrong in it: members that read nothing or topics that don't exist, claims
// to partitions that don't exist, that are not read, that are stale or contested. choose(n) picks from 0..n-1.
func randomGroup(choose func(n int) int, l limits) ([]Subscription, map[string]int) {
	partitions := make(map[string]int)
	topics := make([]string, 1+choose(l.topics))
	for i := range topics {
		topics[i] = fmt.Sprintf("t%d", i)
		if n := choose(l.partitions + 2); n > 0 {
			partitions[topics[i]] = n - 1
		}
	}
	members := make([]Subscription, 1+choose(l.members))
	reads, holds := 1+choose(4), choose(4)
	for i := range members {
		m := &members[i]
		m.Member = fmt.Sprintf("m%d", i)
		if choose(4) == 0 {
			m.Instance = fmt.Sprintf("i%d", choose(100)*len(members)+i)
		}
		m.Generation = choose(4) - 1
		for _, topic := range topics {
			if choose(4) < reads {
				m.Topics = append(m.Topics, topic)
			}
			for p := range l.partitions {
				if choose(8) < holds {
					m.Owned = append(m.Owned, TopicPartition{topic, p})
				}
			}
		}
	}
	return members, partitions
}

func TestStickyIsBestBySearch(t *testing.T) {
	tried := 0
	for seed := range uint64(600) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		members, partitions := randomGroup(rnd.IntN, limits{members: 4, topics: 4, partitions: 3})
		m := newModel(members, partitions)
		if m.answers() > 5000 {
			continue
		}
		tried++
		best, _ := m.enumerate()
		require.Equal(t, best, m.best(), "seed %d: the two models differ", seed)
		a := Sticky().Assign(members, partitions)
		requireValid(t, a, members, partitions)
		require.Equal(t, best, m.score(a), "seed %d", seed)
	}
	require.Greater(t, tried, 400)
}

func TestStickyIsBestByModel(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		members, partitions := randomGroup(rnd.IntN, limits{members: 12, topics: 10, partitions: 10})
		a := Sticky().Assign(members, partitions)
		requireValid(t, a, members, partitions)
		m := newModel(members, partitions)
		require.Equal(t, m.best(), m.score(a), "seed %d", seed)
	}
}

// One class of partitions takes a direct path; the general one must rate it the same.
func TestStickyDivideEqualsBalance(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		members, partitions := randomGroup(rnd.IntN, limits{members: 20, topics: 3, partitions: 20})
		for i := range members {
			members[i].Topics = []string{"t0", "t1", "t2"}
		}
		m := newModel(members, partitions)
		direct := Sticky().Assign(members, partitions)

		r := newRoster(members, partitions)
		classes, byMember := r.classes(), make([][]TopicPartition, len(members))
		balance(classes, len(members))
		for _, c := range classes {
			c.deal(byMember)
		}
		require.Equal(t, m.score(r.assignment(byMember)), m.score(direct), "seed %d", seed)
	}
}

// A long chain of overlapping subscriptions: the first member has one partition too many and the last one none. No step is
// worth it by itself, only all of them together.
func TestStickyMovesAlongAChain(t *testing.T) {
	const length = 50
	members := crowd(length, length, func(m, topic int) bool { return topic == m || topic == m+1 })
	partitions := sizes(length, 1)
	partitions["t0000"] = 2
	for i := range members[:length-1] {
		members[i].Owned, members[i].Generation = []TopicPartition{{fmt.Sprintf("t%04d", i+1), 0}}, 1
	}
	a := Sticky().Assign(members, partitions)
	requireValid(t, a, members, partitions)
	loads := slices.Repeat([]int{1}, length)
	loads[0] = 2
	require.Equal(t, score{loads, length - 1}, newModel(members, partitions).score(a))
}

var assignors = []Assignor{Range(), RoundRobin(), Sticky()}

// What holds of every assignor: the answer is valid, it depends on nothing but the input as a set, and the input is
// left alone.
func TestAssignorsArePure(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 4))
		members, partitions := randomGroup(rnd.IntN, limits{members: 8, topics: 6, partitions: 5})
		for _, assignor := range assignors {
			before, sizesBefore := clone(members), maps.Clone(partitions)
			a := assignor.Assign(members, partitions)
			require.Equal(t, before, members)
			require.Equal(t, sizesBefore, partitions)
			requireValid(t, a, members, partitions)

			shuffled := clone(members)
			rnd.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
			for _, m := range shuffled {
				rnd.Shuffle(len(m.Topics), func(i, j int) { m.Topics[i], m.Topics[j] = m.Topics[j], m.Topics[i] })
				rnd.Shuffle(len(m.Owned), func(i, j int) { m.Owned[i], m.Owned[j] = m.Owned[j], m.Owned[i] })
				if len(m.Topics) > 0 {
					m.Topics = append(m.Topics, m.Topics[0])
				}
			}
			again := assignor.Assign(shuffled, partitions)
			require.Equal(t, a, again, "%s, seed %d", assignor.Name(), seed)

			for _, tps := range again { // the answer is the caller's to change
				for i := range tps {
					tps[i] = TopicPartition{"gone", -1}
				}
			}
			require.Equal(t, a, assignor.Assign(members, partitions))
			require.Equal(t, before, members)
		}
	}
}

// An answer that was put into effect comes out again.
func TestAssignorsSettle(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		members, partitions := randomGroup(rnd.IntN, limits{members: 8, topics: 6, partitions: 5})
		for _, assignor := range assignors {
			a := assignor.Assign(members, partitions)
			settled := clone(members)
			for i := range settled {
				settled[i].Owned, settled[i].Generation = a[settled[i].Member], 9
			}
			require.Equal(t, a, assignor.Assign(settled, partitions), "%s, seed %d", assignor.Name(), seed)
		}
	}
}

// A static member comes back under another id: its partitions must not depend on the id.
func TestAssignorsKnowStaticMembers(t *testing.T) {
	partitions := map[string]int{"a": 3, "b": 5}
	for _, assignor := range assignors {
		members := []Subscription{
			{Member: "dynamic", Topics: []string{"a", "b"}, Generation: -1},
			{Member: "x", Instance: "one", Topics: []string{"a", "b"}, Generation: -1},
			{Member: "y", Instance: "two", Topics: []string{"b"}, Generation: -1},
		}
		before := assignor.Assign(members, partitions)
		members[1].Member = "z"
		after := assignor.Assign(members, partitions)
		require.Equal(t, before["x"], after["z"], assignor.Name())
		require.Equal(t, before["y"], after["y"], assignor.Name())
	}
}

func TestAssignorsWithoutMembers(t *testing.T) {
	for _, assignor := range assignors {
		require.Empty(t, assignor.Assign(nil, map[string]int{"a": 1}))
		nobody := []Subscription{{Member: "m", Topics: []string{"b", "c"}}}
		require.Equal(t, Assignment{"m": nil}, assignor.Assign(nobody, map[string]int{"a": 1, "b": 0, "c": -1}))
	}
}

func clone(members []Subscription) []Subscription {
	c := slices.Clone(members)
	for i := range c {
		c[i].Topics, c[i].Owned = slices.Clone(c[i].Topics), slices.Clone(c[i].Owned)
	}
	return c
}

func FuzzSticky(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("three members, unequal subscriptions, stale claims"))
	f.Add([]byte{5, 6, 7, 3, 4, 5, 6, 2, 1, 0, 255, 254, 3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6})
	f.Fuzz(func(t *testing.T, data []byte) {
		choose := func(n int) int {
			if len(data) == 0 {
				return 0
			}
			b := int(data[0])
			data = data[1:]
			return b % n
		}
		members, partitions := randomGroup(choose, limits{members: 6, topics: 6, partitions: 5})
		a := Sticky().Assign(members, partitions)
		requireValid(t, a, members, partitions)
		m := newModel(members, partitions)
		require.Equal(t, m.best(), m.score(a))
	})
}
