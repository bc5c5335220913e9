package group

import (
	"errors"
	"log/slog"
	"slices"

	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/partition"
	"github.com/ottlalog/ottla/record"
	"github.com/ottlalog/ottla/topic"
)

// feed reads a member's partitions in turn into a buffer. It belongs to the member's busy goroutine.
type feed struct {
	order  []*claim
	cursor int // of order: who is first next time

	recs []record.Record
	at   int   // of recs: the first that isn't handed out
	runs []run // recs from at on, by claim

	failures []failure // not yet told to the user
	policy   ResetPolicy
	logger   *slog.Logger
}

func newFeed(cfg MemberConfig, logger *slog.Logger) feed {
	return feed{policy: cfg.Reset, logger: logger}
}

// run is so many records of one claim in a row; none at all where the position has changed without a record.
type run struct {
	claim *claim
	from  *place // what they were read from
	n     int
	next  int64 // the position behind them
}

type failure struct {
	claim *claim
	from  *place
	err   error
}

func (f *feed) empty() bool { return len(f.runs) == 0 }

// drop forgets claims. Their records in the buffer are known to be dead at hand-out.
func (f *feed) drop(claims []*claim) {
	gone := func(cl *claim) bool { return slices.Contains(claims, cl) }
	if len(claims) > 16 {
		set := make(map[*claim]bool, len(claims))
		for _, cl := range claims {
			set[cl] = true
		}
		gone = func(cl *claim) bool { return set[cl] }
	}
	f.order = slices.DeleteFunc(f.order, gone)
	f.failures = slices.DeleteFunc(f.failures, func(x failure) bool { return gone(x.claim) })
	f.cursor = 0
}

// fill reads up to limit records into the empty buffer. Each partition that has something gets an equal share, and what is
// left over goes to whoever has more; who comes first changes from call to call.
func (f *feed) fill(limit int) {
	f.recs, f.at = f.recs[:0], 0
	ready := 0
	for _, cl := range f.order {
		cl.follow()
		if cl.ready() {
			ready++
		}
	}
	if ready == 0 {
		return
	}
	share := max(1, limit/ready)
	first, n := f.cursor, len(f.order)
	f.cursor = (first + 1) % n
	for progress := true; progress; share = limit {
		progress = false
		for i := range n {
			k := (first + i) % n
			cl := f.order[k]
			if !cl.ready() {
				continue
			}
			progress = f.read(cl, min(share, limit-len(f.recs))) || progress
			if len(f.recs) == limit {
				if share < limit && share == 1 {
					f.cursor = (k + 1) % n // not all had their turn
				}
				return
			}
		}
	}
}

// read gets up to limit records of one claim. It reports whether there were any.
func (f *feed) read(cl *claim, limit int) bool {
	hw := cl.slot.part.HighWatermark()
	if cl.skip.Swap(false) && cl.failed != nil {
		f.stepOver(cl)
	}
	if cl.failed != nil {
		return false
	}
	if cl.reader == nil {
		r, err := cl.slot.part.NewReader(partition.At(cl.next))
		if err != nil {
			f.trouble(cl, err)
			return false
		}
		cl.reader = r
	}
	had := len(f.recs)
	recs, err := cl.reader.Read(f.recs, limit)
	f.recs = recs
	n := len(recs) - had
	cl.next = cl.reader.Offset()
	cl.above = cl.next
	if n == 0 {
		cl.above = max(cl.next, hw) // what lies below can't be read yet: wait for more
	} else {
		f.runs = append(f.runs, run{cl, cl.from, n, recs[len(recs)-1].Offset + 1})
	}
	if err != nil {
		f.trouble(cl, err)
	}
	return n > 0
}

// stepOver goes behind the damage that stopped the claim.
func (f *feed) stepOver(cl *claim) {
	cl.failed = nil
	cl.above = cl.next
	if cl.reader == nil {
		return
	}
	from := cl.next
	if err := cl.reader.Skip(); err != nil {
		f.trouble(cl, err)
		return
	}
	if cl.next = cl.reader.Offset(); cl.next > from {
		f.logger.Warn("damage stepped over", "partition", cl.slot.tp.String(), "from", from, "to", cl.next)
		f.moved(cl)
	}
	cl.above = cl.next
}

// moved notes that a claim goes on elsewhere, without a record to tell.
func (f *feed) moved(cl *claim) { f.runs = append(f.runs, run{cl, cl.from, 0, cl.next}) }

// trouble deals with an error of reading: a position that is out of range goes where the policy says, anything else stops
// this partition alone, and is told once.
func (f *feed) trouble(cl *claim, err error) {
	if errors.Is(err, log.ErrOffsetOutOfRange) && f.reset(cl) {
		return
	}
	cl.failed = err
	if errors.Is(err, topic.ErrUnknownTopic) {
		return // deleted: about to be lost
	}
	f.logger.Error("partition can't be read", "partition", cl.slot.tp.String(), "offset", cl.next, "err", err)
	f.failures = append(f.failures, failure{cl, cl.from, err})
}

// reset brings the position back into what the partition holds, if the policy has an answer.
func (f *feed) reset(cl *claim) bool {
	from := cl.next
	to, ok := f.policy.resolve(from, cl.slot.part.StartOffset(), cl.slot.part.EndOffset())
	if !ok {
		return false
	}
	if to == from {
		return cl.reader == nil // it is in range by now; a reader that says otherwise isn't to be trusted
	}
	f.logger.Warn("position out of range: reset", "partition", cl.slot.tp.String(),
		"from", from, "to", to, "skipped", max(to-from, 0))
	cl.dropReader()
	cl.next, cl.above = to, to
	f.moved(cl)
	return true
}

// take removes up to limit records from the buffer and appends them to dst; into a nil dst it may move the buffer as
// a whole. Records of runs that are void are dropped. handed is told how far each claim has got.
func (f *feed) take(dst []record.Record, limit int, alive func(*claim, *place) bool, handed func(cl *claim, next int64)) []record.Record {
	whole := dst == nil && f.at == 0 && len(f.recs) <= limit
	for i := 0; whole && i < len(f.runs); i++ {
		whole = alive(f.runs[i].claim, f.runs[i].from)
	}
	if whole {
		dst, f.recs = f.recs, nil
		for _, r := range f.runs {
			handed(r.claim, r.next)
		}
		f.runs = f.runs[:0]
		return dst
	}
	used := 0
	for i := range f.runs {
		r := &f.runs[i]
		n := min(r.n, limit)
		if !alive(r.claim, r.from) {
			n = r.n
		} else {
			dst = append(dst, f.recs[f.at:f.at+n]...)
			limit -= n
			if n == r.n {
				handed(r.claim, r.next)
			} else if n > 0 {
				handed(r.claim, f.recs[f.at+n-1].Offset+1)
			}
		}
		clear(f.recs[f.at : f.at+n]) // the buffer keeps no record alive
		f.at += n
		if r.n -= n; r.n > 0 {
			break
		}
		used++
	}
	f.runs = slices.Delete(f.runs, 0, used)
	return dst
}
