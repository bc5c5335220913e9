package directory_test

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/internal/directory"
	"github.com/ottlalog/ottla/internal/vfs"
)

const dir = "srv/queue/data"

func made(t *testing.T, mem vfs.FS) directory.Meta {
	t.Helper()
	d, err := directory.Claim(mem, dir)
	require.NoError(t, err)
	require.True(t, d.New())
	require.NoError(t, d.Create())
	require.False(t, d.New())
	require.NoError(t, d.Release())
	return d.Meta()
}

func TestADirectoryIsTheSameAfterAPowerCut(t *testing.T) {
	mem := vfs.NewMem("")
	meta := made(t, mem)
	disk := mem.PowerCut(nil) // parents that Claim has made must be there too
	d, err := directory.Claim(disk, dir)
	require.NoError(t, err)
	require.False(t, d.New())
	require.Equal(t, meta, d.Meta())
	require.Len(t, meta.Broker, 32)
	require.NotEqual(t, meta.Broker, meta.Directory)

	_, err = directory.Claim(disk, dir)
	require.ErrorIs(t, err, directory.ErrLocked)
	require.ErrorContains(t, err, "this process")
	require.NoError(t, d.Release())
	d, err = directory.Claim(disk, dir)
	require.NoError(t, err)
	require.NoError(t, d.Release())
}

// TestEveryFailureOfMakingADirectory fails each operation in turn: the lock is given back, and the next try succeeds.
func TestEveryFailureOfMakingADirectory(t *testing.T) {
	broken := errors.New("disk broke")
	for n, more := 1, true; more; n++ {
		mem := vfs.NewMem("")
		fault := vfs.NewFault(mem, vfs.FailNth(n, broken))
		d, err := directory.Claim(fault, dir)
		if err == nil && d.New() {
			err = d.Create()
		}
		if d != nil {
			err = errors.Join(err, d.Release())
		}
		more = fault.Ops() >= n
		if err != nil {
			require.ErrorIs(t, err, broken, "operation %d", n)
		}
		files, mappings, locks := mem.Handles()
		require.Zero(t, files+mappings+locks, "operation %d", n)
		d, err = directory.Claim(mem, dir)
		require.NoError(t, err, "operation %d", n)
		if d.New() {
			require.NoError(t, d.Create(), "operation %d", n)
		}
		require.NoError(t, d.Release())
	}
}

func write(t *testing.T, mem vfs.FS, name, content string) {
	t.Helper()
	require.NoError(t, mem.MkdirAll(path.Dir(name)))
	if err := mem.Remove(name); err != nil {
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
	f, err := mem.Create(name)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte(content), 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func read(t *testing.T, mem vfs.FS, name string) string {
	t.Helper()
	f, err := mem.OpenRead(name)
	require.NoError(t, err)
	defer f.Close()
	size, err := f.Size()
	require.NoError(t, err)
	b := make([]byte, size)
	_, err = f.ReadAt(b, 0)
	require.NoError(t, err)
	return string(b)
}

func TestAMetaThatIsNotGoodIsRefused(t *testing.T) {
	mem := vfs.NewMem("")
	made(t, mem)
	good := read(t, mem, dir+"/meta")
	for name, content := range map[string]string{
		"empty":    "",
		"cut":      good[:len(good)-3],
		"changed":  strings.Replace(good, `"format":1`, `"format":2`, 1),
		"no sum":   strings.SplitAfter(good, "\n")[0],
		"not ours": "hello\n",
	} {
		write(t, mem, dir+"/meta", content)
		_, err := directory.Claim(mem, dir)
		require.ErrorIs(t, err, directory.ErrFormat, name)
		require.ErrorContains(t, err, "meta", name)
	}
	write(t, mem, dir+"/meta", good)
	broken := errors.New("disk broke")
	_, err := directory.Claim(vfs.NewFault(mem, func(op vfs.Op) (o vfs.Outcome) {
		if op.Kind == vfs.KindRead && strings.HasSuffix(op.Name, "meta") {
			o = vfs.Outcome{Err: broken, Effect: vfs.EffectPart, Part: 10}
		}
		return o
	}), dir)
	require.ErrorIs(t, err, broken)
	require.NotErrorIs(t, err, directory.ErrFormat, "it wasn't read")
	d, err := directory.Claim(mem, dir)
	require.NoError(t, err, "no lock is left")
	require.NoError(t, d.Release())
}

func TestRecordsWithoutAMetaAreRefused(t *testing.T) {
	mem := vfs.NewMem("")
	write(t, mem, dir+"/notes/readme", "not ours, and in nobody's way")
	d, err := directory.Claim(mem, dir)
	require.NoError(t, err)
	require.NoError(t, d.Release())
	write(t, mem, dir+"/orders-0/00000000000000000000.log", "")
	_, err = directory.Claim(mem, dir)
	require.ErrorIs(t, err, directory.ErrFormat)
	write(t, mem, "file", "")
	_, err = directory.Claim(mem, "file")
	require.ErrorContains(t, err, "is a file")
}

// TestAFullDiskOrAParentThatMayNotBeReadIsNoHindrance: neither is needed for anything that counts.
func TestAFullDiskOrAParentThatMayNotBeReadIsNoHindrance(t *testing.T) {
	mem := vfs.NewMem("")
	made(t, mem)
	full := vfs.NewFault(mem, func(op vfs.Op) (o vfs.Outcome) {
		if op.Kind == vfs.KindSetHolder {
			o.Err = fmt.Errorf("%w: full", vfs.ErrNoSpace)
		}
		return o
	})
	d, err := directory.Claim(full, dir)
	require.NoError(t, err)
	require.NoError(t, d.Release())

	require.NoError(t, mem.MkdirAll("other/home"))
	closed := vfs.NewFault(mem, func(op vfs.Op) (o vfs.Outcome) {
		if op.Kind == vfs.KindSyncDir && op.Name == "other" {
			o.Err = fs.ErrPermission
		}
		return o
	})
	d, err = directory.Claim(closed, "other/home")
	require.NoError(t, err)
	require.NoError(t, d.Create())
	require.NoError(t, d.Release())
}
