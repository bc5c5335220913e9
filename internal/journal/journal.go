package journal

import (
	"errors"
	"fmt"
	"sync"

	"github.com/ottlalog/ottla/internal/vfs"
)

// Journal is an open journal. It is safe for concurrent use.
type Journal struct {
	fs   vfs.FS
	opts Options

	// turn is held, by a value in it, by the one goroutine that writes. Waiting for it is waiting on a channel, as it may
	// last as long as a sync. It guards the fields down to mu. Lock order: turn before mu or state, which never meet.
	turn   chan struct{}
	folder listing     // its folder only
	gen    *generation // nil after a failure, until healed, and after Close
	cause  error       // the first failure since the journal was last sound; nil: it is
	next   uint64      // number of the next generation
	due    int64       // no snapshot while the file is smaller

	mu struct {
		sync.Mutex
		queue  []*call // calls that no turn has taken up yet
		closed bool
	}

	// state changes under turn and the lock; whoever has the turn reads it without.
	state struct {
		sync.RWMutex
		*State
	}
}

// call is one call of Append, Write or Sync.
type call struct {
	payload []byte // nil: no events
	events  []Event
	durable bool
	err     error         // before done
	done    chan struct{} // closed when the call is settled
}

func newJournal(fsys vfs.FS, opts Options, l listing, s *State) *Journal {
	j := &Journal{fs: fsys, opts: opts.withDefaults(), folder: l, next: l.next(), turn: make(chan struct{}, 1)}
	j.state.State = s
	return j
}

// Append writes events, which are durable and visible when it returns. All events of one call are stored, or none.
// Calls at the same time share a sync, and its failure. Without events it is Sync.
//
// An event that doesn't fit the state fails the call with ErrInvalid, ErrUnknownTopic, ErrUnknownPartition or
// ErrTopicExists, and changes nothing. After a failure of the disk the journal tries to heal by writing a new
// generation, at once and again at each later call; an error that doesn't match ErrOutcomeUnknown means that the
// events are not stored.
func (j *Journal) Append(events ...Event) error {
	return j.submit(&call{durable: true}, events)
}

// Write is Append that asks for no sync, though it may wait for one that others asked for: the events are visible when
// it returns and survive the process, and are durable after the next Append or Sync.
func (j *Journal) Write(events ...Event) error {
	if len(events) == 0 {
		return nil
	}
	return j.submit(&call{}, events)
}

// Sync makes durable what was written.
func (j *Journal) Sync() error {
	return j.submit(&call{durable: true}, nil)
}

// View calls read with the state as of now. It doesn't wait for the disk. The state must not be changed, nor used after
// the return, and read must not call the journal.
func (j *Journal) View(read func(*State)) {
	j.state.RLock()
	defer j.state.RUnlock()
	read(j.state.State)
}

// Close syncs what was written and gives up all handles, whatever it returns. Calls that have begun are served, later
// ones get ErrClosed; View goes on. Closing again does nothing.
func (j *Journal) Close() error {
	j.mu.Lock()
	j.mu.closed = true
	last := &call{durable: true, done: make(chan struct{})}
	j.mu.queue = append(j.mu.queue, last)
	j.mu.Unlock()

	j.turn <- struct{}{}
	defer func() { <-j.turn }()
	if j.gen == nil && j.cause == nil { // closed before; no other call can be in the queue
		return nil
	}
	j.serve()
	j.cause = nil
	if j.gen == nil {
		return last.err
	}
	if err := j.gen.mark(j.state.Seq); err != nil {
		j.opts.Logger.Warn("journal: end not marked", "file", fileIn(j.gen.dir), "err", err)
	}
	err := errors.Join(last.err, j.gen.close())
	j.gen = nil
	return err
}

// submit queues a call, and waits until it is settled or it is its goroutine's turn to settle all that are queued.
func (j *Journal) submit(c *call, events []Event) (err error) {
	if len(events) > 0 {
		if c.payload, c.events, err = prepare(events); err != nil {
			return err
		}
	}
	c.done = make(chan struct{})
	j.mu.Lock()
	if j.mu.closed {
		j.mu.Unlock()
		return ErrClosed
	}
	j.mu.queue = append(j.mu.queue, c)
	j.mu.Unlock()

	select {
	case <-c.done:
	case j.turn <- struct{}{}:
		j.serve()
		<-j.turn
	}
	return c.err
}

// serve settles all queued calls. The caller has the turn.
func (j *Journal) serve() {
	j.mu.Lock()
	calls := j.mu.queue
	j.mu.queue = nil
	j.mu.Unlock()

	d := draft{state: j.state.State}
	var fit []*call
	for _, c := range calls {
		if c.err = d.admit(c.events); c.err == nil {
			fit = append(fit, c)
		}
	}
	if len(fit) > 0 {
		err := j.commit(fit)
		for _, c := range fit {
			c.err = err
		}
	}
	for _, c := range calls {
		close(c.done)
	}
	j.snapshotIfDue()
}

// commit writes the calls in one batch, syncs it if one of them asks for that, and applies them: all or none.
func (j *Journal) commit(calls []*call) error {
	if err := j.heal(); err != nil {
		return err
	}
	var frames [][]byte
	durable := false
	for _, c := range calls {
		durable = durable || c.durable
		if c.payload != nil {
			f := frame{kind: KindCall, seq: j.state.Seq + uint64(len(frames)) + 1, synced: j.gen.synced, payload: c.payload}
			frames = append(frames, f.encode())
		}
	}
	var err error
	if len(frames) > 0 {
		err = j.gen.write(frames)
	}
	if err == nil && durable {
		err = j.gen.sync()
	}
	if err != nil {
		j.fail(err)
		if j.heal() != nil {
			return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
		}
		return fmt.Errorf("journal: failed, and healed without this call: %w", err)
	}
	j.state.Lock()
	defer j.state.Unlock()
	j.state.Seq += uint64(len(frames))
	for _, c := range calls {
		for _, e := range c.events {
			j.state.apply(e)
		}
	}
	return nil
}
