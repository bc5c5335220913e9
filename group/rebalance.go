package group

import (
	"errors"
	"runtime/debug"
	"time"
)

// mergeWindow is the least time between two targets of a group: what changes meanwhile is answered by one. The first
// change after a quiet time is answered at once.
const mergeWindow = 10 * time.Millisecond

// planning is the state of computing targets.
type planning struct {
	dirty   bool // something has changed since the last target was begun
	running bool
	last    time.Time // when the last target was done
	timer   *time.Timer
	waiting bool // for timer
}

// rebalance computes a new target if something has changed, unless one is being computed or due soon.
func (c *coordinator) rebalance() {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &c.plan
	for p.dirty && !p.running && !p.waiting && !c.closed {
		if wait := mergeWindow - now().Sub(p.last); wait > 0 && !p.last.IsZero() {
			c.rebalanceInLocked(wait)
			return
		}
		p.dirty, p.running = false, true
		subs, partitions, by := c.inputLocked()
		c.mu.Unlock()
		a := c.assign(by, subs, partitions)
		c.mu.Lock()
		p.running, p.last = false, now()
		if !c.closed {
			c.installLocked(a)
		}
	}
}

func (c *coordinator) rebalanceInLocked(wait time.Duration) {
	c.plan.waiting = true
	if c.plan.timer == nil {
		c.plan.timer = time.AfterFunc(wait, func() {
			c.mu.Lock()
			c.plan.waiting = false
			c.mu.Unlock()
			c.rebalance()
		})
		return
	}
	c.plan.timer.Reset(wait)
}

// inputLocked returns what an assignor is asked, and the assignor of the oldest member.
func (c *coordinator) inputLocked() ([]Subscription, map[string]int, Assignor) {
	have := c.table.claimants()
	subs := make([]Subscription, 0, len(c.members))
	var oldest *Member
	for id, m := range c.members {
		subs = append(subs, Subscription{
			Member: id, Instance: m.cfg.InstanceID, Topics: m.cfg.Topics, Owned: have[id], Generation: int(c.epoch),
		})
		if oldest == nil || m.number < oldest.number {
			oldest = m
		}
	}
	partitions := make(map[string]int, len(c.topics))
	for name, t := range c.topics {
		partitions[name] = t.partitions
	}
	if oldest == nil {
		return subs, partitions, Sticky()
	}
	return subs, partitions, oldest.cfg.Assignor
}

// assign asks the assignor. The answer of one that panics or breaks the rules is replaced by Sticky's.
func (c *coordinator) assign(by Assignor, subs []Subscription, partitions map[string]int) Assignment {
	a, err := tryAssign(by, subs, partitions)
	if err != nil {
		c.logger.Error("assignor failed: sticky takes its place", "err", err)
		a = Sticky().Assign(subs, partitions)
	}
	return a
}

// tryAssign asks an assignor of the user's on a goroutine of its own, which it may even end.
func tryAssign(by Assignor, subs []Subscription, partitions map[string]int) (Assignment, error) {
	switch by.(type) {
	case stickyAssignor, rangeAssignor, roundRobinAssignor: // ours are tested to keep the rules
		return by.Assign(subs, partitions), nil
	}
	var a Assignment
	err := errors.New("the assignor ended its goroutine")
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				err = &PanicError{Value: p, Stack: debug.Stack()}
			}
		}()
		a = by.Assign(subs, partitions)
		err = Validate(a, subs, partitions)
	}()
	<-done
	return a, err
}

// installLocked makes an assignment the target. Members and topics may have changed since it was begun; then another one
// is due.
func (c *coordinator) installLocked(a Assignment) {
	c.epoch++
	targets := c.table.aim(a)
	for id, m := range c.members {
		m.target = targets[id]
		if !nextSteps(id, m.claims, m.target).none() {
			m.nudgeLocked()
		}
	}
}
