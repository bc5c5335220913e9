package group

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ottlalog/ottla/record"
)

// autoCommit makes a commit due some time after something became worth one.
type autoCommit struct {
	member *Member
	timer  *time.Timer
	armed  bool
	due    bool
}

func (a *autoCommit) startLocked() {
	m := a.member
	if a.armed || a.due || m.state != stateLive || m.c.closed {
		return
	}
	a.armed = true
	if a.timer == nil {
		a.timer = time.AfterFunc(m.cfg.AutoCommitInterval, a.fire)
	} else {
		a.timer.Reset(m.cfg.AutoCommitInterval)
	}
}

func (a *autoCommit) stopLocked() {
	if a.timer != nil {
		a.timer.Stop()
	}
	a.armed, a.due = false, false
}

func (a *autoCommit) fire() {
	m := a.member
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	a.armed = false
	if m.state == stateLive && !m.c.closed {
		a.due = true
		m.wakeUp()
	}
}

// Commit commits the positions behind everything that was handed out so far. The context ends waiting for another commit of
// the same member, not the writing.
//
// ErrFenced if the member was fenced, and nothing is committed. If it has lost single partitions the error is ErrFenced
// too and names one; the others are committed. After an error of the disk nothing is committed; Commit may be called again.
func (m *Member) Commit(ctx context.Context) error {
	return m.commit(ctx, committing{upTo: (*claim).position, reportLost: true})
}

// CommitRecords commits the positions behind the records given, and so all before them in their partitions: all are
// committed or none. ErrFenced if the member doesn't own one of their partitions, or hasn't handed out the record since it
// owns it, or since a Seek. A position that is behind what is committed changes nothing.
func (m *Member) CommitRecords(ctx context.Context, recs ...record.Record) error {
	next := make(map[TopicPartition]int64)
	for i := range recs {
		tp := TopicPartition{recs[i].Topic, recs[i].Partition}
		next[tp] = max(next[tp], recs[i].Offset+1)
	}
	return m.CommitOffsets(ctx, next)
}

// CommitOffsets commits positions: offsets of the next record to read. It is else as CommitRecords; so a position can't be
// beyond Position, which Seek moves.
func (m *Member) CommitOffsets(ctx context.Context, next map[TopicPartition]int64) error {
	if len(next) == 0 {
		return ctx.Err()
	}
	return m.commit(ctx, committing{exact: next})
}

// commitDone commits what is processed, unless that is the user's to do.
func (m *Member) commitDone() error {
	if m.cfg.ManualCommit {
		return nil
	}
	err := m.commit(context.Background(), committing{upTo: (*claim).processed})
	if err != nil {
		m.c.mu.Lock()
		m.auto.startLocked() // to try again
		m.c.mu.Unlock()
	}
	return err
}

// committing says what a commit is about: either of the first two.
type committing struct {
	upTo       func(*claim) int64
	exact      map[TopicPartition]int64
	among      []*claim // upTo of these alone; nil: of all
	reportLost bool     // records handed out from partitions since lost are an error
}

// mark is a position to be committed of a pinned claim.
type mark struct {
	claim  *claim
	to     int64
	sought int // the claim's: a Seek that comes meanwhile is to replace what is committed now
}

func (m *Member) commit(ctx context.Context, what committing) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case m.commits <- struct{}{}:
		defer func() { <-m.commits }()
	case <-ctx.Done():
		return ctx.Err()
	}
	m.c.mu.Lock()
	marks, err := m.pinLocked(what)
	m.c.mu.Unlock()
	if len(marks) == 0 {
		return err
	}
	return errors.Join(err, m.settle(marks))
}

// pinLocked checks that the member owns what is to be committed, and pins it.
func (m *Member) pinLocked(what committing) ([]mark, error) {
	if m.c.closed || m.state == stateClosed {
		return nil, errClosed
	}
	if m.state == stateFenced {
		return nil, fmt.Errorf("%w: member %q of group %q", ErrFenced, m.id, m.c.name)
	}
	var marks []mark
	var err error
	if what.exact != nil {
		if marks, err = m.exactLocked(what.exact); err != nil {
			return nil, err
		}
	} else {
		for _, cl := range m.claims {
			if to := what.upTo(cl); cl.dueLocked(to) && (what.among == nil || slices.Contains(what.among, cl)) {
				marks = append(marks, mark{cl, to, cl.sought})
			}
		}
	}
	if what.reportLost {
		err = uncommitted(m.lost)
	}
	pinned := marks[:0]
	for _, mk := range marks {
		if m.c.table.pin(mk.claim.slot, m.id, mk.claim.epoch) {
			pinned = append(pinned, mk)
		} else {
			err = fmt.Errorf("%w: %v", ErrFenced, mk.claim.slot.tp)
		}
	}
	return pinned, err
}

func (m *Member) exactLocked(exact map[TopicPartition]int64) ([]mark, error) {
	var marks []mark
	for tp, to := range exact {
		cl := m.claims[tp]
		if cl == nil || to > cl.handed {
			return nil, fmt.Errorf("%w: %v, offset %d", ErrFenced, tp, to-1)
		}
		if cl.dueLocked(to) && to >= 0 {
			marks = append(marks, mark{cl, to, cl.sought})
		}
	}
	return marks, nil
}

// settle writes pinned positions to the journal and unpins them.
func (m *Member) settle(marks []mark) error {
	c := m.c
	err := c.store(marks)
	c.mu.Lock()
	for _, mk := range marks {
		if cl := mk.claim; err == nil && cl.sought == mk.sought {
			cl.committed, cl.replace = mk.to, false
		}
		if c.table.unpin(mk.claim.slot) {
			c.wakeLocked(mk.claim.slot.target)
		}
	}
	unused := c.users == 0
	c.mu.Unlock()
	if unused {
		c.set.forget(c)
	}
	return err
}
