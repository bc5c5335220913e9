package group

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/ottlalog/ottla/record"
)

// Run joins the group and calls handler for each record, one at a time, in the order of Records, until the context ends, the
// broker is closed, or the handler fails. It returns why: the context's error, log.ErrClosed, or the handler's error,
// wrapped with the record's place. The member has left by then, and what was handled is committed.
//
// A record counts as processed when handler has returned nil; that is committed at most AutoCommitInterval later, or when
// its partition moves on. The context that handler gets ends with that of Run, and when the member loses the partition,
// with ErrFenced as context.Cause: what handler returns then doesn't count, another member has the record, and Run goes on.
//
// A panic of handler or of a callback makes the member leave without the record being committed, and Run returns a
// *PanicError; a Goexit makes it leave too. Errors of single partitions and of commits are logged, and returned in the end: a
// partition that can't be read stands still and the others go on.
//
// Run returns ErrInvalidMember for a configuration with ManualCommit, since handler has nothing to commit with.
func (g *Group) Run(ctx context.Context, cfg MemberConfig, handler func(ctx context.Context, rec record.Record) error) error {
	if handler == nil || cfg.ManualCommit {
		return fmt.Errorf("%w: Run needs a handler, and commits itself", ErrInvalidMember)
	}
	m, err := g.Join(ctx, cfg)
	if err != nil {
		return err
	}
	r := &runner{m: m, handler: handler}
	defer r.end()
	err = r.protect(func() error { return r.loop(ctx) })
	if more := errors.Join(append(r.failures, r.end())...); more != nil {
		return errors.Join(err, more)
	}
	return err
}

// runner is one call of Run.
type runner struct {
	m        *Member
	handler  func(context.Context, record.Record) error
	handled  bool // the handler has done with what was handed out last
	ended    bool
	failures []error // of partitions and commits, the first few
}

const maxFailures = 16

// end leaves the group, once. Panics of callbacks are errors here.
func (r *runner) end() error {
	if r.ended {
		return nil
	}
	r.ended = true
	settle := func() {
		if r.handled {
			r.m.doneLocked()
		}
	}
	err := r.protect(func() error { return r.m.leave(settle) })
	if errors.Is(err, errClosed) {
		return nil
	}
	return err
}

// protect makes an error of a panic.
func (r *runner) protect(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	return f()
}

func (r *runner) loop(ctx context.Context) error {
	var scratch [1]record.Record
	for {
		rec, err := r.m.next(ctx, scratch[:0])
		switch {
		case err == nil:
		case terminal(ctx, err):
			return err
		default:
			r.note(err)
			continue
		}
		r.handled = false
		if err := r.handle(ctx, rec); err != nil {
			return err
		}
		r.handled = true
	}
}

func (r *runner) handle(ctx context.Context, rec record.Record) error {
	place := func(err error) error {
		return fmt.Errorf("topic %q partition %d offset %d: handler: %w", rec.Topic, rec.Partition, rec.Offset, err)
	}
	err := r.protect(func() error { return r.handler(r.m.contextFor(ctx), rec) })
	var panicked *PanicError
	if errors.As(err, &panicked) {
		return place(err)
	}
	if err != nil && !r.m.ownsLast() && ctx.Err() == nil {
		r.m.c.logger.Warn("handler failed after the partition was lost", "err", place(err))
		return nil
	}
	if err == nil {
		return nil
	}
	return place(err)
}

// note keeps an error that doesn't end Run.
func (r *runner) note(err error) {
	r.m.c.logger.Error("group goes on after an error", "err", err)
	if len(r.failures) < maxFailures {
		r.failures = append(r.failures, err)
	}
}
