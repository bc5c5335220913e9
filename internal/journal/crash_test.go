package journal

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/internal/vfs"
)

// script runs calls over a file system that may fail, and knows what the journal must hold.
type script struct {
	t       testing.TB
	fs      vfs.FS
	rng     *rand.Rand
	j       *Journal // nil: not open
	created bool     // Create or Open has succeeded

	history []*State // after each call that succeeded, from the empty state on
	durable int      // index in history of the last one that no power cut may undo
	unknown []*State // what else a crash may leave: outcomes that the journal has said to be unknown
}

var scriptOptions = Options{SnapshotBytes: 900}

func newScript(t testing.TB, fsys vfs.FS, seed uint64) *script {
	return &script{t: t, fs: fsys, rng: rand.New(rand.NewPCG(seed, 9)), history: []*State{newState()}}
}

// run does some 25 calls: all of them fit.
func (s *script) run() {
	s.create()
	for step := range 25 {
		switch {
		case s.j == nil || step%8 == 7:
			s.reopen()
		case step%8 == 5:
			s.sync()
		default:
			s.call()
		}
		if s.j != nil {
			require.Equal(s.t, s.model(), stateOf(s.j))
		}
	}
}

func (s *script) model() *State { return s.history[len(s.history)-1] }

func (s *script) create() {
	if j, err := Create(s.fs, testDir, scriptOptions); err == nil {
		s.j, s.created = j, true
	}
}

func (s *script) call() {
	events := randomCall(s.rng, s.model())
	_, decoded, err := prepare(events)
	require.NoError(s.t, err)
	after := s.model().clone()
	require.NoError(s.t, after.replay(Entry{Seq: after.Seq + 1, Events: decoded}))

	durable := s.rng.IntN(2) == 0
	if durable {
		err = s.j.Append(events...)
	} else {
		err = s.j.Write(events...)
	}
	s.settle(err)
	switch {
	case err == nil:
		s.history = append(s.history, after)
		if durable {
			s.durable = len(s.history) - 1
		}
	case errors.Is(err, ErrOutcomeUnknown):
		s.unknown = append(s.unknown, after)
	}
}

func (s *script) sync() {
	err := s.j.Sync()
	s.settle(err)
	if err == nil {
		s.durable = len(s.history) - 1
	}
}

// settle notes that what failed before is certainly gone, if this call succeeded.
func (s *script) settle(err error) {
	if err == nil {
		s.unknown = nil
	}
}

// reopen goes on without the journal if it can't.
func (s *script) reopen() {
	if s.j != nil {
		if s.j.Close() == nil {
			s.durable = len(s.history) - 1
			s.unknown = nil
		}
		s.j = nil
	}
	j, _, err := Open(s.fs, testDir, scriptOptions)
	if errors.Is(err, fs.ErrNotExist) && !s.created {
		s.create()
		return
	}
	if err == nil {
		s.adopt(j, len(s.history)-1)
	}
}

// adopt checks that an opened journal holds one of the states it may hold, from history[floor] on.
func (s *script) adopt(j *Journal, floor int) {
	got := stateOf(j)
	require.Contains(s.t, append(s.history[floor:], s.unknown...), got)
	s.j, s.created, s.unknown = j, true, nil
	s.history = []*State{got}
	s.durable = 0
}

// boot opens the journal over what a crash has left, where nothing fails any more.
func (s *script) boot(mem *vfs.Mem, floor int) {
	s.fs, s.j = mem, nil
	j, _, err := Open(mem, testDir, scriptOptions)
	if !s.created && errors.Is(err, fs.ErrNotExist) {
		j, err = Create(mem, testDir, scriptOptions)
	}
	require.NoError(s.t, err)
	s.adopt(j, floor)
	entries, err := mem.ReadDir(testDir + "/" + folderName)
	require.NoError(s.t, err)
	for _, e := range entries {
		require.NotContains(s.t, e.Name(), tmpSuffix)
	}
}

// stride is how far apart the operations are at which a sweep does its harm.
func stride() int {
	if testing.Short() {
		return 5
	}
	return 1
}

func countOps(t *testing.T, seed uint64) int {
	return vfs.CountOps(newMem(t), func(fsys vfs.FS) {
		s := newScript(t, fsys, seed)
		s.run()
		require.NoError(t, s.j.Close())
	})
}

// The power is cut before each operation, and again after the next boot has opened the journal, and after it has
// appended.
func TestPowerCutAnywhere(t *testing.T) {
	for seed := range uint64(6) {
		ops := countOps(t, seed)
		for n := 1 + int(seed)%stride(); n <= ops+1; n += stride() {
			rng := rand.New(rand.NewPCG(seed, uint64(n)))
			mem := newMem(t)
			decide, boot := vfs.CutBefore(mem, n, rng)
			s := newScript(t, vfs.NewFault(mem, decide), seed)
			s.run()
			mem = boot()
			if s.j != nil {
				s.j.Close()
			}

			s.boot(mem, s.durable)
			mem = mem.PowerCut(nil)
			s.boot(mem, 0)
			s.call()
			require.NoError(t, s.j.Append(Event{GroupDeleted: &GroupDeleted{"x"}}))
			want := stateOf(s.j)
			mem = mem.PowerCut(rng)
			j, _ := mustOpen(t, mem, testDir, scriptOptions)
			require.Equal(t, want, stateOf(j), "seed %d, op %d", seed, n)
			require.NoError(t, j.Close())
			requireNoHandles(t, mem)
		}
	}
}

