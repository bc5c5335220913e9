package log_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/log"
)

var (
	crashRounds = flag.Int("crash.rounds", 1, "scripts that the sweeps over crashes and faults go through, for each policy")
	crashSeed   = flag.Uint64("crash.seed", 1, "seed of the first of them")
)

// tiny segments make a script of a few dozen operations roll often.
func tiny(sync log.SyncPolicy) log.Config { return log.Config{SegmentBytes: 12 << 10, Sync: sync} }

// policies are the sync policies with the scripts that suit them.
var policies = []struct {
	name   string
	sync   log.SyncPolicy
	script script
	lazy   bool
}{
	{"always", log.SyncAlways, script{ops: 40, eager: true}, false},
	{"always, many unsynced", log.SyncAlways, script{ops: 40}, true},
	{"interval", log.SyncInterval(time.Millisecond), script{ops: 40}, false},
	{"never", log.SyncNever, script{ops: 40}, false},
}

// sweep calls fn for each script and each operation on the file system that the script makes.
func sweep(t *testing.T, fn func(t *testing.T, cfg log.Config, sc script, lazy bool, n int, rng *rand.Rand)) {
	for _, p := range policies {
		t.Run(p.name, func(t *testing.T) {
			for seed := *crashSeed; seed < *crashSeed+uint64(*crashRounds); seed++ {
				sc := p.script
				sc.seed = seed
				total := vfs.CountOps(newMem(t), func(fs vfs.FS) {
					if err := sc.run(fs, tiny(p.sync), newHistory(), alive); err != nil {
						t.Fatalf("seed %d, without any fault: %v", seed, err)
					}
				})
				for n := 1; n <= total+1; n++ {
					fn(t, tiny(p.sync), sc, p.lazy, n, rand.New(rand.NewPCG(seed, uint64(n))))
					if t.Failed() {
						t.Fatalf("repeat with -crash.seed=%d; operation %d of %d", seed, n, total)
					}
				}
			}
		})
	}
}

func alive() bool { return false }

// TestPowerCutAtEveryOperation cuts the power before each operation on the file system. What the disk has of what wasn't
// synced is random. Then the same happens to the recovery, and to the appends after it.
func TestPowerCutAtEveryOperation(t *testing.T) {
	sweep(t, func(t *testing.T, cfg log.Config, sc script, lazy bool, n int, rng *rand.Rand) {
		for range min(2, *crashRounds) {
			h := newHistory()
			h.lazy = lazy
			mem := newMem(t)
			dead := false
			decide, boot := vfs.CutBefore(mem, n, rng)
			fs := vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
				dead = dead || op.N >= n
				return decide(op)
			})
			if err := sc.run(fs, cfg, h, func() bool { return dead }); err != nil {
				t.Errorf("before the cut: %v", err)
				return
			}
			next := boot()
			for crash := range 3 {
				var err error
				if next, err = cutRecovery(next, cfg, h, rng); err != nil {
					t.Errorf("crash %d: %v", crash+1, err)
					return
				}
			}
		}
	})
}

// cutRecovery opens the log and cuts the power somewhere in there, then opens it, appends, opens it, appends without a
// sync, and cuts the power again.
func cutRecovery(mem *vfs.Mem, cfg log.Config, h *history, rng *rand.Rand) (*vfs.Mem, error) {
	decide, boot := vfs.CutBefore(mem, 1+rng.IntN(30), rng)
	l, err := log.Open(vfs.NewFault(mem, decide), dir, cfg)
	if err != nil && !isFault(err) {
		return nil, fmt.Errorf("open with the power going: %w", err)
	}
	if err == nil {
		_ = l.Close()
	}
	mem = boot()
	if err := reopen(mem, cfg, h); err != nil {
		return nil, err
	}
	l, err = log.Open(mem, dir, cfg)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	if err := h.opened(l); err != nil {
		return nil, fmt.Errorf("opened after a close: %w", err)
	}
	if err := h.append(l, 3, 9000); err != nil {
		return nil, err
	}
	return mem.PowerCut(rng), nil
}

// TestKillAtEveryOperation: nothing that Append took is lost, whatever the policy.
func TestKillAtEveryOperation(t *testing.T) {
	sweep(t, func(t *testing.T, cfg log.Config, sc script, _ bool, n int, rng *rand.Rand) {
		h := newHistory()
		h.survives = true
		mem := newMem(t)
		var next *vfs.Mem
		fs := vfs.NewFault(mem, func(op vfs.Op) (o vfs.Outcome) {
			if op.N >= n && next == nil {
				next = mem.Kill()
			}
			return o
		})
		if err := sc.run(fs, cfg, h, func() bool { return next != nil }); err != nil {
			t.Errorf("before the kill: %v", err)
			return
		}
		if next == nil {
			next = mem.Kill()
		}
		if err := reopen(next, cfg, h); err != nil {
			t.Error(err)
			return
		}
		requireClosed(t, next)
		h.survives = false
		if err := reopen(next.PowerCut(rng), cfg, h); err != nil {
			t.Errorf("power cut after the kill: %v", err)
		}
	})
}
