package vfs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// onHost runs op, which does as a foreign library does, in /d.
func onHost(t *testing.T, m *Mem, op func(path func(name string) string)) {
	t.Helper()
	require.NoError(t, m.Foreign("/d", func(host string) error {
		op(func(name string) string { return filepath.Join(host, name) })
		return nil
	}))
}

func hostWrite(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(content), 0o640))
}

func foreignMem(t *testing.T) *Mem {
	m := newMem(t)
	require.NoError(t, m.MkdirAll("/d"))
	require.NoError(t, m.SyncDir("/"))
	return m
}

func TestForeignIsUnsynced(t *testing.T) {
	m := foreignMem(t)
	onHost(t, m, func(path func(string) string) { hostWrite(t, path("log"), "one") })
	require.Equal(t, "one", contentOf(t, m, "/d/log"))

	f := must(m.Open("/d/log"))
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
	require.NoError(t, m.SyncDir("/d"))
	onHost(t, m, func(path func(string) string) {
		hostWrite(t, path("log"), "onetwo")
		hostWrite(t, path("other"), "x")
	})

	next := m.PowerCut(nil)
	require.Equal(t, []string{"log"}, names(t, next, "/d"))
	require.Equal(t, "one", contentOf(t, next, "/d/log"))
	onHost(t, next, func(path func(string) string) {
		got, err := os.ReadFile(path("log"))
		require.NoError(t, err)
		require.Equal(t, "one", string(got), "a folder of the next boot")
		require.NoFileExists(t, path("other"))
	})
}

func TestForeignRename(t *testing.T) {
	m := foreignMem(t)
	durable(t, m, "/d/cur", "old").Close()
	durable(t, m, "/d/tmp", "new").Close()
	onHost(t, m, func(path func(string) string) {
		require.NoError(t, os.Rename(path("tmp"), path("cur")))
		hostWrite(t, path("tmp"), "again")
	})
	require.Equal(t, "new", contentOf(t, m, "/d/cur"))
	require.Equal(t, "again", contentOf(t, m, "/d/tmp"))

	none := m.PowerCutWith(KeepNone)
	require.Equal(t, "old", contentOf(t, none, "/d/cur"))
	require.Equal(t, "new", contentOf(t, none, "/d/tmp"))
	renamed := m.PowerCutWith(func(c Change) bool { return c.Name == "tmp to /d/cur" })
	require.Equal(t, []string{"cur"}, names(t, renamed, "/d"))
	require.Equal(t, "new", contentOf(t, renamed, "/d/cur"))
}

func TestForeignReplaced(t *testing.T) {
	m := foreignMem(t)
	durable(t, m, "/d/f", "old content").Close()
	onHost(t, m, func(path func(string) string) {
		require.NoError(t, os.Remove(path("f")))
		hostWrite(t, path("f"), "new")
	})
	require.Equal(t, "new", contentOf(t, m, "/d/f"))
	require.Equal(t, "old content", contentOf(t, m.PowerCutWith(KeepNone), "/d/f"))
	named := m.PowerCutWith(func(c Change) bool { return c.Kind == ChangeName })
	require.Empty(t, contentOf(t, named, "/d/f"), "a new file, of which nothing was synced")
}

func TestForeignFollowsTheFileSystem(t *testing.T) {
	m := foreignMem(t)
	f := create(t, m, "/d/f", "hello")
	onHost(t, m, func(func(string) string) {})
	mp := mapFor(t, f, 5, MapWrite)
	mp.Bytes()[0] = 'J' // seen by no operation
	create(t, m, "/d/g", "g")
	require.NoError(t, m.Rename("/d", "/e"))
	require.NoError(t, m.MkdirAll("/d"))
	onHost(t, m, func(path func(string) string) { require.NoFileExists(t, path("f")) })
	require.NoError(t, m.Foreign("/e", func(host string) error {
		got, err := os.ReadFile(filepath.Join(host, "f"))
		require.NoError(t, err)
		require.Equal(t, "Jello", string(got))
		require.FileExists(t, filepath.Join(host, "g"))
		return nil
	}))
	require.NoError(t, m.Remove("/e/g"))
	require.NoError(t, m.Foreign("/e", func(host string) error {
		require.NoFileExists(t, filepath.Join(host, "g"))
		return nil
	}))
	require.Equal(t, "Jello", contentOf(t, m, "/e/f"))
}

func TestForeignDuringACut(t *testing.T) {
	m := foreignMem(t)
	var next *Mem
	err := m.Foreign("/d", func(host string) error {
		hostWrite(t, filepath.Join(host, "log"), "one")
		next = m.PowerCutWith(KeepAll)
		return nil
	})
	require.ErrorIs(t, err, ErrPowerCut)
	require.Empty(t, names(t, next, "/d"))
}

func TestForeignOnAFullDisk(t *testing.T) {
	m := foreignMem(t)
	m.SetCapacity(2 * PageSize)
	err := m.Foreign("/d", func(host string) error {
		hostWrite(t, filepath.Join(host, "log"), zeros(3*PageSize)+"x")
		return nil
	})
	require.ErrorIs(t, err, ErrNoSpace)
}

func TestForeignNeedsAHostFolder(t *testing.T) {
	require.Error(t, NewMem("").Foreign("/", func(string) error { return nil }))
}
