package vfs

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var errInjected = errors.New("injected")

// script does each operation once, returns the first error, and leaves nothing open.
func script(fsys FS) (err error) {
	note := func(e error) {
		if err == nil {
			err = e
		}
	}
	note(fsys.MkdirAll("/d"))
	note(fsys.SyncDir("/"))
	if f, e := fsys.Create("/d/f"); e != nil {
		note(e)
	} else {
		note(f.Allocate(0, PageSize))
		_, e = f.WriteAt([]byte("hello"), 0)
		note(e)
		_, e = f.ReadAt(make([]byte, 5), 0)
		note(e)
		_, e = f.Size()
		note(e)
		if m, e := f.Map(PageSize, MapWrite); e != nil {
			note(e)
		} else {
			m.WillRead(0, 1)
			note(m.Populate(0, PageSize))
			note(m.Sync(0, PageSize))
			note(m.Unmap())
		}
		note(f.Truncate(5))
		note(f.Sync())
		note(f.Close())
	}
	for _, open := range []func(string) (File, error){fsys.Open, fsys.OpenRead} {
		if f, e := open("/d/f"); e != nil {
			note(e)
		} else {
			note(f.Close())
		}
	}
	if l, e := fsys.Lock("/d/lock"); e != nil {
		note(e)
	} else {
		note(l.SetHolder([]byte("me")))
		note(l.Release())
	}
	_, e := fsys.ReadDir("/d")
	note(e)
	_, e = fsys.Stat("/d")
	note(e)
	_, e = fsys.Free("/d")
	note(e)
	note(fsys.Foreign("/d", func(string) error { return nil }))
	note(fsys.Rename("/d/f", "/d/g"))
	note(fsys.Remove("/d/g"))
	note(fsys.RemoveAll("/d"))
	return err
}

func TestFaultSweepsEveryOperation(t *testing.T) {
	seen := map[Kind]bool{}
	f := NewFault(newMem(t), func(op Op) Outcome {
		seen[op.Kind] = true
		require.NotContains(t, op.String(), "Kind(")
		return Outcome{}
	})
	require.NoError(t, script(f))
	for k := KindCreate; k <= KindRelease; k++ {
		require.True(t, seen[k], "%v isn't in the script", k)
	}
	n := CountOps(newMem(t), func(fsys FS) { require.NoError(t, script(fsys)) })
	require.Equal(t, f.Ops(), n)

	require.True(t, KindMsync.Changes())
	require.False(t, KindRead.Changes())

	for i := 1; i <= n; i++ {
		for _, effect := range []Effect{EffectNone, EffectAll, EffectPart, EffectDrop} {
			fail := func(op Op) (o Outcome) {
				if op.N == i {
					o = Outcome{Err: errInjected, Effect: effect}
				}
				return o
			}
			err := script(NewFault(newMem(t), fail)) // newMem checks that nothing is left open
			require.ErrorIs(t, err, errInjected)
			var pathErr *fs.PathError
			require.ErrorAs(t, err, &pathErr)
			require.NotEmpty(t, pathErr.Path)
		}
	}
}

func TestFaultHelpers(t *testing.T) {
	f := NewFault(newMem(t), FailNth(2, errInjected))
	require.NoError(t, f.MkdirAll("/a"))
	require.ErrorIs(t, f.MkdirAll("/b"), errInjected)
	require.NoError(t, f.MkdirAll("/c"))
	require.Equal(t, 3, f.Ops())
	f.Decide(FailAllAfter(4, errInjected))
	require.NoError(t, f.MkdirAll("/d"))
	for range 3 {
		require.ErrorIs(t, f.MkdirAll("/e"), errInjected)
	}
	f.Decide(nil)
	require.Equal(t, []string{"a", "c", "d"}, names(t, f, "/"))
}

func TestFaultEffects(t *testing.T) {
	m := newMem(t)
	var next Outcome
	f := NewFault(m, func(op Op) Outcome { return next })
	file := create(t, f, "/f", "01234567")

	next = Outcome{Err: errInjected, Effect: EffectPart, Part: 3}
	n, err := file.WriteAt([]byte("abcdef"), 0)
	require.Equal(t, 3, n)
	require.ErrorIs(t, err, errInjected)
	require.Equal(t, "abc34567", contentOf(t, m, "/f"))
	n, err = file.ReadAt(make([]byte, 8), 0)
	require.Equal(t, 3, n)
	require.ErrorIs(t, err, errInjected)

	next = Outcome{Err: errInjected, Effect: EffectAll}
	n, err = file.WriteAt([]byte("A"), 0)
	require.Equal(t, 1, n)
	require.ErrorIs(t, err, errInjected)
	require.ErrorIs(t, file.Truncate(4), errInjected)
	_, err = f.Create("/g")
	require.ErrorIs(t, err, errInjected)
	require.Equal(t, []string{"f", "g"}, names(t, m, "/"))

	next = Outcome{Err: errInjected}
	require.ErrorIs(t, file.Truncate(0), errInjected)
	require.Equal(t, "Abc3", contentOf(t, m, "/f"))

	next = Outcome{Delay: 10 * time.Millisecond}
	start := time.Now()
	require.NoError(t, file.Sync())
	require.GreaterOrEqual(t, time.Since(start), next.Delay)
	next = Outcome{}
}

func TestFaultDropsUnsyncedPages(t *testing.T) {
	m := newMem(t)
	require.NoError(t, durable(t, m, "/f", zeros(PageSize)).Close())
	f := NewFault(NewFault(m, nil), nil)
	file := must(f.Open("/f"))
	mp := mapFor(t, file, PageSize, MapWrite)
	f.Decide(func(Op) Outcome { return Outcome{Err: errInjected, Effect: EffectDrop} })
	copy(mp.Bytes(), "lost")
	require.ErrorIs(t, mp.Sync(0, 4), errInjected)
	f.Decide(nil)
	require.NoError(t, mp.Sync(0, 4))
	require.NoError(t, file.Sync())
	require.Equal(t, "lost", string(mp.Bytes()[:4]))
	require.Equal(t, zeros(PageSize), contentOf(t, m.PowerCutWith(KeepAll), "/f"))
}

func TestCutBefore(t *testing.T) {
	write := func(fsys FS) (synced int) {
		f, err := fsys.Create("/f")
		if err != nil || fsys.SyncDir("/") != nil {
			return 0
		}
		for i := range 5 {
			if _, err := f.WriteAt([]byte{byte('a' + i)}, int64(i)); err != nil {
				return synced
			}
			if err := f.Sync(); err != nil {
				require.ErrorIs(t, err, ErrPowerCut)
				return synced
			}
			synced = i + 1
		}
		f.Close()
		return synced
	}
	n := CountOps(newMem(t), func(fsys FS) { write(fsys) })
	for i := 1; i <= n+1; i++ {
		m := NewMem("")
		decide, boot := CutBefore(m, i, rand.New(rand.NewPCG(uint64(i), 2)))
		f := NewFault(m, decide)
		synced := write(f)
		next := boot()
		require.Same(t, next, boot())
		_, err := m.Stat("/")
		require.ErrorIs(t, err, ErrPowerCut)
		if synced > 0 {
			require.Equal(t, "abcde"[:synced], contentOf(t, next, "/f")[:synced])
		}
		require.Equal(t, min(i, n), f.Ops(), "a dead machine ends the script")
	}
}
