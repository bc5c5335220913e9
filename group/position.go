package group

import (
	"fmt"

	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/partition"
)

// ResetPolicy says where a member goes on whose position is out of its partition's range: below, where retention has passed
// it by, or above, where the log has lost its end. The logger hears of it with the range that is skipped.
type ResetPolicy int

const (
	// ResetEarliest goes on at the log start, and from above at the log end: what is still there comes once.
	ResetEarliest ResetPolicy = iota
	// ResetLatest goes on at the log end.
	ResetLatest
	// ResetNone stops the partition with an error of Poll that is a *log.OffsetError, until Seek.
	ResetNone
)

// resolve returns where to go on instead of an offset; that itself if it is in range. ok is false if that is not to be decided here.
func (p ResetPolicy) resolve(offset, start, end int64) (to int64, ok bool) {
	switch {
	case start <= offset && offset <= end:
		return offset, true
	case p == ResetNone:
		return 0, false
	case offset < start && p == ResetEarliest:
		return start, true
	}
	return end, true
}

// Seek moves the member's position in a partition that it owns: from the next Poll on nothing of the old position is handed
// out. The new position counts as processed, whether it lies ahead or back: it replaces what is committed at the next commit.
// Starts other than offsets mean what they mean now. The newest of several calls counts. A partition that Poll has returned
// an error for is read again.
//
// ErrFenced if the member doesn't own the partition; a *log.OffsetError, and nothing is moved, if it doesn't hold the offset;
// errors of looking up a time. Only that reads the disk.
func (m *Member) Seek(topic string, number int, to partition.Start) error {
	tp := TopicPartition{topic, number}
	m.c.mu.Lock()
	cl, err := m.claimLocked(tp)
	if err != nil {
		m.c.mu.Unlock()
		return err
	}
	cl.seeks++
	mine := cl.seeks
	m.c.mu.Unlock()

	p := cl.slot.part
	next, err := p.Resolve(to)
	if err != nil {
		return err
	}
	if start, end := p.StartOffset(), p.HighWatermark(); next < start || next > end {
		return outOfRange(tp, next, start, end)
	}

	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	if now, err := m.claimLocked(tp); err != nil {
		return err
	} else if now != cl {
		return fmt.Errorf("%w: %v", ErrFenced, tp)
	}
	if mine < cl.sought {
		return nil
	}
	cl.sought = mine
	cl.done, cl.committed, cl.replace = next, next, true
	cl.moveLocked(next)
	if !m.cfg.ManualCommit {
		m.auto.startLocked()
	}
	m.nudgeLocked()
	return nil
}

// Pause stops handing out records of partitions that the member owns, those already read included, until Resume or until they
// get another owner. It goes on owning them, and keeps its place. Poll is due as ever, and waits if nothing else is there.
// ErrFenced, and nothing is paused, if it doesn't own one of them.
func (m *Member) Pause(ps ...TopicPartition) error {
	return m.each(ps, func(cl *claim) {
		if !cl.paused.Swap(true) && cl.stuck == nil {
			cl.moveLocked(cl.handed)
		}
	})
}

// Resume goes on with paused partitions, where they were. ErrFenced, and nothing is resumed, if the member doesn't own one of them.
func (m *Member) Resume(ps ...TopicPartition) error {
	return m.each(ps, func(cl *claim) { cl.paused.Store(false) })
}

// each does something with the claims of partitions, or with none if one of them isn't the member's.
func (m *Member) each(ps []TopicPartition, do func(*claim)) error {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	claims := make([]*claim, len(ps))
	for i, tp := range ps {
		var err error
		if claims[i], err = m.claimLocked(tp); err != nil {
			return err
		}
	}
	for _, cl := range claims {
		do(cl)
	}
	m.nudgeLocked()
	return nil
}

// claimLocked returns the claim of a partition that the member owns.
func (m *Member) claimLocked(tp TopicPartition) (*claim, error) {
	if err := m.goneLocked(); err != nil {
		return nil, err
	}
	cl := m.claims[tp]
	if cl == nil {
		return nil, fmt.Errorf("%w: %v", ErrFenced, tp)
	}
	return cl, nil
}

func outOfRange(tp TopicPartition, asked, start, end int64) error {
	return fmt.Errorf("topic %q partition %d: %w", tp.Topic, tp.Partition, &log.OffsetError{Asked: asked, Start: start, End: end})
}
