package journal

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/internal/vfs"
)

func benchJournal(b *testing.B) *Journal {
	j := mustCreate(b, vfs.OS, b.TempDir(), Options{})
	b.Cleanup(func() { require.NoError(b, j.Close()) })
	require.NoError(b, j.Append(created(0, 64)))
	return j
}

func BenchmarkAppend(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run("callers="+strconv.Itoa(callers), func(b *testing.B) {
			j := benchJournal(b)
			e := committed("g", 0, 1, 1)
			b.ReportAllocs()
			b.SetParallelism(callers/2 + callers%2)
			if callers == 1 {
				for b.Loop() {
					require.NoError(b, j.Append(e))
				}
				return
			}
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := j.Append(e); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

func BenchmarkWrite(b *testing.B) {
	j := benchJournal(b)
	e := committed("g", 0, 1, 1)
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, j.Write(e))
	}
}

// BenchmarkOpen opens a journal whose file has 4 MiB, nearly all of them calls.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	j := mustCreate(b, vfs.OS, dir, Options{SnapshotBytes: 8 << 20})
	require.NoError(b, j.Append(created(0, 64)))
	for n := 0; j.gen.size < 4<<20; n++ {
		require.NoError(b, j.Write(committed("g"+strconv.Itoa(n%100), 0, n%64, int64(n))))
	}
	b.SetBytes(j.gen.size)
	require.NoError(b, j.Close())
	b.ReportAllocs()
	for b.Loop() {
		j, _ := mustOpen(b, vfs.OS, dir, Options{})
		require.NoError(b, j.gen.close())
	}
}
