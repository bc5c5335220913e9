package log_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/record"
	"github.com/ottlalog/ottla/segment"
)

// history is what a test knows of a log: what it has handed over and what it was promised. It outlives crashes.
type history struct {
	// held are the values that may stand at an offset: one, unless a truncation was under way.
	held map[int64][]string
	// What was promised: every record below acked is there, the start is startAt.
	acked, startAt int64
	// What was asked for and may have happened: the start may be as high, the end too.
	startMost, endMost int64
	// What makes a value unlike all others.
	serial int
	// lazy says that batches pile up unsynced, so that a power cut may leave holes among them.
	lazy bool
	lost map[int64]bool // the holes that were seen
	// survives says that whatever was appended is promised: nothing worse than a killed process happens.
	survives bool
	failed   bool // the log has
}

func newHistory() *history { return &history{held: map[int64][]string{}, lost: map[int64]bool{}} }

// batch makes the records of a batch that will begin at base.
func (h *history) batch(base int64, records, size int) []record.Record {
	recs := make([]record.Record, records)
	for i := range recs {
		h.serial++
		v := fmt.Sprintf("<%d/%d>", base+int64(i), h.serial)
		v = string(bytes.Repeat([]byte(v), max(1, size/len(v))))
		recs[i] = record.Record{Value: []byte(v), Time: time.UnixMilli(int64(h.serial))}
	}
	return recs
}

// append appends to l and notes it.
func (h *history) append(l *log.Log, records, size int) error {
	base := l.End()
	recs := h.batch(base, records, size)
	at, err := l.Append(codecHeader(h.serial), recs)
	if err != nil && l.End() != base {
		return fmt.Errorf("MISTAKE: a failed append has moved the end from %d to %d", base, l.End())
	}
	if err != nil {
		return err
	}
	if at.Base != base || at.Next != base+int64(records) || l.End() != at.Next {
		return fmt.Errorf("MISTAKE: appended at %+v, the log ended at %d and ends at %d", at, base, l.End())
	}
	for i := range recs {
		h.held[base+int64(i)] = append(h.held[base+int64(i)], string(recs[i].Value))
	}
	h.endMost = max(h.endMost, at.Next)
	if h.survives {
		h.acked = at.Next
	}
	return nil
}

func (h *history) sync(l *log.Log) error {
	end := l.End()
	err := l.Sync(context.Background(), end)
	if err == nil {
		h.acked = max(h.acked, end)
	}
	return err
}

func (h *history) deleteBefore(l *log.Log, offset int64) error {
	h.startMost = max(h.startMost, offset)
	err := l.DeleteBefore(context.Background(), offset)
	if err == nil {
		h.startAt = max(h.startAt, offset)
		h.acked = max(h.acked, offset)
	}
	return err
}

func (h *history) truncate(l *log.Log, offset int64) error {
	h.acked = min(h.acked, offset)
	err := l.Truncate(context.Background(), offset)
	if err == nil {
		for o := range h.held {
			if o >= offset {
				delete(h.held, o) // stale bytes never come back
			}
		}
		maps.DeleteFunc(h.lost, func(o int64, _ bool) bool { return o >= offset })
		h.endMost = offset
		h.acked = offset
	}
	return err
}

// opened checks a log that was just opened, and notes that what it shows was made durable.
func (h *history) opened(l *log.Log) error {
	if err := h.check(l); err != nil {
		return err
	}
	h.acked = l.End()
	h.endMost = l.End()
	h.startAt = l.Start()
	for o := range h.held {
		if o >= h.acked {
			delete(h.held, o)
		}
	}
	return nil
}

// check reads the whole log and compares.
func (h *history) check(l *log.Log) error {
	start, end := l.Start(), l.End()
	switch {
	case start < h.startAt || start > max(h.startAt, h.startMost):
		return fmt.Errorf("start is %d, promised %d, asked for %d", start, h.startAt, h.startMost)
	case end < h.acked || end > h.endMost:
		return fmt.Errorf("end is %d, promised %d, appended up to %d", end, h.acked, h.endMost)
	}
	r, err := l.NewReader(start)
	if err != nil {
		return err
	}
	defer r.Close()
	next := start
	for steps := 0; ; steps++ {
		if steps > 10_000 {
			return errors.New("the reader makes no progress")
		}
		b, err := r.Next(end)
		var damage *segment.CorruptionError
		switch {
		case err == io.EOF && r.Offset() == end && next == end:
			return nil
		case errors.As(err, &damage) && h.mayLose(damage):
			if err := r.Skip(); err != nil {
				return err
			}
			next = r.Offset()
			continue
		case err != nil:
			return fmt.Errorf("reading at %d of %d: %w", next, end, err)
		}
		if next, err = h.checkBatch(b, next); err != nil {
			return err
		}
	}
}

// mayLose says whether damage is of records that nobody was promised.
func (h *history) mayLose(d *segment.CorruptionError) bool {
	for o := d.FirstOffset; o < d.NextOffset; o++ {
		if !h.lost[o] && (o < h.acked || !h.lazy) {
			return false
		}
		h.lost[o] = true
	}
	return d.NextOffset > d.FirstOffset
}

