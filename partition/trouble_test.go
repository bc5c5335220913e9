package partition_test

import (
	"errors"
	"io/fs"
	"path"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/partition"
)

// contents is what the files of the partition hold.
func contents(t testing.TB, mem *vfs.Mem) map[string]string {
	t.Helper()
	entries, err := mem.ReadDir("orders-3")
	require.NoError(t, err)
	files := map[string]string{}
	for _, e := range entries {
		f, err := mem.OpenRead(path.Join("orders-3", e.Name()))
		require.NoError(t, err)
		size, err := f.Size()
		require.NoError(t, err)
		b := make([]byte, size)
		_, err = f.ReadAt(b, 0)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		files[e.Name()] = string(b)
	}
	return files
}

// TestAFileThatMayNotBeReadIsNotAMissingOne: the partition can't be used and names the file, nothing is made in its place, and
// all is there when it may be read again. An index is derived: it isn't needed.
func TestAFileThatMayNotBeReadIsNotAMissingOne(t *testing.T) {
	for name, needed := range map[string]bool{
		"":                           true, // the folder
		"00000000000000000000.log":   true,
		"recovery-point":             true,
		"00000000000000000000.index": false,
	} {
		mem := newMem(t)
		p := open(t, mem, log.Config{})
		send(t, p, "a", "b", "c")
		require.NoError(t, p.Close())
		p = open(t, mem, log.Config{})
		send(t, p, "d")
		mem = mem.Kill() // so that an opening has to look
		before := contents(t, mem)
		denied := path.Join("orders-3", name)
		fault := vfs.NewFault(mem, func(op vfs.Op) (o vfs.Outcome) {
			opens := op.Kind == vfs.KindOpen || op.Kind == vfs.KindOpenRead || op.Kind == vfs.KindReadDir
			if opens && op.Name == denied {
				o.Err = fs.ErrPermission
			}
			return o
		})
		p, err := partition.Open(fault, partition.Config{Topic: "orders", Number: 3, Dir: "orders-3"})
		require.NoError(t, err, "it doesn't keep others from opening")
		if needed {
			for range 2 {
				_, err = p.NewReader(partition.Earliest)
				require.ErrorIs(t, err, partition.ErrNoLeader, name)
				require.ErrorIs(t, err, fs.ErrPermission, name)
				require.ErrorContains(t, err, denied)
			}
			require.NoError(t, p.Close())
			require.Equal(t, before, contents(t, mem), name)
		} else {
			require.NoError(t, p.Err(), name)
			require.NoError(t, p.Close())
		}
		p = open(t, mem, log.Config{})
		r, err := p.NewReader(partition.Earliest)
		require.NoError(t, err)
		recs, err := r.Read(nil, 10)
		require.NoError(t, err)
		require.Len(t, recs, 4, name)
		require.NoError(t, r.Close())
	}
}

// TestADiskThatCantBeReadIsOnePartitionsTrouble: opening it doesn't fail, so that the others can be opened.
func TestADiskThatCantBeReadIsOnePartitionsTrouble(t *testing.T) {
	mem := newMem(t)
	p := open(t, mem, log.Config{})
	send(t, p, "a", "b")
	mem = mem.Kill()
	before := contents(t, mem)
	broken := errors.New("input/output error")
	fault := vfs.NewFault(mem, func(op vfs.Op) (o vfs.Outcome) {
		if op.Kind == vfs.KindRead && path.Ext(op.Name) == ".log" {
			o.Err = broken
		}
		return o
	})
	p, err := partition.Open(fault, partition.Config{Topic: "orders", Number: 3, Dir: "orders-3"})
	require.NoError(t, err)
	require.ErrorIs(t, p.Err(), partition.ErrNoLeader)
	require.ErrorIs(t, p.Err(), broken)
	require.NoError(t, p.Close())
	require.Equal(t, before, contents(t, mem))
	require.EqualValues(t, 2, open(t, mem, log.Config{}).EndOffset())
}
