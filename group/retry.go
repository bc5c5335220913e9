package group

import (
	"math/rand/v2"
	"time"
)

// retry is a record that has failed: its partition rests until it is tried again, and the others go on.
type retry struct {
	offset   int64
	attempts int
	timer    *time.Timer // ends the rest; nil before the first
}

// attempted counts one more failure of a record. What failed before at another offset is settled.
func (w *worker) attempted(tp TopicPartition, offset int64) int {
	r := w.retries[tp]
	if r == nil || r.offset != offset {
		r = &retry{offset: offset}
		w.retries[tp] = r
	}
	r.attempts++
	return r.attempts
}

// again lets the partition of the record handed out last rest, and has the record handed out again after it.
func (w *worker) again(tp TopicPartition, offset int64, err error) {
	r, m := w.retries[tp], w.m
	wait := backoff(m.cfg.Run.RetryBackoff, r.attempts)
	m.c.logger.Warn("record will be tried again", "attempts", r.attempts, "in", wait, "err", err)
	m.c.mu.Lock()
	cl := m.last
	cl.resting.Store(true)
	m.c.mu.Unlock()
	m.rewindLast(offset)
	r.timer = time.AfterFunc(wait, func() {
		m.c.mu.Lock()
		defer m.c.mu.Unlock()
		cl.resting.Store(false)
		m.nudgeLocked()
	})
}

// rewindLast has the record handed out last handed out again, unless the member has lost it or was sent elsewhere.
func (m *Member) rewindLast(offset int64) {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	if cl := m.last; m.ownsLocked(cl) && cl.handed == offset+1 {
		cl.moveLocked(offset)
	}
}

// longestBackoff is where waits stop growing.
const longestBackoff = time.Minute

// backoff returns how long to wait after so many attempts: twice as long from attempt to attempt, and a random part of the
// second half of that, so that what failed together isn't tried together.
func backoff(first time.Duration, attempts int) time.Duration {
	wait, longest := first, max(first, longestBackoff)
	for ; attempts > 1 && wait < longest; attempts-- {
		wait *= 2
	}
	wait = min(wait, longest)
	return wait - rand.N(wait/2+1)
}
