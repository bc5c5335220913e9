package group

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/ottlalog/ottla/record"
)

// Handler handles one record for Run. Its context ends when the member has lost the record's partition, with ErrFenced as
// context.Cause: what it returns then doesn't count, as another member has the record. It ends too with Run's context, or
// RunConfig.DrainTimeout after that.
type Handler = func(ctx context.Context, rec record.Record) error

// Run joins the group and calls handler for each record until the context ends, the broker is closed, or a record fails for
// good. It returns why: the context's error, log.ErrClosed, or the handler's error, wrapped with the record's place. Run has
// left the group by then, all handlers have returned, and what was handled is committed.
//
// Records of a partition are handled one after the other, in order. RunConfig says how many partitions are handled at the same
// time, and what becomes of a record whose handler returns an error or panics: it is tried again, then put into a dead-letter
// topic, or else it ends Run. A panic is a *PanicError there.
//
// A record counts as processed when handler has returned nil, or when it is in the dead-letter topic; that is committed at
// most AutoCommitInterval later, or when its partition moves on. No commit passes a record that isn't processed. A handler that
// takes longer than MaxPollInterval loses its partitions.
//
// A panic of a callback and a Goexit make Run end too. Errors of single partitions and of commits are logged, and returned in
// the end: a partition that can't be read stands still and the others go on.
//
// Run returns ErrInvalidMember for a configuration with ManualCommit, since handler has nothing to commit with, and
// topic.ErrUnknownTopic if there is no dead-letter topic.
func (g *Group) Run(ctx context.Context, cfg MemberConfig, handler Handler) error {
	if handler == nil || cfg.ManualCommit {
		return fmt.Errorf("%w: Run needs a handler, and commits itself", ErrInvalidMember)
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	letters, err := g.openDeadLetters(cfg.Run.DeadLetter)
	if err != nil {
		return err
	}
	defer letters.close()
	inner, stop := context.WithCancel(ctx) // ends all workers when one fails
	defer stop()
	work, release := outlast(inner, cfg.Run.DrainTimeout)
	defer release()
	members, err := g.join(inner, cfg, cfg.instances()...)
	if err != nil {
		return err
	}
	workers := make([]*worker, len(members))
	for i, m := range members {
		workers[i] = &worker{m: m, handler: handler, letters: letters, work: work, retries: make(map[TopicPartition]*retry)}
		defer workers[i].end() // also if this goroutine is ended
	}
	errs := runAll(inner, stop, workers)
	if ctx.Err() != nil {
		errs = append([]error{ctx.Err()}, errs...)
	}
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}

// runAll runs the workers, a single one on this goroutine, and returns their errors.
func runAll(ctx context.Context, stop func(), workers []*worker) (errs []error) {
	if len(workers) == 1 {
		return workers[0].run(ctx)
	}
	results := make([][]error, len(workers))
	var wg sync.WaitGroup
	for i, w := range workers {
		wg.Go(func() {
			defer stop()
			defer w.end()
			results[i] = []error{errGoexit}
			results[i] = w.run(ctx)
		})
	}
	wg.Wait()
	for _, err := range slices.Concat(results...) {
		if !errors.Is(err, errClosed) || !slices.Contains(errs, err) {
			errs = append(errs, err)
		}
	}
	return errs
}

var errGoexit = errors.New("the handler ended its goroutine")

// outlast returns a context that ends d after the one given, or when it is released.
func outlast(ctx context.Context, d time.Duration) (_ context.Context, release func()) {
	if d == 0 {
		return ctx, func() {}
	}
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-ctx.Done():
		case <-work.Done():
			return
		}
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel(ctx.Err())
		case <-work.Done():
		}
	})
	return work, func() {
		cancel(nil)
		wg.Wait()
	}
}

// worker is one member of a Run, with the goroutine that polls and handles for it.
type worker struct {
	m       *Member
	handler Handler
	letters *deadLetters    // nil: there is no dead-letter topic
	work    context.Context // of handlers

	retries  map[TopicPartition]*retry // of records that have failed and aren't settled
	failures []error                   // of partitions and commits, the first few
	ended    bool
}

const maxFailures = 16

// run works until the context ends, and leaves the group. It returns what went wrong.
func (w *worker) run(ctx context.Context) (errs []error) {
	add := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	add(protect(func() error { return w.loop(ctx) }))
	leaving := w.end()
	errs = append(errs, w.failures...)
	add(leaving)
	return errs
}

// end leaves the group, once. Panics of callbacks are errors here.
func (w *worker) end() error {
	if w.ended {
		return nil
	}
	w.ended = true
	for _, r := range w.retries {
		if r.timer != nil {
			r.timer.Stop()
		}
	}
	err := protect(w.m.Close)
	if errors.Is(err, errClosed) {
		return nil
	}
	return err
}

// protect makes an error of a panic.
func protect(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	return f()
}

// loop returns nil when the context has ended.
func (w *worker) loop(ctx context.Context) error {
	var scratch [1]record.Record
	for {
		rec, err := w.m.next(ctx, scratch[:0])
		switch {
		case err == nil:
			if err := w.handle(ctx, rec); err != nil {
				return err
			}
		case ctx.Err() != nil:
			return nil
		case terminal(ctx, err):
			return err
		default:
			w.note(err)
		}
	}
}

// handle sees to it that the record is processed or comes again. It returns what ends Run.
func (w *worker) handle(ctx context.Context, rec record.Record) error {
	settled := false
	defer func() { // also after a Goexit
		if !settled {
			w.m.rewindLast(rec.Offset)
		}
	}()
	tp := TopicPartition{rec.Topic, rec.Partition}
	err := protect(func() error { return w.handler(w.m.contextFor(w.work), rec) })
	if err == nil {
		settled = true
		delete(w.retries, tp)
		return nil
	}
	err = fmt.Errorf("topic %q partition %d offset %d: handler: %w", rec.Topic, rec.Partition, rec.Offset, err)
	switch {
	case w.work.Err() != nil && errors.Is(err, w.work.Err()):
		return nil // it comes again in the next Run
	case ctx.Err() != nil:
		return err
	case !w.m.ownsLast():
		w.m.c.logger.Warn("handler failed after the partition was lost", "err", err)
		return nil
	}
	attempts := w.attempted(tp, rec.Offset)
	if attempts <= w.m.cfg.Run.Retries {
		w.again(tp, rec.Offset, err)
		return nil
	}
	if w.letters == nil {
		return err
	}
	if failed := w.letters.send(w.work, rec, err, attempts); failed != nil {
		return errors.Join(err, failed)
	}
	w.m.c.logger.Error("record put into the dead-letter topic", "topic", w.letters.topic, "attempts", attempts, "err", err)
	settled = true
	delete(w.retries, tp)
	return nil
}

// note keeps an error that doesn't end Run.
func (w *worker) note(err error) {
	w.m.c.logger.Error("group goes on after an error", "err", err)
	if len(w.failures) < maxFailures {
		w.failures = append(w.failures, err)
	}
}
