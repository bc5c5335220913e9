package group

import (
	"slices"

	"github.com/ottlalog/ottla/partition"
)

// slot is one partition that the group reads, and who has it. Owners and targets are ids of members, "" for nobody; each
// Join and rejoin makes an id that never was, so an id stands for one stay in the group.
type slot struct {
	tp      TopicPartition
	topicID string
	part    *partition.Partition

	owner  string
	target string // who shall own it
	epoch  int64  // how often the owner has changed
	pins   int    // commits of the owner's that are under way
	orphan bool   // the owner has let go; the end of its last commit frees the slot
}

// table is who owns what: the rule that there is one owner at most is kept here and nowhere else.
type table struct {
	slots map[TopicPartition]*slot
	trace func(*slot) // may be nil
}

func newTable(trace func(*slot)) table {
	return table{slots: make(map[TopicPartition]*slot), trace: trace}
}

func (t *table) setOwner(s *slot, id string) {
	s.owner, s.orphan = id, false
	s.epoch++
	if t.trace != nil {
		t.trace(s)
	}
}

// take makes the member the owner of a slot that is free and meant for it.
func (t *table) take(s *slot, id string) bool {
	if t.slots[s.tp] != s || s.owner != "" || s.target != id || id == "" {
		return false
	}
	t.setOwner(s, id)
	return true
}

// release ends the ownership: now, or when the commits under way have ended. It reports whether the slot is free.
func (t *table) release(s *slot, id string) bool {
	if s.owner != id || id == "" {
		return false
	}
	s.orphan = true
	return t.freeIfDue(s)
}

func (t *table) freeIfDue(s *slot) bool {
	if s.owner == "" || !s.orphan || s.pins > 0 {
		return false
	}
	t.setOwner(s, "")
	return true
}

// pin keeps the slot from getting another owner while its owner commits. It fails unless the member owns it still, in
// the epoch given.
func (t *table) pin(s *slot, id string, epoch int64) bool {
	if s.owner != id || s.epoch != epoch || s.orphan {
		return false
	}
	s.pins++
	return true
}

// unpin ends a commit. It reports whether that has freed the slot.
func (t *table) unpin(s *slot) bool {
	s.pins--
	return t.freeIfDue(s)
}

// remove forgets a slot, whose partition is gone. Nobody owns it any more.
func (t *table) remove(s *slot) {
	delete(t.slots, s.tp)
	s.target = ""
	if s.owner != "" {
		t.setOwner(s, "")
	}
}

// aim sets the target, and returns what each member shall own. What the answer leaves out is meant for nobody.
func (t *table) aim(a Assignment) map[string][]*slot {
	for _, s := range t.slots {
		s.target = ""
	}
	targets := make(map[string][]*slot, len(a))
	for id, tps := range a {
		for _, tp := range tps {
			if s := t.slots[tp]; s != nil {
				s.target = id
				targets[id] = append(targets[id], s)
			}
		}
	}
	return targets
}

// claimants returns what each member counts as having when a target is computed: what it owns, and what is free and
// meant for it.
func (t *table) claimants() map[string][]TopicPartition {
	have := make(map[string][]TopicPartition)
	for tp, s := range t.slots {
		id := s.owner
		if id == "" || s.orphan {
			id = s.target
		}
		if id != "" {
			have[id] = append(have[id], tp)
		}
	}
	return have
}

// pinned reports whether a commit is under way.
func (t *table) pinned() bool {
	for _, s := range t.slots {
		if s.pins > 0 {
			return true
		}
	}
	return false
}

// steps is what a member can do to come nearer to the target.
type steps struct {
	revoke []*claim // it owns them and shall not
	take   []*slot  // it shall own them and nobody does
}

func nextSteps(id string, claims map[TopicPartition]*claim, target []*slot) steps {
	var st steps
	for _, cl := range claims {
		if cl.slot.target != id {
			st.revoke = append(st.revoke, cl)
		}
	}
	for _, s := range target {
		if s.owner == "" && s.target == id {
			st.take = append(st.take, s)
		}
	}
	return st
}

func (st steps) none() bool { return len(st.revoke) == 0 && len(st.take) == 0 }

func sortPartitions(tps []TopicPartition) { slices.SortFunc(tps, comparePartitions) }