func (h *history) checkBatch(b record.Batch, next int64) (int64, error) {
	b, err := b.Decompress(nil, 1<<20)
	if err != nil {
		return 0, err
	}
	it := b.Records()
	var rec record.Record
	for it.Next(&rec) {
		if rec.Offset < next {
			continue
		}
		if rec.Offset != next {
			return 0, fmt.Errorf("offset %d where %d follows", rec.Offset, next)
		}
		values := h.held[next]
		switch {
		case next < h.acked && (len(values) == 0 || values[len(values)-1] != string(rec.Value)) && len(values) < 2:
			return 0, fmt.Errorf("offset %d holds %.20q, promised %.40q", next, rec.Value, values)
		case !slices.Contains(values, string(rec.Value)):
			return 0, fmt.Errorf("offset %d holds %.20q, which nobody appended there: %.40q", next, rec.Value, values)
		}
		h.held[next] = []string{string(rec.Value)}
		next++
	}
	return next, it.Err()
}

// script is a fixed series of operations on a log, drawn from a seed.
type script struct {
	seed  uint64
	ops   int
	eager bool // each append is synced before the next
	once  bool // a failure ends it
}

// run goes through the script. Errors of the log are met as a service would: it goes on, and opens the log again. A
// mistake of the log is returned. Whether the file system is gone (dead) is for the caller to say.
func (sc script) run(fs vfs.FS, cfg log.Config, h *history, dead func() bool) error {
	rng := rand.New(rand.NewPCG(sc.seed, 7))
	var l *log.Log
	defer func() {
		if l != nil {
			_ = l.Close()
		}
	}()
	var bases []int64 // of batches
	for range sc.ops {
		if dead() {
			return nil
		}
		if l == nil {
			var err error
			if l, err = log.Open(fs, dir, cfg); err != nil && sc.once {
				return nil
			} else if err != nil {
				continue // next time
			}
			if err := h.opened(l); err != nil && !dead() && !isFault(err) {
				return fmt.Errorf("opened again: %w", err)
			}
			bases = slices.DeleteFunc(bases, func(b int64) bool { return b > l.End() })
		}
		if err := sc.step(rng, &l, h, &bases); err != nil {
			return err
		}
		if sc.once && h.failed {
			return nil
		}
	}
	if l != nil && !dead() {
		if err := h.check(l); err != nil && !dead() && !isFault(err) {
			return fmt.Errorf("in the end: %w", err)
		}
	}
	return nil
}

func (sc script) step(rng *rand.Rand, l **log.Log, h *history, bases *[]int64) error {
	var err error
	switch k := rng.IntN(100); {
	case k < 45:
		*bases = append(*bases, (*l).End())
		if err = h.append(*l, 1+rng.IntN(3), 20+rng.IntN(200)); err == nil && sc.eager {
			err = h.sync(*l)
		}
	case k < 58:
		*bases = append(*bases, (*l).End())
		if err = h.append(*l, 1+rng.IntN(2), 3000+rng.IntN(9000)); err == nil && sc.eager {
			err = h.sync(*l)
		}
	case k < 72:
		err = h.sync(*l)
	case k < 80:
		err = (*l).Tick(context.Background(), time.Now().Add(time.Duration(rng.IntN(2))*30*24*time.Hour))
	case k < 86:
		err = h.deleteBefore(*l, (*l).Start()+rng.Int64N(1+(*l).Stable().Load()-(*l).Start()))
	case k < 92 && len(*bases) > 0:
		to := (*bases)[rng.IntN(len(*bases))]
		if to >= (*l).Start() && to < (*l).End() {
			err = h.truncate(*l, to)
		}
		if errors.Is(err, log.ErrNotBatchStart) { // begun by a truncation that was lost
			err = nil
		}
	default:
		end := (*l).End()
		if err = (*l).Close(); err == nil {
			h.acked = end
		}
		h.failed = err != nil
		*l = nil
		return mistake(err)
	}
	if err != nil && (*l).Err() != nil {
		if again := h.append(*l, 1, 10); !errors.Is(again, log.ErrFailed) {
			return fmt.Errorf("the log has failed with %v and takes appends: %v", (*l).Err(), again)
		}
		_ = (*l).Close()
		*l = nil
		h.failed = true
	}
	return mistake(err)
}

func mistake(err error) error {
	if err != nil && bytes.HasPrefix([]byte(err.Error()), []byte("MISTAKE")) {
		return err
	}
	return nil
}

var errInjected = errors.New("injected")

// isFault says whether an error is one that a test has made.
func isFault(err error) bool {
	return errors.Is(err, errInjected) || errors.Is(err, vfs.ErrPowerCut) || errors.Is(err, vfs.ErrKilled) ||
		errors.Is(err, vfs.ErrNoSpace)
}

// reopen opens what a crash has left, checks it and that the log goes on, and closes it.
func reopen(fs *vfs.Mem, cfg log.Config, h *history) error {
	l, err := log.Open(fs, dir, cfg)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer l.Close()
	if n := len(l.Recovery().Damage); n > 0 && !h.lazy {
		return fmt.Errorf("damage without any: %w", l.Recovery().Damage[0])
	}
	if err := h.opened(l); err != nil {
		return fmt.Errorf("recovered %+v: %w", l.Recovery(), err)
	}
	for range 3 {
		if err := h.append(l, 2, 50); err != nil {
			return err
		}
	}
	if err := h.sync(l); err != nil {
		return err
	}
	if err := h.check(l); err != nil {
		return fmt.Errorf("appended to after recovery %+v: %w", l.Recovery(), err)
	}
	return nil
}

// requireClosed fails if anything is still open.
func requireClosed(t testing.TB, mem *vfs.Mem) {
	t.Helper()
	if files, mappings, locks := mem.Handles(); files+mappings+locks > 0 {
		t.Fatalf("%d files, %d mappings and %d locks are open", files, mappings, locks)
	}
}
