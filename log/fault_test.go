package log_test

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/record"
	"github.com/ottlalog/ottla/segment"
)

// dropsPages: what a failed sync leaves in memory is not on the disk, and no later sync will notice. Nobody can vouch for
// the files after that before the machine has booted.
const dropsPages = "sync drops its pages"

// faults are the ways in which an operation fails.
var faults = map[string]func(n int) func(vfs.Op) vfs.Outcome{
	"one fails":          func(n int) func(vfs.Op) vfs.Outcome { return vfs.FailNth(n, errInjected) },
	"all fail from then": func(n int) func(vfs.Op) vfs.Outcome { return vfs.FailAllAfter(n-1, errInjected) },
	"no space once":      func(n int) func(vfs.Op) vfs.Outcome { return vfs.FailNth(n, vfs.ErrNoSpace) },
	"done and reported failed": func(n int) func(vfs.Op) vfs.Outcome {
		return failNthWith(n, vfs.Outcome{Err: errInjected, Effect: vfs.EffectAll})
	},
	"short": func(n int) func(vfs.Op) vfs.Outcome {
		return failNthWith(n, vfs.Outcome{Err: errInjected, Effect: vfs.EffectPart, Part: 20})
	},
	dropsPages: func(n int) func(vfs.Op) vfs.Outcome {
		return failNthWith(n, vfs.Outcome{Err: errInjected, Effect: vfs.EffectDrop})
	},
}

func failNthWith(n int, o vfs.Outcome) func(vfs.Op) vfs.Outcome {
	return func(op vfs.Op) vfs.Outcome {
		if op.N == n {
			return o
		}
		return vfs.Outcome{}
	}
}

