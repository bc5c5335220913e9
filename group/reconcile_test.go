package group

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func tableOf(n int) (*table, []*slot) {
	tb := newTable(nil)
	var slots []*slot
	for i := range n {
		s := &slot{tp: TopicPartition{"a", i}}
		tb.slots[s.tp] = s
		slots = append(slots, s)
	}
	return &tb, slots
}

func TestASlotIsTakenByItsTargetOnceItIsFree(t *testing.T) {
	tb, s := tableOf(1)
	assert.False(t, tb.take(s[0], "x"), "it is meant for nobody")
	assert.False(t, tb.take(s[0], ""))
	tb.aim(Assignment{"x": {s[0].tp}})
	assert.False(t, tb.take(s[0], "y"))
	assert.True(t, tb.take(s[0], "x"))
	assert.False(t, tb.take(s[0], "x"), "taken")
	tb.aim(Assignment{"y": {s[0].tp}})
	assert.False(t, tb.take(s[0], "y"))
	assert.False(t, tb.release(s[0], "y"), "it isn't the owner")
	assert.True(t, tb.release(s[0], "x"))
	assert.False(t, tb.release(s[0], "x"))
	assert.True(t, tb.take(s[0], "y"))
}

func TestACommitUnderWayKeepsTheSlot(t *testing.T) {
	tb, s := tableOf(1)
	tb.aim(Assignment{"x": {s[0].tp}})
	require.True(t, tb.take(s[0], "x"))
	epoch := s[0].epoch
	require.True(t, tb.pin(s[0], "x", epoch))
	require.True(t, tb.pin(s[0], "x", epoch))
	assert.False(t, tb.release(s[0], "x"), "not free yet")
	assert.False(t, tb.pin(s[0], "x", epoch), "and nothing new begins")
	tb.aim(Assignment{"y": {s[0].tp}})
	assert.Equal(t, map[string][]TopicPartition{"y": {s[0].tp}}, tb.claimants())
	assert.False(t, tb.unpin(s[0]))
	assert.False(t, tb.take(s[0], "y"))
	assert.True(t, tb.unpin(s[0]))
	assert.True(t, tb.take(s[0], "y"))
	assert.False(t, tb.pin(s[0], "x", epoch))
	assert.False(t, tb.pin(s[0], "y", epoch), "of another epoch")
	assert.True(t, tb.pin(s[0], "y", s[0].epoch))
}

func TestARemovedSlotIsNobodys(t *testing.T) {
	tb, s := tableOf(1)
	tb.aim(Assignment{"x": {s[0].tp}})
	require.True(t, tb.take(s[0], "x"))
	require.True(t, tb.pin(s[0], "x", s[0].epoch))
	tb.remove(s[0])
	assert.False(t, tb.pin(s[0], "x", s[0].epoch))
	assert.False(t, tb.unpin(s[0]))
	assert.False(t, tb.take(s[0], "x"))
	assert.Empty(t, tb.claimants())
}

// TestRandomReconciling lets members take steps in any order, slowly, under targets that change, and checks after each that
// nobody has two owners; and that a target which stays is reached.
func TestRandomReconciling(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		tb, slots := tableOf(1 + rng.IntN(20))
		owner := map[TopicPartition]string{}
		tb.trace = func(s *slot) {
			if s.owner != "" {
				require.Empty(t, owner[s.tp], "seed %d", seed)
			}
			owner[s.tp] = s.owner
		}
		var ids []string
		for i := range 1 + rng.IntN(8) {
			ids = append(ids, fmt.Sprint("m", i))
		}
		claims := map[string]map[TopicPartition]*claim{}
		targets := map[string][]*slot{}
		var pins []*slot
		aim := func() {
			a := Assignment{}
			for _, s := range slots {
				id := ids[rng.IntN(len(ids))]
				a[id] = append(a[id], s.tp)
			}
			targets = tb.aim(a)
		}
		step := func(id string) (done bool) {
			if claims[id] == nil {
				claims[id] = map[TopicPartition]*claim{}
			}
			st := nextSteps(id, claims[id], targets[id])
			for _, cl := range st.revoke {
				if rng.IntN(2) == 0 && tb.pin(cl.slot, id, cl.epoch) {
					pins = append(pins, cl.slot)
				}
				delete(claims[id], cl.slot.tp)
				tb.release(cl.slot, id)
			}
			for _, s := range st.take {
				require.True(t, tb.take(s, id))
				claims[id][s.tp] = &claim{slot: s, epoch: s.epoch}
			}
			return st.none()
		}
		unpin := func() {
			if len(pins) > 0 {
				tb.unpin(pins[0])
				pins = pins[1:]
			}
		}
		for range 200 {
			switch rng.IntN(10) {
			case 0:
				aim()
			case 1, 2:
				unpin()
			default:
				step(ids[rng.IntN(len(ids))])
			}
		}
		for busy := true; busy; {
			busy = len(pins) > 0
			unpin()
			for _, id := range ids {
				busy = !step(id) || busy
			}
		}
		for _, s := range slots {
			assert.Equal(t, s.target, s.owner, "seed %d", seed)
			assert.False(t, s.orphan)
		}
	}
}
