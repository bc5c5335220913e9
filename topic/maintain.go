package topic

import (
	"context"
	"time"

	"github.com/ottlalog/ottla/partition"
)

// tickInterval is how often partitions do what is due besides syncs.
const tickInterval = time.Second

// maintain does for all partitions what is due with time: syncs, sealing, rolling, retention. A failure is the partition's:
// it is logged there and refuses appends.
func (s *Set) maintain(ctx context.Context) {
	every := tickInterval
	if d := s.opts.Sync.Interval(); d > 0 {
		every = min(every, d)
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			full := now.Sub(last) >= tickInterval
			if full {
				last = now
			}
			s.tick(ctx, now, full)
		}
	}
}

// tick visits every partition if full is set, otherwise those that have something to sync: some at a time, as one slow sync
// after another would take longer than the interval.
func (s *Set) tick(ctx context.Context, now time.Time, full bool) {
	var due []*partition.Partition
	for _, t := range *s.topics.Load() {
		for _, p := range *t.partitions.Load() {
			if full || p.Dirty() {
				due = append(due, p)
			}
		}
	}
	eachOf(len(due), func(i int) {
		if ctx.Err() == nil {
			_ = due[i].Tick(ctx, now)
		}
	})
	s.syncJournal(full)
}

// syncJournal makes commits of groups durable that didn't wait for it. It also heals a journal that has failed, which drops
// the change whose outcome was unknown: what is here and what the next Open finds agree again.
func (s *Set) syncJournal(full bool) {
	doubt := full && s.doubt.Swap(false)
	if !doubt && s.opts.Sync.Interval() == 0 {
		return
	}
	err := s.journal.Sync()
	if err != nil && doubt {
		s.doubt.Store(true)
	}
	if err != nil && full {
		s.opts.Logger.Error("journal not synced", "err", err)
	}
}