// No descriptor of the wal library is left open, whatever fails when.
func TestNoDescriptorLeaks(t *testing.T) {
	root := t.TempDir()
	open := func() (n int) {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip(err)
		}
		for _, e := range entries {
			if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(to, root) {
				n++
			}
		}
		return n
	}
	for n := range 150 {
		dir := filepath.Join(root, strconv.Itoa(n))
		fault := vfs.NewFault(vfs.OS, vfs.FailAllAfter(n, syscall.EIO))
		j, err := Create(fault, dir, scriptOptions)
		for k := 0; err == nil && k < 10; k++ {
			err = j.Append(created(k, 1))
		}
		if j != nil {
			j.Close()
		}
		fault.Decide(vfs.FailAllAfter(fault.Ops()+n%20, syscall.EIO))
		if j, _, err := Open(fault, dir, scriptOptions); err == nil {
			j.Close()
		}
	}
	require.Zero(t, open())
}

func requireNoHandles(t testing.TB, mem *vfs.Mem) {
	files, mappings, locks := mem.Handles()
	require.Zero(t, files+mappings+locks)
}

// A killed process loses nothing that was written, and a power cut right after the next Open loses nothing it showed.
func TestKillAnywhere(t *testing.T) {
	ops := countOps(t, 1)
	for n := 1; n <= ops+1; n += stride() {
		mem := newMem(t)
		var next *vfs.Mem
		s := newScript(t, vfs.NewFault(mem, func(op vfs.Op) (o vfs.Outcome) {
			if op.N == n && next == nil {
				next = mem.Kill()
			}
			return o
		}), 1)
		s.run()
		if next == nil {
			next = mem.Kill()
		}
		if s.j != nil {
			s.j.Close()
		}
		s.boot(next, len(s.history)-1)
		s.boot(next.PowerCut(nil), 0)
		require.NoError(t, s.j.Close())
	}
}

// Each operation fails once, without, with or with half of its effect: errors are honest, at once and after reopening.
func TestFailEachOperationOnce(t *testing.T) {
	outcomes := map[string]vfs.Outcome{
		"none":  {Err: syscall.EIO},
		"all":   {Err: syscall.EIO, Effect: vfs.EffectAll},
		"part":  {Err: vfs.ErrNoSpace, Effect: vfs.EffectPart, Part: 7},
		"drop":  {Err: syscall.EIO, Effect: vfs.EffectDrop},
		"space": {Err: vfs.ErrNoSpace},
	}
	for name, outcome := range outcomes {
		t.Run(name, func(t *testing.T) {
			ops := countOps(t, 2)
			for n := 1; n <= ops; n += stride() {
				mem := newMem(t)
				s := newScript(t, vfs.NewFault(mem, func(op vfs.Op) (o vfs.Outcome) {
					if op.N == n {
						o = outcome
					}
					return o
				}), 2)
				s.run()
				require.NotNil(t, s.j, "op %d", n) // whatever failed, the next attempt went well
				require.Empty(t, s.unknown)
				s.reopen()
				require.NotNil(t, s.j)
				require.NoError(t, s.j.Close())
				requireNoHandles(t, mem)
				s.durable = len(s.history) - 1
				s.boot(mem.PowerCut(nil), s.durable)
				require.NoError(t, s.j.Close())
			}
		})
	}
}

// All operations fail from some point on. Then the disk comes back, for the same journal or for the next process.
func TestFailForGood(t *testing.T) {
	ops := countOps(t, 3)
	for n := 0; n <= ops; n += stride() {
		for _, same := range []bool{true, false} {
			mem := newMem(t)
			fault := vfs.NewFault(mem, vfs.FailAllAfter(n, syscall.EIO))
			s := newScript(t, fault, 3)
			s.run()
			fault.Decide(nil)
			if same && s.j != nil {
				require.NoError(t, s.j.Append(Event{GroupDeleted: &GroupDeleted{"x"}}))
				after := s.model().clone()
				after.Seq++
				s.history, s.unknown = append(s.history, after), nil
				s.durable = len(s.history) - 1
				require.Equal(t, after, stateOf(s.j))
				s.boot(mem.PowerCut(nil), s.durable)
			} else {
				fault.Decide(vfs.FailAllAfter(0, syscall.EIO))
				if s.j != nil {
					s.j.Close()
				}
				requireNoHandles(t, mem)
				s.boot(mem.Kill(), len(s.history)-1)
			}
			require.NoError(t, s.j.Close())
		}
	}
}

