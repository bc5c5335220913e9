package group

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/ottlalog/ottla/record"
)

// Poll returns the next records of the member's partitions, up to MaxPollRecords: at least one. It waits for them, and
// meanwhile takes part in rebalances, as long as the context lasts; with an error there are no records, and none are lost.
// The slice and the records are the caller's own.
//
// Poll says that all records returned before are processed: they will be committed, unless ManualCommit is set, at most
// AutoCommitInterval later if the member still polls then, or earlier when their partition moves on or the member is closed.
//
// Records of one partition come in order, without gaps but those of the log. Partitions are served in turn. For a position
// that is out of range see ResetPolicy.
//
// Errors: the context's; log.ErrClosed; ErrInCallback; ErrConcurrentPoll; ErrFenced if another member took over the
// InstanceID; an error of a commit that failed, which will be tried again. An error of a partition, such as one that matches
// log.ErrCorrupt, is returned once: the others go on with the next Poll, and that one stands still until Skip or Seek, or until
// it gets another owner.
//
// A member that was fenced joins again and goes on, with whatever it is assigned.
func (m *Member) Poll(ctx context.Context) ([]record.Record, error) {
	return m.poll(ctx, nil, m.cfg.MaxPollRecords)
}

// Records ranges over the records one by one. A record counts as processed when the loop asks for the next one, which
// otherwise is as Poll. After a break the next Poll or Records goes on with the record that follows.
//
// An error is yielded with an empty record. The loop may go on after an error of a partition or of a commit; after any other
// it ends. A panic in the loop's body fences the member at once: its partitions move on, and the record isn't committed.
func (m *Member) Records(ctx context.Context) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		var scratch [1]record.Record
		inBody := false
		defer func() {
			if inBody {
				m.abandon()
			}
		}()
		for more := true; more; {
			rec, err := m.next(ctx, scratch[:0])
			inBody = true
			more = yield(rec, err)
			inBody = false
			if err != nil && terminal(ctx, err) {
				return
			}
		}
	}
}

// next returns one record. scratch has room for it.
func (m *Member) next(ctx context.Context, scratch []record.Record) (record.Record, error) {
	recs, err := m.poll(ctx, scratch, 1)
	if err != nil {
		return record.Record{}, err
	}
	return recs[0], nil
}

// poll appends records to dst, at least one and at most limit.
func (m *Member) poll(ctx context.Context, dst []record.Record, limit int) (recs []record.Record, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := m.c
	c.mu.Lock()
	if err := m.enterLocked(); err != nil {
		c.mu.Unlock()
		return nil, err
	}
	if !m.stale && !m.auto.due && m.state == stateLive { // in the middle of a batch: Records
		if recs := m.handOutLocked(dst, limit); len(recs) > 0 {
			m.exitLocked()
			c.mu.Unlock()
			return recs, nil
		}
	}
	c.mu.Unlock()
	returned := false
	defer func() { m.exit(returned) }()
	recs, err = m.await(ctx, dst, limit)
	returned = true
	return recs, err
}

// enterLocked makes the calling goroutine the one that serves the member.
func (m *Member) enterLocked() error {
	if m.inCallback {
		return ErrInCallback
	}
	if err := m.goneLocked(); err != nil {
		return err
	}
	if m.busy {
		return ErrConcurrentPoll
	}
	m.busy = true
	m.doneLocked()
	return nil
}

func (m *Member) exitLocked() {
	m.busy = false
	m.seenLocked()
	m.c.idle.Broadcast()
}

// exit ends the service. A poll that hasn't returned, but is left by a panic or Goexit, fences the member. A Close that was
// called in a callback is done now.
func (m *Member) exit(returned bool) {
	c := m.c
	c.mu.Lock()
	m.exitLocked()
	deferred := m.closing == closingDeferred
	if (!returned || m.ousted) && m.state == stateLive && !c.closed {
		m.fenceAndUnlock()
	} else {
		c.mu.Unlock()
	}
	if deferred && returned {
		if err := m.Close(); err != nil {
			c.logger.Warn("closing a member", "err", err)
		}
	}
}

// await is poll for who serves the member.
func (m *Member) await(ctx context.Context, dst []record.Record, limit int) ([]record.Record, error) {
	for {
		if err := m.reconcile(); err != nil {
			return nil, err
		}
		if m.feed.empty() {
			m.feed.fill(m.cfg.MaxPollRecords)
		}
		m.c.mu.Lock()
		if err := m.goneLocked(); err != nil {
			m.c.mu.Unlock()
			return nil, err
		}
		recs := m.handOutLocked(dst, limit)
		err := m.failureLocked(recs)
		m.c.mu.Unlock()
		if len(recs) > 0 || err != nil {
			return recs, err
		}
		if err := m.wait(ctx); err != nil {
			return nil, err
		}
	}
}

