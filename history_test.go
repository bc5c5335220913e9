package ottla_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// spot is one offset of a partition, which a topic's id names, so that topics of one name are told apart.
type spot struct {
	topicID   string
	partition int
	offset    int64
}

func (s spot) String() string { return fmt.Sprintf("%s/%d@%d", s.topicID, s.partition, s.offset) }

func (s spot) with(offset int64) spot { s.offset = offset; return s }

// in returns the partition alone.
func (s spot) in() spot { return s.with(0) }

// judge follows what users of a broker did and were told, over crashes, and says what can't have happened with a queue
// that keeps its promises. A value names one record: its sender, and the how manieth of that sender it is.
type judge struct {
	wrong []string

	tried   map[value]bool
	refused map[value]bool
	stands  map[value]spot
	holds   map[spot]value  // what was seen or acknowledged at an offset
	acked   map[spot][]spot // by partition: what has to be there
	start   map[spot]int64  // by partition: nothing below has to be
	holes   map[spot]bool   // damage: what wasn't acknowledged and can't be read

	owner     map[claim]string
	next      map[claim]int64 // of its owner
	reach     map[claim]int64 // all below was handed out, or removed
	committed map[claim]int64
}

type value struct {
	sender string
	n      int
}

// claim is a partition in a group.
type claim struct {
	group string
	part  spot
}

func (c claim) String() string {
	return fmt.Sprintf("%s in %s/%d", c.group, c.part.topicID, c.part.partition)
}

func newJudge() *judge {
	return &judge{
		tried: map[value]bool{}, refused: map[value]bool{}, stands: map[value]spot{}, holds: map[spot]value{},
		acked: map[spot][]spot{}, start: map[spot]int64{}, holes: map[spot]bool{}, owner: map[claim]string{}, next: map[claim]int64{},
		reach: map[claim]int64{}, committed: map[claim]int64{},
	}
}

func (j *judge) blame(format string, args ...any) {
	j.wrong = append(j.wrong, fmt.Sprintf(format, args...))
}

// try: a sender hands a record over.
func (j *judge) try(v value) { j.tried[v] = true }

// ack: it was told where the record is.
func (j *judge) ack(v value, at spot) {
	j.see(v, at)
	j.acked[at.in()] = append(j.acked[at.in()], at)
}

// refuse: it was told that the record isn't stored.
func (j *judge) refuse(v value) {
	j.refused[v] = true
	if at, ok := j.stands[v]; ok {
		j.blame("refused and visible: %v at %v", v, at)
	}
}

// see: somebody was shown a record.
func (j *judge) see(v value, at spot) {
	if !j.tried[v] {
		j.blame("invented: %v at %v", v, at)
	}
	if j.refused[v] {
		j.blame("refused and visible: %v at %v", v, at)
	}
	if old, ok := j.holds[at]; ok && old != v {
		j.blame("two values at %v: %v and %v", at, old, v)
	}
	if old, ok := j.stands[v]; ok && old != at {
		j.blame("duplicated: %v at %v and %v", v, old, at)
	}
	j.holds[at], j.stands[v] = v, at
}

// trim: the log start was moved, or may have been.
func (j *judge) trim(part spot, start int64) { j.start[part] = max(j.start[part], start) }

// content: a partition was read from its start to its end, with gaps where there was damage.
func (j *judge) content(part spot, start, end int64, values map[int64]value) {
	last := map[string]int{}
	for at := part.with(start); at.offset < end; at.offset++ {
		v, ok := values[at.offset]
		if !ok {
			j.holes[at] = true
			continue
		}
		j.see(v, at)
		if n, ok := last[v.sender]; ok && n >= v.n {
			j.blame("reordered: %v at %v follows number %d", v, at, n)
		}
		last[v.sender] = v.n
	}
	for _, at := range j.acked[part] {
		if _, ok := values[at.offset]; !ok && at.offset >= j.start[part] {
			j.blame("lost: %v at %v", j.holds[at], at)
		}
	}
}

// nothing says whether no record stands from first up to next.
func (j *judge) nothing(part spot, first, next int64) bool {
	for at := part.with(max(first, j.start[part])); at.offset < next; at.offset++ {
		if !j.holes[at] {
			return false
		}
	}
	return true
}

// assign: a member begins to read a partition.
func (j *judge) assign(member string, c claim, from int64) {
	if o := j.owner[c]; o != "" {
		j.blame("two owners of %v: %s and %s", c, o, member)
	}
	if !j.nothing(c.part, j.reach[c], from) {
		j.blame("skipped: %v begins at %d, and only what is below %d was handed out", c, from, j.reach[c])
	}
	if from < j.committed[c] {
		j.blame("went back: %v begins at %d, and %d is committed", c, from, j.committed[c])
	}
	j.owner[c], j.next[c] = member, from
}

