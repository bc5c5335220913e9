package group

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestValidate(t *testing.T) {
	partitions := map[string]int{"a": 2, "b": 1, "unread": 4, "empty": 0}
	members := []Subscription{
		{Member: "m1", Topics: []string{"a", "empty"}},
		{Member: "m2", Topics: []string{"a", "b", "missing"}},
		{Member: "idle"},
	}
	a0, a1, b0 := TopicPartition{"a", 0}, TopicPartition{"a", 1}, TopicPartition{"b", 0}
	for _, c := range []struct {
		name   string
		answer Assignment
		fault  string // "" for none
	}{
		{"right", Assignment{"m1": {a0}, "m2": {a1, b0}, "idle": {}}, ""},
		{"no entry for an idle member", Assignment{"m1": {a0}, "m2": {a1, b0}}, ""},
		{"not sorted", Assignment{"m2": {b0, a1, a0}}, ""},
		{"nothing", nil, "leaves out a-0"},
		{"a partition left out", Assignment{"m1": {a0}, "m2": {b0}}, "leaves out a-1"},
		{"twice, two members", Assignment{"m1": {a0, a1}, "m2": {a1, b0}}, "gives a-1 twice"},
		{"twice, one member", Assignment{"m1": {a0, a1, a0}, "m2": {b0}}, "gives a-0 twice"},
		{"not a subscriber", Assignment{"m1": {a0, b0}, "m2": {a1}}, "does not subscribe"},
		{"not a subscriber to anything", Assignment{"m1": {a0}, "m2": {b0}, "idle": {a1}}, "does not subscribe"},
		{"topic nobody reads", Assignment{"m1": {a0}, "m2": {a1, b0, {"unread", 0}}}, "does not subscribe"},
		{"stranger", Assignment{"m1": {a0}, "m2": {b0}, "m3": {a1}}, `"m3", which is not a member`},
		{"stranger with nothing", Assignment{"m1": {a0}, "m2": {a1, b0}, "m3": nil}, `"m3", which is not a member`},
		{"partition beyond the end", Assignment{"m1": {a0, {"a", 2}}, "m2": {a1, b0}}, "no such partition"},
		{"negative partition", Assignment{"m1": {a0, {"a", -1}}, "m2": {a1, b0}}, "no such partition"},
		{"partition of an empty topic", Assignment{"m1": {a0, {"empty", 0}}, "m2": {a1, b0}}, "no such partition"},
		{"missing topic", Assignment{"m1": {a0}, "m2": {a1, b0, {"missing", 0}}}, "no such partition"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := Validate(c.answer, members, partitions)
			if c.fault == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.fault)
			}
		})
	}
	require.NoError(t, Validate(nil, nil, partitions))
	require.ErrorContains(t, Validate(Assignment{}, []Subscription{{Member: "m"}, {Member: "m"}}, nil), "listed twice")
}
