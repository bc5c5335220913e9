package group

import (
	"errors"
	"fmt"

	"github.com/ottlalog/ottla/internal/journal"
	"github.com/ottlalog/ottla/partition"
	"github.com/ottlalog/ottla/topic"
)

// unknownEpoch stands for a leader epoch that isn't known.
const unknownEpoch = -1

// store writes committed positions. All are stored or none, but for those of topics
// that have just been deleted, which are left out with an ErrFenced.
func (c *coordinator) store(marks []mark) error {
	offsets := make([]journal.Offset, len(marks))
	for i, mk := range marks {
		offsets[i] = offsetOf(mk.claim.slot, mk.to)
	}
	err := c.write(offsets)
	if !errors.Is(err, journal.ErrUnknownTopic) {
		return err
	}
	var there []journal.Offset
	c.set.journal.View(func(st *journal.State) {
		for _, o := range offsets {
			if st.Topics[o.TopicID] != nil {
				there = append(there, o)
			}
		}
	})
	fenced := fmt.Errorf("%w: a topic was deleted: %w", ErrFenced, err)
	return errors.Join(fenced, c.write(there))
}

func offsetOf(s *slot, next int64) journal.Offset {
	return journal.Offset{
		TopicPartition: journal.TopicPartition{TopicID: s.topicID, Partition: s.tp.Partition},
		Committed:      journal.Committed{Next: next, Epoch: unknownEpoch},
	}
}

func (c *coordinator) write(offsets []journal.Offset) error {
	if len(offsets) == 0 {
		return nil
	}
	return c.record(journal.Event{OffsetsCommitted: &journal.OffsetsCommitted{Group: c.name, Offsets: offsets}})
}

// record writes an event: durably where the sync policy says so.
func (c *coordinator) record(event journal.Event) error {
	write := c.set.journal.Write
	if c.set.opts.Sync.Always() {
		write = c.set.journal.Append
	}
	err := write(event)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, journal.ErrClosed):
		return errClosed
	}
	return fmt.Errorf("group %q: %w", c.name, err)
}

// decideStarts commits where the group begins in topics that are new to it: that no member reads and in which nothing
// is committed. The log start needs no deciding, as it is where a partition begins for which nothing was decided.
// The turn to join is held, and the table is up to date.
func (c *coordinator) decideStarts(cfg MemberConfig) error {
	if cfg.Start == partition.Earliest {
		return nil
	}
	var offsets []journal.Offset
	for _, name := range cfg.Topics {
		t, err := c.set.topics.Topic(name)
		if errors.Is(err, topic.ErrUnknownTopic) {
			continue
		}
		if err != nil {
			return err
		}
		if c.knows(t) {
			continue
		}
		for i := range t.Partitions() {
			if o, ok := c.resolve(t, i, cfg.Start); ok {
				offsets = append(offsets, o)
			}
		}
	}
	return c.write(offsets)
}

// knows reports whether a member reads the topic or something is committed in it.
func (c *coordinator) knows(t *topic.Topic) (known bool) {
	c.mu.Lock()
	known = c.topics[t.Name()].id == t.ID()
	c.mu.Unlock()
	c.set.journal.View(func(st *journal.State) {
		for tp := range st.Groups[c.name] {
			known = known || tp.TopicID == t.ID()
		}
	})
	return known
}

// resolve returns where a start lies in a partition. One that can't be asked is left to begin at its beginning.
func (c *coordinator) resolve(t *topic.Topic, number int, start partition.Start) (journal.Offset, bool) {
	p := t.Partition(number)
	asked, err := p.Resolve(start)
	if err != nil {
		c.logger.Warn("start not found: the partition is read from its beginning",
			"topic", t.Name(), "partition", number, "start", start.String(), "err", err)
		return journal.Offset{}, false
	}
	offset, _ := ResetEarliest.resolve(asked, p.StartOffset(), p.EndOffset()) // the nearest
	if offset != asked {
		c.logger.Warn("start out of range: reset",
			"topic", t.Name(), "partition", number, "from", asked, "to", offset)
	}
	return offsetOf(&slot{topicID: t.ID(), tp: TopicPartition{t.Name(), number}}, offset), true
}

// misfit is a claim that doesn't begin at what is committed: that is out of range, or the partition can't be asked.
type misfit struct {
	claim     *claim
	committed int64
	err       error
}

// positionLocked sets where claims begin: at what is committed, or where the policy says if the partition hasn't got that any
// more. Then what is committed is to be replaced, before the log's end gets there or moves on; but not by the log start,
// where everybody begins who finds the same.
func (c *coordinator) positionLocked(claims []*claim, policy ResetPolicy) (misfits []misfit) {
	c.set.journal.View(func(st *journal.State) {
		committed := st.Groups[c.name]
		for _, cl := range claims {
			s := cl.slot
			at, known := committed[journal.TopicPartition{TopicID: s.topicID, Partition: s.tp.Partition}]
			next := at.Next
			start, err := s.part.Resolve(partition.Earliest)
			end := s.part.EndOffset()
			switch to, ok := policy.resolve(next, start, end); {
			case err != nil:
				misfits = append(misfits, misfit{cl, next, err})
			case !known:
				next = start
			case !ok:
				misfits = append(misfits, misfit{cl, next, outOfRange(s.tp, next, start, end)})
			case to != next:
				misfits = append(misfits, misfit{cl, next, nil})
				cl.replace = to < next || to > start
				next = to
			}
			cl.next, cl.above, cl.handed, cl.done, cl.committed = next, next, next, next, next
			if known && !cl.replace {
				cl.committed = min(next, at.Next) // a log start that has passed it is there to be committed
			}
		}
	})
	return misfits
}

// explain tells of misfits.
func (f *feed) explain(misfits []misfit) {
	for _, x := range misfits {
		if x.err != nil {
			f.trouble(x.claim, x.err)
			continue
		}
		f.logger.Warn("committed offset out of range: reset", "partition", x.claim.slot.tp.String(),
			"from", x.committed, "to", x.claim.next, "skipped", max(x.claim.next-x.committed, 0))
	}
}
