package group

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/ottlalog/ottla/internal/notify"
	"github.com/ottlalog/ottla/partition"
)

// claim is a partition that a member owns, from take to release.
type claim struct {
	slot  *slot
	epoch int64 // the slot's, all along

	// Guarded by the coordinator's lock. Offsets of the next record: committed ≤ done ≤ handed.
	handed    int64 // after what was handed out
	done      int64 // after what counts as processed
	committed int64 // as the journal knows it, or is to know it
	replace   bool  // the journal's entry is another, and is to be replaced
	touched   bool  // in the member's list of claims with handed beyond done
	stuck     error // why it isn't read, as the user was told
	seeks     int   // how many were begun
	sought    int   // the number of the one in force
	run       context.Context
	cancel    context.CancelCauseFunc // ends run; nil without one

	// Set under the coordinator's lock, read without.
	skip    atomic.Bool           // the user wants to step over what failed
	paused  atomic.Bool           // by the user: nothing is handed out
	resting atomic.Bool           // until a record that failed is tried again: nor here
	place   atomic.Pointer[place] // where reading was told to go on; nil: nowhere

	// The busy goroutine's, or whoever has taken the claim away from the member.
	from    *place            // place as the rest follows from it: what was read from another one is void
	reader  *partition.Reader // opened when there is something to read
	next    int64             // offset to read next
	above   int64             // nothing to read unless the high watermark is above
	failed  error             // why it isn't read
	watch   *notify.Watch
	watched int64 // what watch waits to be passed
	closed  sync.Once
}

// place is an offset where a claim goes on reading, instead of where it was.
type place struct{ next int64 }

// moveLocked has the claim read from an offset on. What was read before and isn't handed out is void.
func (cl *claim) moveLocked(next int64) {
	cl.handed = next
	cl.stuck = nil
	cl.place.Store(&place{next})
}

// position is where the claim has been handed out to.
func (cl *claim) position() int64 { return cl.handed }

// processed is up to where what was handed out counts as processed.
func (cl *claim) processed() int64 { return cl.done }

// dueLocked says whether committing an offset changes anything.
func (cl *claim) dueLocked(next int64) bool { return next > cl.committed || cl.replace }

// follow goes to where reading was told to go on.
func (cl *claim) follow() {
	to := cl.place.Load()
	if to == cl.from {
		return
	}
	cl.from = to
	cl.next, cl.above = to.next, to.next
	cl.failed = nil
	cl.skip.Store(false)
	cl.dropReader()
}

func (cl *claim) dropReader() {
	if cl.reader != nil {
		_ = cl.reader.Close() // read-only: nothing can be lost
		cl.reader = nil
	}
}

// halted says that nothing is handed out for now, whatever is there.
func (cl *claim) halted() bool { return cl.paused.Load() || cl.resting.Load() }

// ready says whether there is something to read.
func (cl *claim) ready() bool {
	if cl.halted() {
		return false
	}
	if cl.failed != nil && !cl.skip.Load() {
		return false
	}
	return cl.failed != nil || cl.slot.part.HighWatermark() > cl.above
}

// arm sees to a token in wake once there is something to read.
func (cl *claim) arm(wake chan<- struct{}) {
	if cl.failed != nil || cl.watch != nil && cl.watched == cl.above {
		return
	}
	if cl.watch != nil {
		cl.watch.Stop()
	}
	cl.watched = cl.above
	cl.watch = cl.slot.part.Watch(cl.above, wake)
}

// close gives back what the claim holds and ends the context of a handler that works on it. The claim is no longer
// among its member's; its member and who took it away may both close it.
func (cl *claim) close(cause error) {
	cl.closed.Do(func() {
		if cl.watch != nil {
			cl.watch.Stop()
		}
		cl.dropReader()
		if cl.cancel != nil {
			cl.cancel(cause)
		}
	})
}

func closeAll(claims []*claim, cause error) {
	for _, cl := range claims {
		cl.close(cause)
	}
}

func namesOf(claims []*claim) []TopicPartition {
	tps := make([]TopicPartition, len(claims))
	for i, cl := range claims {
		tps[i] = cl.slot.tp
	}
	sortPartitions(tps)
	return tps
}
