package log_test

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/record"
	"github.com/ottlalog/ottla/segment"
)

// onDisk is a segment's file and where its batches are.
type onDisk struct {
	path    string
	base    int64
	batches []batchOnDisk
}

type batchOnDisk struct{ pos, end, base, next int64 }

// end is where the batches end.
func (s onDisk) end() int64 { return s.batches[len(s.batches)-1].end }

// segmentsOf reads the log's files: its good batches from the front of each.
func segmentsOf(t testing.TB, fs vfs.FS) (segs []onDisk) {
	t.Helper()
	for _, path := range list(t, fs) {
		base, ok := segment.ParseName(filepath.Base(path))
		if !ok {
			continue
		}
		s := onDisk{path: path, base: base}
		b := readFile(t, fs, path)
		for pos := int64(0); ; {
			batch, err := record.Parse(b[pos:])
			if err != nil {
				break
			}
			h := batch.Header()
			s.batches = append(s.batches, batchOnDisk{pos, pos + int64(h.Size()), h.BaseOffset, h.NextOffset()})
			pos += int64(h.Size())
		}
		segs = append(segs, s)
	}
	return segs
}

func list(t testing.TB, fs vfs.FS) (paths []string) {
	t.Helper()
	entries, err := fs.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		paths = append(paths, filepath.Join(dir, e.Name()))
	}
	return paths
}

func readFile(t testing.TB, fs vfs.FS, path string) []byte {
	t.Helper()
	f, err := fs.OpenRead(path)
	require.NoError(t, err)
	defer f.Close()
	size, err := f.Size()
	require.NoError(t, err)
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); n < len(b) {
		require.NoError(t, err)
	}
	return b
}

func writeFile(t testing.TB, fs vfs.FS, path string, content []byte) {
	t.Helper()
	if _, err := fs.Stat(path); err == nil {
		require.NoError(t, fs.Remove(path))
	}
	f, err := fs.Create(path)
	require.NoError(t, err)
	_, err = f.WriteAt(content, 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// edit changes a file's content; nil removes the file.
func edit(t testing.TB, fs vfs.FS, path string, change func([]byte) []byte) {
	t.Helper()
	if content := change(readFile(t, fs, path)); content != nil {
		writeFile(t, fs, path, content)
		return
	}
	require.NoError(t, fs.Remove(path))
}

func flipAt(pos int64) func([]byte) []byte {
	return func(b []byte) []byte {
		b[pos] ^= 4
		return b
	}
}

func cutAt(pos int64) func([]byte) []byte {
	return func(b []byte) []byte { return append([]byte{}, b[:pos]...) }
}

func zeroFrom(pos, n int64) func([]byte) []byte {
	return func(b []byte) []byte {
		clear(b[pos : pos+n])
		return b
	}
}

func extended(end int64, by []byte) func([]byte) []byte {
	return func(b []byte) []byte { return append(slices.Clone(b[:end]), by...) }
}

func removed([]byte) []byte { return nil }

// snapshot returns all files' content.
func snapshot(t testing.TB, fs vfs.FS) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, path := range list(t, fs) {
		files[path] = string(readFile(t, fs, path))
	}
	return files
}

func rngFor(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 9)) }