// A disk that is full stops writers with ErrNoSpace and no one else, until it isn't full any more.
func TestDiskFull(t *testing.T) {
	mem := newMem(t)
	j := mustCreate(t, mem, testDir, Options{})
	require.NoError(t, j.Append(created(0, 100)))
	mem.SetCapacity(10 * vfs.PageSize)
	want := stateOf(j)
	var err error
	for n := 0; err == nil; n++ {
		require.Less(t, n, 10000)
		want = stateOf(j)
		err = j.Append(committed("g", 0, n%100, int64(n)))
	}
	require.ErrorIs(t, err, vfs.ErrNoSpace)
	for range 3 {
		err = j.Append(committed("g", 0, 0, 7))
		if err == nil { // the snapshot that heals is smaller than what filled the disk
			want = stateOf(j)
			continue
		}
		require.ErrorIs(t, err, vfs.ErrNoSpace)
		require.NotErrorIs(t, err, ErrOutcomeUnknown)
	}
	require.Equal(t, want, stateOf(j))
	mem.SetCapacity(-1)
	require.NoError(t, j.Append(committed("h", 0, 0, 1)))
	want = stateOf(j)
	j, _ = mustOpen(t, mem.PowerCut(nil), testDir, Options{})
	require.Equal(t, want, stateOf(j))
	require.NoError(t, j.Close())
}

// While the disk stays broken each error says what came first, and a heal that fails leaves nothing lying about.
func TestHealing(t *testing.T) {
	for name, broken := range map[string]func(vfs.Op) bool{
		"sync":       func(op vfs.Op) bool { return op.Kind == vfs.KindSync },
		"new folder": func(op vfs.Op) bool { return op.Kind == vfs.KindSyncDir && op.Name != testDir+"/"+folderName },
		"folder":     func(op vfs.Op) bool { return op.Kind == vfs.KindSyncDir && op.Name == testDir+"/"+folderName },
		"wal":        func(op vfs.Op) bool { return op.Kind == vfs.KindForeign },
		"rename":     func(op vfs.Op) bool { return op.Kind == vfs.KindRename },
	} {
		t.Run(name, func(t *testing.T) { testHealing(t, broken) })
	}
}

func testHealing(t *testing.T, broken func(vfs.Op) bool) {
	mem := newMem(t)
	fault := vfs.NewFault(mem, nil)
	j := mustCreate(t, fault, testDir, Options{})
	require.NoError(t, j.Append(created(0, 1)))
	require.NoError(t, j.Write(committed("w", 0, 0, 1)))
	want := stateOf(j)

	cause, later := errors.New("cause"), errors.New("later")
	failed := false
	fault.Decide(func(op vfs.Op) (o vfs.Outcome) {
		switch {
		case op.Kind == vfs.KindSync && !failed:
			o.Err, failed = cause, true
		case failed && broken(op):
			o.Err = later
		}
		return o
	})
	err := j.Append(committed("x", 0, 0, 1))
	require.ErrorIs(t, err, ErrOutcomeUnknown)
	require.ErrorIs(t, err, cause)
	for range 3 {
		err = j.Write(committed("y", 0, 0, 1))
		require.ErrorIs(t, err, cause)
		require.ErrorIs(t, err, later)
		require.NotErrorIs(t, err, ErrOutcomeUnknown)
	}
	require.Equal(t, want, stateOf(j))
	entries, err := mem.ReadDir(testDir + "/" + folderName)
	require.NoError(t, err)
	require.Len(t, entries, 1)

	fault.Decide(nil)
	require.NoError(t, j.Sync())
	j2, _ := mustOpen(t, mem.PowerCut(nil), testDir, Options{})
	require.Equal(t, want, stateOf(j2))
	require.NoError(t, j2.Close())
	require.Error(t, j.Close())
	require.NoError(t, j.Close())
}

// A file that has grown large stays in force while no snapshot can be made of it.
func TestSnapshotFails(t *testing.T) {
	mem := newMem(t)
	attempts := 0
	j := mustCreate(t, vfs.NewFault(mem, func(op vfs.Op) (o vfs.Outcome) {
		if op.Kind == vfs.KindMkdirAll && op.N > 5 {
			attempts++
			o.Err = vfs.ErrNoSpace
		}
		return o
	}), testDir, Options{SnapshotBytes: 500})
	require.NoError(t, j.Append(created(0, 1)))
	for n := range 100 {
		require.NoError(t, j.Write(committed("g", 0, 0, int64(n))))
	}
	require.Greater(t, attempts, 2)
	require.Less(t, attempts, 12) // not at each call
	want := stateOf(j)
	require.NoError(t, j.Close())
	j, _ = mustOpen(t, mem, testDir, Options{})
	require.Equal(t, want, stateOf(j))
	require.NoError(t, j.Close())
}