// hand: a member is handed a record.
func (j *judge) hand(member string, c claim, v value, offset int64) {
	at := c.part.with(offset)
	j.see(v, at)
	switch next := j.next[c]; {
	case j.owner[c] != member:
		j.blame("%s is handed %v, which belongs to %q", member, at, j.owner[c])
	case offset < next:
		j.blame("went back: %v to %d, at %d", c, offset, next)
	case !j.nothing(c.part, next, offset):
		j.blame("skipped: %v to %d, at %d", c, offset, next)
	}
	j.next[c] = offset + 1
	j.reach[c] = max(j.reach[c], offset+1)
}

// leave: a member gives a partition back, or it is taken away.
func (j *judge) leave(member string, c claim) {
	if j.owner[c] == member {
		delete(j.owner, c)
	}
}

// commit: a member was told that what it was handed is committed.
func (j *judge) commit(member string, c claim) {
	if j.owner[c] != member {
		j.blame("%s commits %v, which belongs to %q", member, c, j.owner[c])
	}
	j.committed[c] = max(j.committed[c], j.next[c])
}

// position: this is committed by now.
func (j *judge) position(c claim, offset int64) {
	if offset < j.committed[c] {
		j.blame("lost: a commit of %v at %d: now it is %d", c, j.committed[c], offset)
	}
	if !j.nothing(c.part, j.reach[c], offset) {
		j.blame("skipped: %v is committed up to %d, and only what is below %d was handed out", c, offset, j.reach[c])
	}
}

// crash: nobody owns anything any more.
func (j *judge) crash() { clear(j.owner) }

func TestTheJudgeSeesEachWrong(t *testing.T) {
	part := spot{"t", 0, 0}
	at := func(offset int64) spot { return spot{"t", 0, offset} }
	v := func(n int) value { return value{"s", n} }
	c := claim{"g", part}
	// stored has three records, of which two were acknowledged; a member reads the first.
	stored := func(j *judge) {
		for n := range 3 {
			j.try(v(n))
		}
		j.ack(v(0), at(0))
		j.ack(v(1), at(1))
		j.assign("m", c, 0)
		j.hand("m", c, v(0), 0)
		j.commit("m", c)
	}
	for want, do := range map[string]func(j *judge){
		"": func(j *judge) {
			j.content(part, 0, 3, map[int64]value{0: v(0), 1: v(1), 2: v(2)})
			j.trim(part, 2)
			j.content(part, 2, 4, map[int64]value{2: v(2)})
			j.hand("m", c, v(2), 2)
			j.try(v(3))
			j.hand("m", c, v(3), 4)
			j.position(c, 1)
			j.position(c, 5)
			j.leave("m", c)
			j.assign("n", c, 2)
			j.crash()
			j.assign("n", c, 1)
		},
		"lost: {s 1} at t/0@1": func(j *judge) { j.content(part, 0, 1, map[int64]value{0: v(0)}) },
		"lost: {s 0} at t/0@0": func(j *judge) { j.content(part, 1, 2, map[int64]value{1: v(1)}) },
		"lost: a commit":       func(j *judge) { j.position(c, 0) },
		"duplicated: {s 1}":    func(j *judge) { j.content(part, 0, 3, map[int64]value{0: v(0), 1: v(1), 2: v(1)}) },
		"reordered: {s 2} at t/0@3 follows number 3": func(j *judge) {
			j.try(v(3))
			j.content(part, 0, 4, map[int64]value{0: v(0), 1: v(1), 2: v(3), 3: v(2)})
		},
		"invented: {s 4}":                        func(j *judge) { j.see(v(4), at(2)) },
		"two values at t/0@1":                    func(j *judge) { j.see(v(2), at(1)) },
		"refused and visible: {s 2}":             func(j *judge) { j.refuse(v(2)); j.see(v(2), at(2)) },
		"refused and visible: {s 1}":             func(j *judge) { j.refuse(v(1)) },
		"went back: g in t/0 to 0":               func(j *judge) { j.hand("m", c, v(0), 0) },
		"went back: g in t/0 begins at 0":        func(j *judge) { j.crash(); j.assign("m", c, 0) },
		"skipped: g in t/0 to 2":                 func(j *judge) { j.hand("m", c, v(2), 2) },
		"skipped: g in t/0 begins at 2":          func(j *judge) { j.crash(); j.assign("m", c, 2) },
		"skipped: g in t/0 is committed up to 2": func(j *judge) { j.position(c, 2) },
		"two owners":                             func(j *judge) { j.assign("n", c, 1) },
		"n is handed":                            func(j *judge) { j.hand("n", c, v(1), 1) },
		"n commits":                              func(j *judge) { j.commit("n", c) },
	} {
		j := newJudge()
		stored(j)
		require.Empty(t, j.wrong)
		do(j)
		if want == "" {
			require.Empty(t, j.wrong)
			continue
		}
		require.NotEmpty(t, j.wrong, want)
		require.Contains(t, j.wrong[0], want)
	}
}