// handOutLocked moves records from the buffer to the user.
func (m *Member) handOutLocked(dst []record.Record, limit int) []record.Record {
	if m.feed.empty() {
		return nil
	}
	return m.feed.take(dst, limit, m.validLocked, m.handedLocked)
}

// validLocked says whether what was read of a claim may be handed out.
func (m *Member) validLocked(cl *claim, from *place) bool {
	return m.ownsLocked(cl) && cl.place.Load() == from
}

// failureLocked returns the error of a partition once what was read before it has been handed out.
func (m *Member) failureLocked(recs []record.Record) error {
	if len(recs) > 0 || !m.feed.empty() {
		return nil
	}
	for len(m.feed.failures) > 0 {
		f := m.feed.failures[0]
		m.feed.failures = m.feed.failures[1:]
		if m.validLocked(f.claim, f.from) {
			f.claim.stuck = f.err
			return f.err
		}
	}
	return nil
}

// wait returns when there may be something to do.
func (m *Member) wait(ctx context.Context) error {
	for _, cl := range m.feed.order {
		cl.arm(m.wake)
	}
	select {
	case <-m.wake:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// reconcile does all that brings the member nearer to its target, and commits if that is due. It returns with nothing
// left to do, or with an error; then the rest is done by the next poll.
func (m *Member) reconcile() error {
	c := m.c
	for {
		c.mu.Lock()
		if err := m.goneLocked(); err != nil {
			c.mu.Unlock()
			return err
		}
		if lost := m.lost; len(lost) > 0 {
			m.lost = nil
			c.mu.Unlock()
			m.giveUpLost(lost)
			continue
		}
		if m.state == stateFenced {
			c.mu.Unlock()
			c.rejoin(m)
			continue
		}
		if m.auto.due {
			m.auto.due = false
			c.mu.Unlock()
			if err := m.commitDone(); err != nil && !errors.Is(err, ErrFenced) {
				return err // fenced: the next round sees to it
			}
			continue
		}
		if !m.stale {
			c.mu.Unlock()
			return nil
		}
		st := nextSteps(m.id, m.claims, m.target)
		m.stale = !st.none()
		c.mu.Unlock()
		if err := m.do(st); err != nil && !errors.Is(err, ErrFenced) {
			return err
		}
	}
}

// do gives partitions up, or else takes some.
func (m *Member) do(st steps) error {
	if len(st.revoke) > 0 {
		return m.revoke(st.revoke)
	}
	if len(st.take) > 0 {
		return m.take(st.take)
	}
	return nil
}

func (m *Member) giveUpLost(lost []*claim) {
	m.feed.drop(lost)
	closeAll(lost, ErrFenced)
	m.call(m.cfg.OnLost, namesOf(lost))
}

// revoke gives claims up: OnRevoked, then the commit of what is processed, then whoever comes next.
func (m *Member) revoke(claims []*claim) error {
	m.call(m.cfg.OnRevoked, namesOf(claims))
	err := m.commitDone()
	c := m.c
	c.mu.Lock()
	gone := claims[:0]
	for _, cl := range claims {
		if m.ownsLocked(cl) { // it may have been fenced meanwhile
			gone = append(gone, cl)
			delete(m.claims, cl.slot.tp)
			c.releaseLocked(cl, m.id)
		}
	}
	c.mu.Unlock()
	m.feed.drop(gone)
	closeAll(gone, ErrFenced)
	return err
}

// take makes the member the owner of slots that are free, finds where to go on, and tells OnAssigned.
func (m *Member) take(slots []*slot) error {
	c := m.c
	c.mu.Lock()
	got := make([]*claim, 0, len(slots))
	for _, s := range slots {
		if m.state == stateLive && !c.closed && c.table.take(s, m.id) {
			cl := &claim{slot: s, epoch: s.epoch}
			m.claims[s.tp] = cl
			got = append(got, cl)
		}
	}
	misfits := c.positionLocked(got, m.cfg.Reset)
	replace := slices.DeleteFunc(slices.Clone(got), func(cl *claim) bool { return !cl.replace })
	m.feed.order = append(m.feed.order, got...)
	c.mu.Unlock()
	m.feed.explain(misfits)
	var err error
	if len(replace) > 0 {
		err = m.commit(context.Background(), committing{upTo: (*claim).processed, among: replace})
	}
	m.call(m.cfg.OnAssigned, namesOf(got))
	return err
}

// call runs a callback of the user's. The member isn't busy meanwhile.
func (m *Member) call(f func(*Member, []TopicPartition), tps []TopicPartition) {
	if f == nil || len(tps) == 0 {
		return
	}
	c := m.c
	c.mu.Lock()
	m.exitLocked()
	m.inCallback = true
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		m.inCallback = false
		m.busy = true
		c.mu.Unlock()
	}()
	f(m, tps)
}
