package topic

import (
	"context"
	"time"
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

// tick visits every partition if full is set, otherwise those that have something to sync.
func (s *Set) tick(ctx context.Context, now time.Time, full bool) {
	for _, t := range *s.topics.Load() {
		for _, p := range *t.partitions.Load() {
			if ctx.Err() != nil {
				return
			}
			if full || p.Dirty() {
				_ = p.Tick(ctx, now)
			}
		}
	}
	if s.opts.Sync.Interval() > 0 {
		if err := s.journal.Sync(); err != nil {
			s.opts.Logger.Error("journal not synced", "err", err)
		}
	}
}