// TestEveryOperationFails makes each operation of a script fail in each way. The script goes on and opens the log again.
// What was promised is there, then, after the process and after a power cut.
func TestEveryOperationFails(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			sweep(t, func(t *testing.T, cfg log.Config, sc script, lazy bool, n int, rng *rand.Rand) {
				if *crashRounds == 1 && n%3 != len(name)%3 {
					return // the others in the long run
				}
				h := newHistory()
				h.lazy = lazy
				mem := newMem(t)
				sc.once = name == dropsPages
				if err := sc.run(vfs.NewFault(mem, fault(n)), cfg, h, alive); err != nil {
					t.Error(err)
					return
				}
				requireClosed(t, mem)
				if sc.once || rng.IntN(2) == 0 {
					mem = mem.PowerCut(rng)
				}
				if err := reopen(mem, cfg, h); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestFirstFailureSticks(t *testing.T) {
	mem := newMem(t)
	fault := vfs.NewFault(mem, nil)
	l := open(t, fault, small)
	fill(t, l, 5, 1)
	_, err := l.Append(record.HeaderAt(0, 0), []record.Record{{Value: value(5)}})
	require.NoError(t, err)
	first := errors.New("first")
	fault.Decide(func(op vfs.Op) (o vfs.Outcome) {
		if op.Kind == vfs.KindMsync {
			o = vfs.Outcome{Err: first, Effect: vfs.EffectDrop}
		}
		return o
	})
	require.ErrorIs(t, l.Sync(t.Context(), 6), first)
	fault.Decide(func(vfs.Op) (o vfs.Outcome) {
		o.Err = errors.New("second")
		return o
	})
	for range 3 {
		_, err := l.Append(record.HeaderAt(0, 0), []record.Record{{}})
		require.ErrorIs(t, err, log.ErrFailed)
		require.ErrorIs(t, err, first)
		require.ErrorIs(t, l.Sync(t.Context(), 6), first)
		require.ErrorIs(t, l.Err(), first)
	}
	fault.Decide(nil)
	require.ErrorIs(t, l.Sync(t.Context(), 6), first, "a later sync that succeeds proves nothing")
	require.EqualValues(t, 5, l.Stable().Load())
	require.EqualValues(t, 5, readAll(t, l, 0), "what was acknowledged can be read")
	require.NoError(t, l.Sync(t.Context(), 5), "and is known to be on the disk")
	require.ErrorIs(t, l.Close(), first, "closing doesn't hide it")

	l = open(t, mem.PowerCut(nil), small)
	require.EqualValues(t, 5, l.End())
	fill(t, l, 5, 1)
	require.EqualValues(t, 10, readAll(t, l, 0))
}

// TestFullDiskIsNotAFailure fills disks of many sizes, deletes, and goes on: no hole, no duplicate, before and after the
// next Open.
func TestFullDiskIsNotAFailure(t *testing.T) {
	for pages := int64(3); pages < 60; pages++ {
		mem := newMem(t)
		mem.SetCapacity(pages * vfs.PageSize)
		h := newHistory()
		l := open(t, mem, tiny(log.SyncAlways))
		for range 3 {
			var err error
			for err == nil {
				if err = h.append(l, 1, 900); err == nil {
					err = h.sync(l)
				}
			}
			require.ErrorIs(t, err, log.ErrNoSpace, "%d pages", pages)
			require.NoError(t, l.Err(), "%d pages", pages)
			require.NoError(t, h.check(l))
			require.NoError(t, l.Tick(t.Context(), time.Now()), "%d pages", pages)
			if err := h.deleteBefore(l, l.Start()+(l.End()-l.Start())/2); err != nil {
				require.ErrorIs(t, err, log.ErrNoSpace)
			}
			require.NoError(t, l.Err(), "%d pages", pages)
			mem.SetCapacity((pages + 20) * vfs.PageSize)
			require.NoError(t, h.append(l, 1, 900), "%d pages", pages)
			require.NoError(t, h.sync(l))
			mem.SetCapacity(pages * vfs.PageSize)
		}
		require.NoError(t, h.check(l))
		require.NoError(t, l.Close(), "%d pages", pages)
		mem.SetCapacity(-1)
		require.NoError(t, reopen(mem, tiny(log.SyncAlways), h), "%d pages", pages)
	}
}

// TestFullDiskCanBeOpened: what is there doesn't count as new.
func TestFullDiskCanBeOpened(t *testing.T) {
	mem := newMem(t)
	l := open(t, mem, tiny(log.SyncAlways))
	end := fill(t, l, 100, 2)
	mem = mem.Kill()
	mem.SetCapacity(0)
	l = open(t, mem, tiny(log.SyncAlways))
	require.EqualValues(t, end, readAll(t, l, 0))
	_, err := l.Append(record.HeaderAt(0, 0), []record.Record{{Value: make([]byte, 5000)}})
	require.ErrorIs(t, err, log.ErrNoSpace)
	mem.SetCapacity(-1)
	fill(t, l, 1, 1)
}

// TestFailedOpenLeavesNothingBehind fails each operation of an Open that has much to do.
func TestFailedOpenLeavesNothingBehind(t *testing.T) {
	var end int64
	prepare := func() *vfs.Mem {
		mem := newMem(t)
		l := open(t, mem, tiny(log.SyncNever))
		fill(t, l, 100, 3)
		var last onDisk
		for len(last.batches) < 3 {
			fill(t, l, 1, 3)
			segs := segmentsOf(t, mem)
			last = segs[len(segs)-1]
		}
		end = l.End() - 3
		mem = mem.Kill()
		edit(t, mem, last.path, flipAt(last.batches[len(last.batches)-1].pos+30)) // a torn tail
		return mem
	}
	total := vfs.CountOps(prepare(), func(fs vfs.FS) {
		l, err := log.Open(fs, dir, tiny(log.SyncNever))
		require.NoError(t, err)
		require.NotZero(t, l.Recovery().Cut)
	})
	require.Greater(t, total, 10)
	for n := 1; n <= total; n++ {
		mem := prepare()
		_, err := log.Open(vfs.NewFault(mem, vfs.FailNth(n, errInjected)), dir, tiny(log.SyncNever))
		if err != nil {
			require.ErrorIs(t, err, errInjected)
			require.NotErrorIs(t, err, log.ErrCorrupt)
		}
		requireClosed(t, mem)
		l := open(t, mem, tiny(log.SyncNever))
		require.EqualValues(t, l.End(), readAll(t, l, 0))
		require.Equal(t, end, l.End(), "operation %d", n)
	}
}

// TestReadErrorsAreNoGaps: a read that fails is an error, and the reader can go on from there.
func TestReadErrorsAreNoGaps(t *testing.T) {
	mem := newMem(t)
	fault := vfs.NewFault(mem, nil)
	l := open(t, fault, small)
	end := fill(t, l, 200, 2)
	rng := rand.New(rand.NewPCG(1, 1))
	fault.Decide(func(op vfs.Op) (o vfs.Outcome) {
		switch {
		case op.Kind != vfs.KindRead && op.Kind != vfs.KindOpenRead || rng.IntN(3) > 0:
		case op.Kind == vfs.KindRead && rng.IntN(2) == 0:
			o = vfs.Outcome{Err: errInjected, Effect: vfs.EffectPart, Part: int(op.Len / 2)}
		default:
			o.Err = errInjected
		}
		return o
	})
	r, err := l.NewReader(0)
	require.NoError(t, err)
	defer r.Close()
	failed := 0
	for next := int64(0); next < end; {
		b, err := r.Next(end)
		if err != nil {
			require.ErrorIs(t, err, errInjected)
			var damage *segment.CorruptionError
			require.False(t, errors.As(err, &damage))
			require.NoError(t, r.Skip(), "there is nothing to skip")
			failed++
			continue
		}
		require.Equal(t, next, b.Header().BaseOffset)
		next = b.Header().NextOffset()
	}
	require.NotZero(t, failed)
	require.NoError(t, l.Err(), "reading fails no log")
}

// TestAShortageIsNotAFailure takes descriptors and mappings away at every operation that needs one. What met that can be
// tried again, by the same process.
func TestAShortageIsNotAFailure(t *testing.T) {
	needs := []vfs.Kind{vfs.KindCreate, vfs.KindOpen, vfs.KindOpenRead, vfs.KindMap, vfs.KindSyncDir}
	script := func(fsys vfs.FS, try func(func() error) error) error {
		l, err := log.Open(fsys, dir, small)
		if err != nil {
			return err
		}
		for n := range int64(40) {
			recs := []record.Record{{Value: value(n), Time: time.UnixMilli(n)}}
			if err := try(func() error { _, err := l.Append(record.HeaderAt(0, 0), recs); return err }); err != nil {
				return err
			}
			if err := try(func() error { return l.Sync(context.Background(), l.End()) }); err != nil {
				return err
			}
			if n%10 == 9 {
				if err := try(func() error { return l.DeleteBefore(context.Background(), n-8) }); err != nil {
					return err
				}
			}
		}
		return l.Close()
	}
	total := vfs.CountOps(newMem(t), func(fs vfs.FS) {
		require.NoError(t, script(fs, func(do func() error) error { return do() }))
	})
	met := 0
	for n := 1; n <= total; n++ {
		mem := newMem(t)
		armed, over := false, false
		fault := vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
			if armed = !over && (armed || op.N == n); !armed || !slices.Contains(needs, op.Kind) {
				return vfs.Outcome{}
			}
			return vfs.Outcome{Err: &fs.PathError{Op: "open", Path: op.Name, Err: syscall.EMFILE}}
		})
		err := script(fault, func(do func() error) error {
			err := do()
			if errors.Is(err, vfs.ErrShortage) {
				met++
				armed, over = false, true
				err = do()
			}
			return err
		})
		if errors.Is(err, vfs.ErrShortage) {
			require.NotErrorIs(t, err, log.ErrFailed)
			continue // of Open or Close, which have nothing to try again
		}
		require.NoError(t, err, "operation %d", n)
		l := open(t, mem, small)
		require.EqualValues(t, 40, l.End())
		require.Equal(t, 9, readAll(t, l, l.Start()))
		require.NoError(t, l.Close())
	}
	require.Positive(t, met)
}

// TestAFolderThatCouldNotBeSyncedIsAFailure, also where the error says that the disk is full: the name of a segment may be lost
// then, and a later sync would not tell.
func TestAFolderThatCouldNotBeSyncedIsAFailure(t *testing.T) {
	fault := vfs.NewFault(newMem(t), nil)
	l := open(t, fault, small)
	fill(t, l, 1, 1)
	failed := false
	fault.Decide(func(op vfs.Op) (o vfs.Outcome) {
		if op.Kind == vfs.KindSyncDir && !failed {
			failed = true
			o.Err = vfs.ErrNoSpace
		}
		return o
	})
	var err error
	for n := 0; err == nil && n < 100; n++ { // until a segment is begun
		if _, err = l.Append(record.HeaderAt(0, 0), []record.Record{{Value: make([]byte, 100)}}); err == nil {
			err = l.Sync(t.Context(), l.End())
		}
	}
	require.True(t, failed)
	require.ErrorIs(t, err, log.ErrFailed)
	require.ErrorIs(t, l.Sync(t.Context(), l.End()), log.ErrFailed, "and stays one")
	require.Less(t, l.Stable().Load(), l.End(), "what stands in it isn't acknowledged")
}
