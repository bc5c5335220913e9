package vfs

import (
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// seeds is how many power cuts see each outcome of a small script.
const seeds = 80

// outcomes runs script on a new file system for many seeds, cuts the power and returns how often look saw what.
func outcomes(t *testing.T, script func(m *Mem), look func(m *Mem) string) map[string]int {
	t.Helper()
	seen := map[string]int{}
	for seed := range uint64(seeds) {
		m := NewMem("")
		require.NoError(t, m.MkdirAll("/d"))
		require.NoError(t, m.SyncDir("/"))
		script(m)
		seen[look(m.PowerCut(rand.New(rand.NewPCG(seed, 1))))]++
	}
	return seen
}

// saw asserts that exactly these outcomes were seen.
func saw(t *testing.T, seen map[string]int, want ...string) {
	t.Helper()
	for _, w := range want {
		require.Contains(t, seen, w, "never seen")
	}
	require.Len(t, seen, len(want), "%v", seen)
}

func list(t *testing.T, dirs ...string) func(m *Mem) string {
	return func(m *Mem) string {
		var all []string
		for _, d := range dirs {
			all = append(all, strings.Join(names(t, m, d), ","))
		}
		return strings.Join(all, "|")
	}
}

// durable makes a file in /d with content that survives.
func durable(t *testing.T, m *Mem, name, content string) File {
	f, err := m.Create(name)
	require.NoError(t, err)
	write(t, f, content, 0)
	require.NoError(t, f.Sync())
	require.NoError(t, m.SyncDir(filepath.Dir(name)))
	return f
}

func TestCutKeepsWhatWasSynced(t *testing.T) {
	saw(t, outcomes(t, func(m *Mem) {
		f := durable(t, m, "/d/f", zeros(3*PageSize))
		mp, err := f.Map(3*PageSize, MapWrite)
		require.NoError(t, err)
		for i := range 3 {
			mp.Bytes()[i*PageSize] = 'a' + byte(i)
			require.NoError(t, mp.Sync(int64(i)*PageSize, 1))
		}
		write(t, f, "d", 3*PageSize)
		require.NoError(t, f.Sync())
	}, func(m *Mem) string { return strings.ReplaceAll(contentOf(t, m, "/d/f"), "\x00", "") }), "abcd")
}

func TestCutKeepsAnyPages(t *testing.T) {
	saw(t, outcomes(t, func(m *Mem) {
		f := durable(t, m, "/d/f", zeros(2*PageSize))
		mp, err := f.Map(2*PageSize, MapWrite)
		require.NoError(t, err)
		mp.Bytes()[5], mp.Bytes()[PageSize] = 'a', 'b'
	}, func(m *Mem) string {
		s := contentOf(t, m, "/d/f")
		require.Len(t, s, 2*PageSize)
		return strings.ReplaceAll(s, "\x00", "")
	}), "", "a", "b", "ab")
}

func TestCutKeepsAnyLength(t *testing.T) {
	saw(t, outcomes(t, func(m *Mem) {
		f := durable(t, m, "/d/f", "one")
		write(t, f, "two", 3)
		write(t, f, "three", 6)
	}, func(m *Mem) string { return contentOf(t, m, "/d/f") }),
		"one", "onetwo", "onetwothree", "one"+zeros(3), "one"+zeros(8))
}

func TestCutAfterShortening(t *testing.T) {
	saw(t, outcomes(t, func(m *Mem) {
		f := durable(t, m, "/d/f", "a"+zeros(PageSize)+"b")
		require.NoError(t, f.Truncate(1))
		require.NoError(t, f.Truncate(PageSize+2))
	}, func(m *Mem) string { return strings.Trim(contentOf(t, m, "/d/f"), "\x00") }),
		"a"+zeros(PageSize)+"b", // nothing survived
		"a",                     // the shortening did, and the growth maybe: what was cut off is zero
	)
}

func TestCutLengthIsDurableWithAnyRange(t *testing.T) {
	saw(t, outcomes(t, func(m *Mem) {
		f := durable(t, m, "/d/f", "a"+zeros(3*PageSize)+"b")
		require.NoError(t, f.Truncate(PageSize))
		require.NoError(t, f.Truncate(4*PageSize))
		mp, err := f.Map(4*PageSize, MapWrite)
		require.NoError(t, err)
		require.NoError(t, mp.Sync(0, 1))
	}, func(m *Mem) string { return contentOf(t, m, "/d/f") }), "a"+zeros(4*PageSize-1))
}

func TestCutNames(t *testing.T) {
	unsynced := func(m *Mem) { require.NoError(t, must(m.Create("/d/new")).Close()) }
	saw(t, outcomes(t, unsynced, list(t, "/d")), "", "new")

	saw(t, outcomes(t, func(m *Mem) {
		unsynced(m)
		require.NoError(t, m.SyncDir("/d"))
	}, list(t, "/d")), "new")

	saw(t, outcomes(t, func(m *Mem) {
		durable(t, m, "/d/old", "x")
		require.NoError(t, m.Remove("/d/old"))
	}, list(t, "/d")), "", "old")

	saw(t, outcomes(t, func(m *Mem) {
		durable(t, m, "/d/a", "x")
		durable(t, m, "/d/b", "x")
		require.NoError(t, m.RemoveAll("/d"))
	}, list(t, "/")), "", "d")

	saw(t, outcomes(t, func(m *Mem) {
		require.NoError(t, m.MkdirAll("/d/x/y"))
		require.NoError(t, m.SyncDir("/d/x"))
	}, list(t, "/d")), "", "x")
}

func TestCutRenameIsAtomic(t *testing.T) {
	replace := func(m *Mem) {
		durable(t, m, "/d/cur", "old")
		durable(t, m, "/d/tmp", "new")
		require.NoError(t, m.Rename("/d/tmp", "/d/cur"))
	}
	saw(t, outcomes(t, replace, func(m *Mem) string {
		return list(t, "/d")(m) + contentOf(t, m, "/d/cur")
	}), "cur,tmpold", "curnew")

	across := func(m *Mem) {
		require.NoError(t, m.MkdirAll("/e"))
		require.NoError(t, m.SyncDir("/"))
		durable(t, m, "/d/f", "x")
		require.NoError(t, m.Rename("/d/f", "/e/g"))
	}
	saw(t, outcomes(t, across, list(t, "/d", "/e")), "f|", "|g")
	for _, dir := range []string{"/d", "/e"} {
		saw(t, outcomes(t, func(m *Mem) {
			across(m)
			require.NoError(t, m.SyncDir(dir))
		}, list(t, "/d", "/e")), "|g")
	}
}

func TestCutKeepsTheOrderAtOneName(t *testing.T) {
	saw(t, outcomes(t, func(m *Mem) {
		durable(t, m, "/d/a", "x").Close()
		require.NoError(t, m.Rename("/d/a", "/d/b"))
		require.NoError(t, m.Rename("/d/b", "/d/c"))
		require.NoError(t, must(m.Create("/d/a")).Close())
	}, list(t, "/d")), "a", "b", "c", "a,b", "a,c")

	// A sync of one folder takes along what came before at the other end of a rename.
	saw(t, outcomes(t, func(m *Mem) {
		require.NoError(t, m.MkdirAll("/e"))
		require.NoError(t, m.SyncDir("/"))
		durable(t, m, "/d/a", "x").Close()
		require.NoError(t, must(m.Create("/e/b")).Close())
		require.NoError(t, m.Rename("/d/a", "/e/b"))
		require.NoError(t, m.Remove("/e/b"))
		require.NoError(t, m.SyncDir("/d"))
	}, list(t, "/d", "/e")), "|", "|b")
}

func TestCutExtremes(t *testing.T) {
	m := NewMem("")
	require.NoError(t, m.MkdirAll("/d"))
	require.NoError(t, m.SyncDir("/"))
	f := durable(t, m, "/d/f", "one")
	write(t, f, "two", 3)
	require.NoError(t, must(m.Create("/d/g")).Close())

	var asked []Change
	all := m.PowerCutWith(func(c Change) bool { asked = append(asked, c); return true })
	require.Equal(t, []Change{{ChangeName, "/d/g", 0}, {ChangeLength, "/d/f", 6}, {ChangePage, "/d/f", 0}}, asked)
	require.Equal(t, []string{"f", "g"}, names(t, all, "/d"))
	require.Equal(t, "onetwo", contentOf(t, all, "/d/f"))

	for _, none := range []*Mem{m.PowerCutWith(KeepNone), m.PowerCut(nil)} {
		require.Equal(t, []string{"f"}, names(t, none, "/d"))
		require.Equal(t, "one", contentOf(t, none, "/d/f"))
	}
	again := all.PowerCut(nil)
	require.Equal(t, "onetwo", contentOf(t, again, "/d/f"), "what a boot finds is on disk")
}

func must(f File, err error) File {
	if err != nil {
		panic(err)
	}
	return f
}

func TestCutLeavesADeadMachine(t *testing.T) {
	m := NewMem(t.TempDir())
	f := durable(t, m, "/f", "hello")
	mp := mapFor(t, f, 5, MapWrite)
	lock, err := m.Lock("/lock")
	require.NoError(t, err)
	next := m.PowerCut(nil)

	mp.Bytes()[0] = 'X'
	require.Equal(t, "hello", contentOf(t, next, "/f"))
	require.NoError(t, must(next.Open("/f")).Sync())
	require.Equal(t, "hello", contentOf(t, next.PowerCut(nil), "/f"))
	for _, err := range []error{
		f.Sync(), f.Close(), f.Truncate(0), f.Allocate(0, 1), mp.Sync(0, 1), mp.Populate(0, 1), mp.Unmap(),
		lock.SetHolder(nil), lock.Release(), m.MkdirAll("/x"), m.Remove("/f"), m.RemoveAll("/f"), m.Rename("/f", "/g"),
		m.SyncDir("/"), m.DropUnsynced("/f"), m.Foreign("/", func(string) error { t.Fatal("ran"); return nil }),
	} {
		require.ErrorIs(t, err, ErrPowerCut)
	}
	_, err = m.Open("/f")
	require.ErrorIs(t, err, ErrPowerCut)
	_, err = m.Lock("/lock")
	require.ErrorIs(t, err, ErrPowerCut)
	files, mappings, locks := m.Handles()
	require.Zero(t, files+mappings+locks)
}

// The race detector must not take a cut, or a sync, for a reader of what is being stored.
func TestCutBesideStores(t *testing.T) {
	m := NewMem("")
	f := durable(t, m, "/f", zeros(4*PageSize))
	mp := mapFor(t, f, 4*PageSize, MapWrite)
	var wg sync.WaitGroup
	started := make(chan struct{})
	wg.Go(func() {
		close(started)
		for i := range 100 * PageSize {
			mp.Bytes()[i%(4*PageSize)]++
		}
	})
	<-started
	require.NoError(t, mp.Sync(0, 4*PageSize))
	next := m.Kill()
	next = next.PowerCutWith(KeepAll)
	require.Len(t, contentOf(t, next, "/f"), 4*PageSize)
	wg.Wait()
}

func TestKill(t *testing.T) {
	m := NewMem("")
	f := durable(t, m, "/f", "hello")
	mp := mapFor(t, f, 5, MapWrite)
	mp.Bytes()[0] = 'J'
	gone := must(m.Create("/gone"))
	write(t, gone, "x", 0)
	require.NoError(t, m.Remove("/gone"))
	_, err := m.Lock("/lock")
	require.NoError(t, err)

	next := m.Kill()
	require.ErrorIs(t, f.Sync(), ErrKilled)
	mp.Bytes()[1] = 'X' // of a thread that doesn't know yet
	require.Equal(t, "Jello", contentOf(t, next, "/f"))
	require.Equal(t, []string{"f", "lock"}, names(t, next, "/"))
	files, mappings, locks := next.Handles()
	require.Zero(t, files+mappings+locks)
	l, err := next.Lock("/lock")
	require.NoError(t, err)
	require.NoError(t, l.Release())
	require.EqualValues(t, PageSize, next.mu.used)

	require.Panics(t, func() { m.PowerCut(nil) })
	require.Panics(t, func() { m.Kill() })
	require.Equal(t, "hello", contentOf(t, next.PowerCut(nil), "/f"), "killed is not synced")
}

func TestDropUnsynced(t *testing.T) {
	m := NewMem("")
	f := durable(t, m, "/f", zeros(2*PageSize))
	write(t, f, "lost", 0)
	require.NoError(t, m.DropUnsynced("/f"))
	write(t, f, "kept", PageSize)
	require.NoError(t, f.Sync(), "as if nothing had been")
	require.Equal(t, "lost", contentOf(t, m, "/f")[:4], "the cache has it still")
	for _, keep := range []func(Change) bool{KeepNone, KeepAll} {
		s := contentOf(t, m.PowerCutWith(keep), "/f")
		require.Equal(t, zeros(4), s[:4])
		require.Equal(t, "kept", s[PageSize:PageSize+4])
	}

	m = NewMem("")
	f = durable(t, m, "/f", zeros(PageSize))
	write(t, f, "lost", 0)
	require.NoError(t, m.DropUnsynced("/f"))
	write(t, f, "!", 5)
	require.NoError(t, f.Sync())
	require.Equal(t, "lost\x00!", contentOf(t, m.PowerCut(nil), "/f")[:6], "dirty again")
}

func TestCapacity(t *testing.T) {
	m := newMem(t)
	m.SetCapacity(4 * PageSize)
	f := create(t, m, "/f", "")
	require.NoError(t, f.Allocate(0, 3*PageSize))
	require.ErrorIs(t, f.Allocate(0, 5*PageSize), ErrNoSpace)
	size, err := f.Size()
	require.NoError(t, err)
	require.EqualValues(t, 3*PageSize, size)
	requireFree(t, m, PageSize)

	mp := mapFor(t, f, 8*PageSize, MapWrite)
	copy(mp.Bytes(), "allocated")
	require.NoError(t, mp.Sync(0, PageSize))
	write(t, f, "x", 3*PageSize)
	_, err = f.WriteAt([]byte("x"), 4*PageSize)
	require.ErrorIs(t, err, ErrNoSpace)
	_, err = m.Create("/g")
	require.ErrorIs(t, err, ErrNoSpace)
	require.ErrorIs(t, m.MkdirAll("/g"), ErrNoSpace)
	require.NoError(t, m.MkdirAll("/"))

	require.NoError(t, f.Truncate(8*PageSize), "holes cost nothing")
	require.ErrorIs(t, mp.Populate(4*PageSize, PageSize), ErrNoSpace)
	mp.Bytes()[5*PageSize] = 1
	require.PanicsWithValue(t, "vfs.Mem: store into a hole of the file on a full disk: a memory fault on a real disk",
		func() { f.Sync() })
	mp.Bytes()[5*PageSize] = 0

	require.NoError(t, f.Truncate(PageSize+1))
	requireFree(t, m, 2*PageSize)
	require.NoError(t, m.Remove("/f"))
	requireFree(t, m, 2*PageSize)
	require.NoError(t, f.Close())
	require.NoError(t, mp.Unmap())
	requireFree(t, m, 4*PageSize)

	write(t, create(t, m, "/h", ""), "x", 0)
	next := m.PowerCutWith(KeepAll)
	requireFree(t, next, 3*PageSize)
}

func requireFree(t *testing.T, m *Mem, want int64) {
	t.Helper()
	free, err := m.Free("/")
	require.NoError(t, err)
	require.Equal(t, want, free)
}

func TestStoreBeyondTheEndPanics(t *testing.T) {
	for name, notice := range map[string]func(f File, mp Mapping) error{
		"sync":     func(f File, mp Mapping) error { return f.Sync() },
		"msync":    func(f File, mp Mapping) error { return mp.Sync(0, 1) },
		"allocate": func(f File, mp Mapping) error { return f.Allocate(0, 2*PageSize) },
		"truncate": func(f File, mp Mapping) error { return f.Truncate(2 * PageSize) },
		"write":    func(f File, mp Mapping) error { _, err := f.WriteAt(make([]byte, PageSize), PageSize); return err },
		"unmap":    func(f File, mp Mapping) error { return mp.Unmap() },
	} {
		t.Run(name, func(t *testing.T) {
			m := NewMem("")
			f := create(t, m, "/f", "hello")
			mp, err := f.Map(4*PageSize, MapWrite)
			require.NoError(t, err)
			mp.Bytes()[5] = 'x'
			require.PanicsWithValue(t, "vfs.Mem: store beyond the end of the file: a memory fault, or lost, on a real disk",
				func() { notice(f, mp) })
			_, err = m.Stat("/f")
			require.NoError(t, err, "the lock isn't left taken")
		})
	}
}

func TestUnmapLeavesRubbish(t *testing.T) {
	m := newMem(t)
	f := create(t, m, "/f", "hello")
	a, b := mapFor(t, f, 5, MapWrite), mapFor(t, f, PageSize, MapRead)
	stale := a.Bytes()
	require.NoError(t, a.Unmap())
	require.Equal(t, "hello", string(stale), "another mapping shares it")
	require.NoError(t, b.Unmap())
	require.Equal(t, "\xDB\xDB\xDB\xDB\xDB", string(stale))
	require.Equal(t, "hello", contentOf(t, m, "/f"))
}

func TestNoLargerMappingWhileMapped(t *testing.T) {
	m := newMem(t)
	f := create(t, m, "/f", "hello")
	small := mapFor(t, f, PageSize, MapWrite)
	_, err := f.Map(2*PageSize, MapRead)
	require.ErrorIs(t, err, errOutgrown)
	require.NoError(t, small.Unmap())
	mapFor(t, f, 2*PageSize, MapRead)
}

func TestLengthsAreBounded(t *testing.T) {
	m := newMem(t)
	f := create(t, m, "/f", "")
	for i := range int64(10 * maxLengths) {
		write(t, f, "x", i)
	}
	require.LessOrEqual(t, len(f.(*memFile).ino.disk.lengths), maxLengths)
	require.EqualValues(t, 10*maxLengths, slices.Max(f.(*memFile).ino.disk.lengths))
}

func TestRootStays(t *testing.T) {
	m := newMem(t)
	for _, root := range []string{"/", ".", ""} {
		require.Error(t, m.Remove(root))
		require.Error(t, m.RemoveAll(root))
		require.Error(t, m.Rename(root, "/x"))
		require.NoError(t, m.SyncDir(root))
	}
	_, err := m.Stat("../x")
	require.ErrorIs(t, err, fs.ErrNotExist)
}
