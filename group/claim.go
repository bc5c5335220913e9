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
	committed int64 // as known to the journal; −1: its entry there is to be replaced, whatever it is
	touched   bool  // in the member's list of claims with handed beyond done
	stuck     bool  // failed, and the user was told
	run       context.Context
	cancel    context.CancelCauseFunc // ends run; nil without one

	skip atomic.Bool // the user wants to step over what failed

	// The busy goroutine's, or whoever has taken the claim away from the member.
	reader  *partition.Reader // opened when there is something to read
	next    int64             // offset to read next
	above   int64             // nothing to read unless the high watermark is above
	failed  error             // why it isn't read
	watch   *notify.Watch
	watched int64 // what watch waits to be passed
	closed  sync.Once
}

// ready says whether there is something to read.
func (cl *claim) ready() bool {
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
		if cl.reader != nil {
			_ = cl.reader.Close() // read-only: nothing can be lost
		}
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
