package group

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// The vectors were established by running Kafka's own assignors and those of its main clients.
type vector struct {
	Name     string
	Strategy string
	Topics   map[string]int64
	Members  []struct {
		ID         string
		InstanceID *string `json:"instance_id"`
		Topics     []string
		Owned      holdings
		Generation int64
	}
	Expect struct {
		Assignment     map[string]holdings // nil: any best answer will do
		EffectiveOwned map[string]holdings `json:"effective_owned"`
		OptimalLoads   []int64             `json:"optimal_loads"`
		MinMoves       int64               `json:"min_moves"`
	}
}

type holdings []struct {
	Topic      string
	Partitions []int64
}

func (h holdings) list() []TopicPartition {
	var tps []TopicPartition
	for _, held := range h {
		for _, p := range held.Partitions {
			tps = append(tps, TopicPartition{held.Topic, int(p)})
		}
	}
	return tps
}

func (v vector) group() ([]Subscription, map[string]int) {
	var members []Subscription
	for _, m := range v.Members {
		s := Subscription{Member: m.ID, Topics: m.Topics, Owned: m.Owned.list(), Generation: int(m.Generation)}
		if m.InstanceID != nil {
			s.Instance = *m.InstanceID
		}
		members = append(members, s)
	}
	partitions := make(map[string]int)
	for topic, n := range v.Topics {
		partitions[topic] = int(n)
	}
	return members, partitions
}

func assignmentOf(byMember map[string]holdings) Assignment {
	a := make(Assignment)
	for id, h := range byMember {
		tps := h.list()
		slices.SortFunc(tps, comparePartitions)
		a[id] = tps
	}
	return a
}

func readVectors(t *testing.T) []vector {
	raw, err := os.ReadFile("testdata/assignors.json")
	require.NoError(t, err)
	var file struct{ Cases []vector }
	require.NoError(t, json.Unmarshal(raw, &file))
	return file.Cases
}

func TestVectors(t *testing.T) {
	ran, exact := make(map[string]int), 0
	for _, v := range readVectors(t) {
		ran[v.Strategy]++
		t.Run(v.Name, func(t *testing.T) {
			members, partitions := v.group()
			switch v.Strategy {
			case "range":
				require.Equal(t, assignmentOf(v.Expect.Assignment), Range().Assign(members, partitions))
			case "roundrobin":
				require.Equal(t, assignmentOf(v.Expect.Assignment), RoundRobin().Assign(members, partitions))
			case "sticky", "cooperative-sticky":
				if v.checkSticky(t) {
					exact++
				}
			default:
				t.Fatalf("unknown strategy %q", v.Strategy)
			}
		})
	}
	require.Equal(t, map[string]int{"range": 30, "roundrobin": 30, "sticky": 59, "cooperative-sticky": 59}, ran)
	require.Equal(t, 50, exact, "cases with a single best answer")
}

// checkSticky reports whether the expected answer was the only right one, and so could be compared as a whole.
func (v vector) checkSticky(t *testing.T) bool {
	members, partitions := v.group()
	owners := make(map[TopicPartition]string)
	for id, h := range v.Expect.EffectiveOwned {
		for _, tp := range h.list() {
			owners[tp] = id
		}
	}
	m := newModel(members, partitions)
	require.Equal(t, owners, m.ownerNames(), "the model's own reading of the claims")

	var loads []int
	for _, n := range v.Expect.OptimalLoads {
		loads = append(loads, int(n))
	}
	a := Sticky().Assign(members, partitions)
	requireValid(t, a, members, partitions)
	require.Equal(t, score{loads, int(v.Expect.MinMoves)}, m.score(a))

	if v.Expect.Assignment == nil || m.answers() > 100_000 {
		return false
	}
	best, ways := m.enumerate()
	require.Equal(t, m.score(a), best)
	if ways > 1 || !best.equal(m.score(assignmentOf(v.Expect.Assignment))) {
		return false
	}
	require.Equal(t, assignmentOf(v.Expect.Assignment), a)
	return true
}
