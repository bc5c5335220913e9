package vfs

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if name := os.Getenv("VFS_TEST_LOCK"); name != "" {
		os.Exit(lockInChild(name))
	}
	goleak.VerifyTestMain(m)
}

// everywhere are the behaviours that each implementation has.
var everywhere = []struct {
	name string
	test func(t *testing.T, fsys FS, dir string)
}{
	{"create takes a free name only", testCreate},
	{"missing names", testMissing},
	{"folders are no files and the reverse", testFolders},
	{"write and read", testWriteRead},
	{"read-only file", testReadOnly},
	{"closed file", testClosed},
	{"truncate", testTruncate},
	{"allocate", testAllocate},
	{"map shares with the file and other mappings", testMapShares},
	{"map beyond the end", testMapBeyond},
	{"mapping outlives close and remove", testMapOutlives},
	{"mapping arguments", testMapArguments},
	{"growth beyond a mapping", testGrowBeyondMapping},
	{"rename", testRename},
	{"remove", testRemove},
	{"readdir is sorted", testReadDir},
	{"lock", testLock},
	{"free", testFree},
	{"foreign", testForeign},
	{"errors name the path", testErrorsNamePath},
	{"concurrent use", testConcurrent},
}

func TestEverywhere(t *testing.T) {
	implementations := map[string]func(t *testing.T) (FS, string){
		"OS": func(t *testing.T) (FS, string) { return OS, t.TempDir() },
		"Mem": func(t *testing.T) (FS, string) {
			m := newMem(t)
			require.NoError(t, m.MkdirAll("/data"))
			return m, "/data"
		},
		"Fault": func(t *testing.T) (FS, string) {
			m := newMem(t)
			require.NoError(t, m.MkdirAll("data"))
			return NewFault(m, nil), "data"
		},
		"FaultOS": func(t *testing.T) (FS, string) { return NewFault(OS, nil), t.TempDir() },
	}
	for name, open := range implementations {
		t.Run(name, func(t *testing.T) {
			for _, b := range everywhere {
				t.Run(b.name, func(t *testing.T) {
					fsys, dir := open(t)
					b.test(t, fsys, dir)
				})
			}
		})
	}
}

// newMem returns a Mem that must have nothing open when the test ends.
func newMem(t *testing.T) *Mem {
	m := NewMem(t.TempDir())
	t.Cleanup(func() {
		files, mappings, locks := m.Handles()
		require.Zero(t, files+mappings+locks, "open: files, mappings, locks: %d, %d, %d", files, mappings, locks)
	})
	return m
}

// create makes a file with content, open until the test ends.
func create(t *testing.T, fsys FS, name, content string) File {
	t.Helper()
	f, err := fsys.Create(name)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	write(t, f, content, 0)
	return f
}

func write(t *testing.T, f File, content string, off int64) {
	t.Helper()
	n, err := f.WriteAt([]byte(content), off)
	require.NoError(t, err)
	require.Len(t, content, n)
}

// contentOf reads the whole file through a handle of its own.
func contentOf(t *testing.T, fsys FS, name string) string {
	t.Helper()
	f, err := fsys.OpenRead(name)
	require.NoError(t, err)
	defer f.Close()
	return readAll(t, f)
}

func readAll(t *testing.T, f File) string {
	t.Helper()
	size, err := f.Size()
	require.NoError(t, err)
	p := make([]byte, size)
	n, err := f.ReadAt(p, 0)
	require.Equal(t, size, int64(n))
	if err != io.EOF {
		require.NoError(t, err)
	}
	return string(p)
}

func mapFor(t *testing.T, f File, size int64, mode MapMode) Mapping {
	t.Helper()
	m, err := f.Map(size, mode)
	require.NoError(t, err)
	t.Cleanup(func() { m.Unmap() })
	return m
}

func names(t *testing.T, fsys FS, dir string) []string {
	t.Helper()
	entries, err := fsys.ReadDir(dir)
	require.NoError(t, err)
	list := []string{}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func zeros(n int) string { return string(make([]byte, n)) }

func testCreate(t *testing.T, fsys FS, dir string) {
	name := filepath.Join(dir, "f")
	f := create(t, fsys, name, "")
	require.Equal(t, name, f.Name())
	_, err := fsys.Create(name)
	require.ErrorIs(t, err, fs.ErrExist)
	g, err := fsys.Open(name)
	require.NoError(t, err)
	require.NoError(t, g.Close())

	info, err := fsys.Stat(name)
	require.NoError(t, err)
	require.Equal(t, "f", info.Name())
	require.False(t, info.IsDir())
	require.Zero(t, info.Mode().Perm()&0o007, "others have no access")
}

func testMissing(t *testing.T, fsys FS, dir string) {
	name := filepath.Join(dir, "no", "such")
	for _, open := range []func(string) (File, error){fsys.Open, fsys.OpenRead, fsys.Create} {
		_, err := open(name)
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
	_, err := fsys.Stat(name)
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = fsys.ReadDir(name)
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = fsys.Lock(name)
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = fsys.Free(name)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorIs(t, fsys.Remove(name), fs.ErrNotExist)
	require.ErrorIs(t, fsys.SyncDir(name), fs.ErrNotExist)
	require.ErrorIs(t, fsys.Rename(name, filepath.Join(dir, "x")), fs.ErrNotExist)
	require.ErrorIs(t, fsys.Foreign(name, nil), fs.ErrNotExist)
	require.NoError(t, fsys.RemoveAll(name))
}

func testFolders(t *testing.T, fsys FS, dir string) {
	folder, file := filepath.Join(dir, "folder"), filepath.Join(dir, "file")
	require.NoError(t, fsys.MkdirAll(folder))
	create(t, fsys, file, "x")
	_, err := fsys.Open(folder)
	require.ErrorIs(t, err, errIsDir)
	_, err = fsys.OpenRead(folder)
	require.ErrorIs(t, err, errIsDir)
	_, err = fsys.Lock(folder)
	require.ErrorIs(t, err, errIsDir)
	require.Error(t, fsys.MkdirAll(file))
	require.Error(t, fsys.MkdirAll(filepath.Join(file, "below")))
	require.Error(t, fsys.SyncDir(file))
	require.Error(t, fsys.Foreign(file, nil))
	require.NoError(t, fsys.MkdirAll(folder), "again")
	require.NoError(t, fsys.SyncDir(dir))
}

func testWriteRead(t *testing.T, fsys FS, dir string) {
	f := create(t, fsys, filepath.Join(dir, "f"), "hello")
	write(t, f, "world", PageSize)
	require.Equal(t, "hello"+zeros(PageSize-5)+"world", readAll(t, f))

	p := make([]byte, 8)
	n, err := f.ReadAt(p, PageSize+2)
	require.Equal(t, 3, n)
	require.Equal(t, io.EOF, err, "as it is, for whoever compares")
	n, err = f.ReadAt(p, PageSize+100)
	require.Zero(t, n)
	require.Equal(t, io.EOF, err)
	n, err = f.ReadAt(p[:5], PageSize)
	require.Equal(t, 5, n)
	if err != io.EOF {
		require.NoError(t, err)
	}
	_, err = f.ReadAt(p, -1)
	require.Error(t, err)
	_, err = f.WriteAt(p, -1)
	require.Error(t, err)
	require.NoError(t, f.Sync())
}

func testReadOnly(t *testing.T, fsys FS, dir string) {
	name := filepath.Join(dir, "f")
	create(t, fsys, name, "hello")
	f, err := fsys.OpenRead(name)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.WriteAt([]byte("x"), 0)
	require.Error(t, err)
	require.Error(t, f.Truncate(0))
	require.Error(t, f.Allocate(0, 100))
	_, err = f.Map(5, MapWrite)
	require.ErrorIs(t, err, fs.ErrPermission)
	m, err := f.Map(5, MapRead)
	require.NoError(t, err)
	require.Equal(t, "hello", string(m.Bytes()))
	require.NoError(t, m.Populate(0, 5))
	require.NoError(t, m.Sync(0, 5))
	require.NoError(t, m.Unmap())
}

func testClosed(t *testing.T, fsys FS, dir string) {
	f := create(t, fsys, filepath.Join(dir, "f"), "hello")
	m := mapFor(t, f, 5, MapWrite)
	require.NoError(t, m.Unmap())
	require.ErrorIs(t, m.Unmap(), fs.ErrClosed)
	require.ErrorIs(t, m.Sync(0, 1), fs.ErrClosed)
	require.NoError(t, f.Close())
	require.ErrorIs(t, f.Close(), fs.ErrClosed)
	require.ErrorIs(t, f.Sync(), fs.ErrClosed)
	require.ErrorIs(t, f.Truncate(0), fs.ErrClosed)
	require.ErrorIs(t, f.Allocate(0, 1), fs.ErrClosed)
	_, err := f.Size()
	require.ErrorIs(t, err, fs.ErrClosed)
	_, err = f.Map(1, MapRead)
	require.ErrorIs(t, err, fs.ErrClosed)
	_, err = f.ReadAt(make([]byte, 1), 0)
	require.ErrorIs(t, err, fs.ErrClosed)
}

func testTruncate(t *testing.T, fsys FS, dir string) {
	f := create(t, fsys, filepath.Join(dir, "f"), "hello world")
	require.NoError(t, f.Truncate(5))
	require.Equal(t, "hello", readAll(t, f))
	require.NoError(t, f.Truncate(8))
	require.Equal(t, "hello\x00\x00\x00", readAll(t, f), "what was cut off stays away")
	require.NoError(t, f.Truncate(3*PageSize))
	size, err := f.Size()
	require.NoError(t, err)
	require.EqualValues(t, 3*PageSize, size)
	require.Error(t, f.Truncate(-1))
}

func testAllocate(t *testing.T, fsys FS, dir string) {
	f := create(t, fsys, filepath.Join(dir, "f"), "hello")
	require.NoError(t, f.Allocate(0, 100))
	require.Equal(t, "hello"+zeros(95), readAll(t, f))
	require.NoError(t, f.Allocate(2, 3))
	require.NoError(t, f.Allocate(3*PageSize, 10), "apart from the rest")
	require.Equal(t, "hello"+zeros(3*PageSize+5), readAll(t, f))
	require.ErrorIs(t, f.Allocate(-1, 10), fs.ErrInvalid)
	require.ErrorIs(t, f.Allocate(0, 0), fs.ErrInvalid)
	require.ErrorIs(t, f.Allocate(1<<62, 1<<62), fs.ErrInvalid)
}

func testMapShares(t *testing.T, fsys FS, dir string) {
	f := create(t, fsys, filepath.Join(dir, "f"), "")
	require.NoError(t, f.Allocate(0, 2*PageSize))
	w, r := mapFor(t, f, 2*PageSize, MapWrite), mapFor(t, f, 2*PageSize, MapRead)
	require.NoError(t, w.Populate(0, 2*PageSize))
	copy(w.Bytes()[PageSize-2:], "hello")
	require.Equal(t, "hello", string(r.Bytes()[PageSize-2:PageSize+3]))

	p := make([]byte, 5)
	_, err := f.ReadAt(p, PageSize-2)
	require.NoError(t, err)
	require.Equal(t, "hello", string(p))
	write(t, f, "HE", PageSize-2)
	require.Equal(t, "HEllo", string(w.Bytes()[PageSize-2:PageSize+3]))

	r.WillRead(PageSize, PageSize)
	require.NoError(t, w.Sync(PageSize-2, 5))
	require.NoError(t, w.Sync(0, 0))
	require.NoError(t, w.Sync(0, 2*PageSize))
	require.Same(t, &w.Bytes()[0], &w.Bytes()[0])
	require.Len(t, w.Bytes(), 2*PageSize)
}

func testMapBeyond(t *testing.T, fsys FS, dir string) {
	const size = 8 * PageSize
	f := create(t, fsys, filepath.Join(dir, "f"), "")
	w := mapFor(t, f, size, MapWrite)
	r := mapFor(t, f, size, MapRead)
	for off := int64(0); off < size; off += 2 * PageSize {
		require.NoError(t, f.Allocate(off, 2*PageSize))
		w.Bytes()[off] = 'x'
		require.Equal(t, byte('x'), r.Bytes()[off])
		require.NoError(t, w.Sync(off, 1))
	}
	require.NoError(t, r.Unmap())
	require.NoError(t, w.Unmap())
	require.NoError(t, f.Truncate(1))
	require.NoError(t, f.Allocate(0, size))
	require.Equal(t, "x"+zeros(size-1), readAll(t, f))
}

func testMapOutlives(t *testing.T, fsys FS, dir string) {
	name := filepath.Join(dir, "f")
	f := create(t, fsys, name, "hello")
	m := mapFor(t, f, 5, MapWrite)
	require.NoError(t, f.Close())
	m.Bytes()[0] = 'H'
	require.NoError(t, m.Sync(0, 5))
	require.Equal(t, "Hello", contentOf(t, fsys, name))
	if runtime.GOOS == "windows" {
		return // a mapped file can't be removed
	}
	require.NoError(t, fsys.Remove(name))
	m.Bytes()[1] = 'E'
	require.NoError(t, m.Sync(0, 5))
	require.Equal(t, "HEllo", string(m.Bytes()))
	require.NoError(t, m.Unmap())
}

func testMapArguments(t *testing.T, fsys FS, dir string) {
	f := create(t, fsys, filepath.Join(dir, "f"), "hello")
	for _, size := range []int64{0, -1} {
		_, err := f.Map(size, MapRead)
		require.ErrorIs(t, err, fs.ErrInvalid)
	}
	m := mapFor(t, f, 5, MapWrite)
	for _, r := range [][2]int64{{-1, 1}, {0, 6}, {5, 1}, {0, -1}, {1, 1<<63 - 1}} {
		require.ErrorIs(t, m.Sync(r[0], r[1]), fs.ErrInvalid)
		require.ErrorIs(t, m.Populate(r[0], r[1]), fs.ErrInvalid)
		m.WillRead(r[0], r[1])
	}
	require.NoError(t, m.Populate(5, 0))
}

func testGrowBeyondMapping(t *testing.T, fsys FS, dir string) {
	f := create(t, fsys, filepath.Join(dir, "f"), "hello")
	m := mapFor(t, f, PageSize, MapWrite)
	write(t, f, "far", 3*PageSize)
	write(t, f, "across", PageSize-3)
	require.Equal(t, "acr", string(m.Bytes()[PageSize-3:]))
	want := "hello" + zeros(PageSize-8) + "across" + zeros(2*PageSize-3) + "far"
	require.Equal(t, want, readAll(t, f))
	require.NoError(t, f.Sync())
	if runtime.GOOS == "windows" {
		return // a mapped file can't be shortened
	}
	require.NoError(t, f.Truncate(2*PageSize))
	require.NoError(t, f.Truncate(3*PageSize+3))
	require.NoError(t, m.Unmap())
	require.Equal(t, want[:3*PageSize]+zeros(3), readAll(t, f))
}

func testRename(t *testing.T, fsys FS, dir string) {
	a, b, sub := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "sub")
	f := create(t, fsys, a, "new")
	create(t, fsys, b, "old").Close()
	f.Close()
	require.NoError(t, fsys.Rename(a, b))
	require.Equal(t, []string{"b"}, names(t, fsys, dir))
	require.Equal(t, "new", contentOf(t, fsys, b))

	require.NoError(t, fsys.MkdirAll(sub))
	require.NoError(t, fsys.Rename(b, filepath.Join(sub, "c")))
	require.NoError(t, fsys.Rename(sub, a))
	require.Equal(t, "new", contentOf(t, fsys, filepath.Join(a, "c")))
	require.Equal(t, []string{"a"}, names(t, fsys, dir))

	require.Error(t, fsys.Rename(a, filepath.Join(a, "below")))
	require.Error(t, fsys.Rename(filepath.Join(a, "c"), a), "a folder isn't replaced")
	require.NoError(t, fsys.Rename(filepath.Join(a, "c"), filepath.Join(a, "c")))
	require.Error(t, fsys.Rename(a, filepath.Join(dir, "no", "such")))
}

func testRemove(t *testing.T, fsys FS, dir string) {
	tree := filepath.Join(dir, "x", "y")
	require.NoError(t, fsys.MkdirAll(tree))
	create(t, fsys, filepath.Join(tree, "f"), "hello").Close()
	require.Error(t, fsys.Remove(tree), "not empty")
	require.NoError(t, fsys.Remove(filepath.Join(tree, "f")))
	require.NoError(t, fsys.Remove(tree))
	require.NoError(t, fsys.MkdirAll(tree))
	create(t, fsys, filepath.Join(tree, "f"), "hello").Close()
	require.NoError(t, fsys.RemoveAll(filepath.Join(dir, "x")))
	require.Empty(t, names(t, fsys, dir))
	create(t, fsys, filepath.Join(dir, "f"), "").Close()
	require.NoError(t, fsys.RemoveAll(filepath.Join(dir, "f")))
	require.Empty(t, names(t, fsys, dir))
}

func testReadDir(t *testing.T, fsys FS, dir string) {
	for _, name := range []string{"b", "a", "c", "B"} {
		create(t, fsys, filepath.Join(dir, name), "x").Close()
	}
	require.NoError(t, fsys.MkdirAll(filepath.Join(dir, "aa")))
	require.Equal(t, []string{"B", "a", "aa", "b", "c"}, names(t, fsys, dir))
	entries, err := fsys.ReadDir(dir)
	require.NoError(t, err)
	require.True(t, entries[2].IsDir())
	info, err := entries[1].Info()
	require.NoError(t, err)
	require.EqualValues(t, 1, info.Size())
}

func testLock(t *testing.T, fsys FS, dir string) {
	name := filepath.Join(dir, "lock")
	create(t, fsys, name, "left by someone who died").Close()
	l, err := fsys.Lock(name)
	require.NoError(t, err, "a file is no lock")
	_, err = fsys.Lock(name)
	require.ErrorIs(t, err, ErrLocked)
	require.ErrorContains(t, err, name)
	require.NoError(t, l.SetHolder([]byte("pid 1")))
	require.NoError(t, l.SetHolder([]byte("me")))
	require.Equal(t, "me", contentOf(t, fsys, name), "others can read who holds it")
	require.NoError(t, l.Release())
	require.ErrorIs(t, l.Release(), fs.ErrClosed)
	require.Equal(t, "me", contentOf(t, fsys, name))

	l, err = fsys.Lock(name)
	require.NoError(t, err)
	require.NoError(t, l.Release())
	l, err = fsys.Lock(filepath.Join(dir, "made"))
	require.NoError(t, err)
	require.NoError(t, l.Release())
	require.Equal(t, []string{"lock", "made"}, names(t, fsys, dir))
}

func testFree(t *testing.T, fsys FS, dir string) {
	n, err := fsys.Free(dir)
	require.NoError(t, err)
	require.Positive(t, n)
}

func testForeign(t *testing.T, fsys FS, dir string) {
	create(t, fsys, filepath.Join(dir, "here"), "before").Close()
	var lib *os.File // a library keeps its file open between calls
	require.NoError(t, fsys.Foreign(dir, func(host string) (err error) {
		got, err := os.ReadFile(filepath.Join(host, "here"))
		require.NoError(t, err)
		require.Equal(t, "before", string(got))
		require.NoError(t, os.Mkdir(filepath.Join(host, "sub"), 0o750))
		require.NoError(t, os.WriteFile(filepath.Join(host, "sub", "x"), []byte("deep"), 0o640))
		lib, err = os.OpenFile(filepath.Join(host, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
		require.NoError(t, err)
		_, err = lib.WriteString("one ")
		return err
	}))
	defer lib.Close()
	require.NoError(t, fsys.Foreign(dir, func(string) error {
		_, err := lib.WriteString("two ")
		return err
	}))
	log := filepath.Join(dir, "log")
	require.Equal(t, "one two ", contentOf(t, fsys, log))
	require.Equal(t, "deep", contentOf(t, fsys, filepath.Join(dir, "sub", "x")))
	f, err := fsys.Open(log)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Truncate(4))
	require.NoError(t, f.Close())

	require.NoError(t, fsys.Foreign(dir, func(host string) error {
		_, err := lib.WriteString("three")
		require.NoError(t, err)
		require.NoError(t, os.Remove(filepath.Join(host, "here")))
		require.NoError(t, os.RemoveAll(filepath.Join(host, "sub")))
		require.NoError(t, os.WriteFile(filepath.Join(host, "tmp"), []byte("tmp"), 0o640))
		return os.Rename(filepath.Join(host, "tmp"), filepath.Join(host, "done"))
	}))
	require.Equal(t, []string{"done", "log"}, names(t, fsys, dir))
	require.Equal(t, "one three", contentOf(t, fsys, log))
	require.Equal(t, "tmp", contentOf(t, fsys, filepath.Join(dir, "done")))

	mine := io.ErrUnexpectedEOF
	require.ErrorIs(t, fsys.Foreign(dir, func(string) error { return mine }), mine)
}

func testErrorsNamePath(t *testing.T, fsys FS, dir string) {
	name := filepath.Join(dir, "f")
	f := create(t, fsys, name, "")
	m := mapFor(t, f, 1, MapRead)
	require.ErrorContains(t, f.Allocate(-1, 1), name)
	require.ErrorContains(t, f.Truncate(-1), name)
	require.ErrorContains(t, m.Sync(5, 5), name)
	_, err := f.Map(-1, MapRead)
	require.ErrorContains(t, err, name)
	require.NoError(t, f.Close())
	require.ErrorContains(t, f.Sync(), name)
	var pathErr *fs.PathError
	require.ErrorAs(t, f.Close(), &pathErr)
	require.ErrorContains(t, fsys.SyncDir(name+"x"), name+"x")
	require.ErrorContains(t, fsys.Rename(name+"x", name), name+"x")
}

// testConcurrent stores into one mapping while others sync, extend and read what was published.
func testConcurrent(t *testing.T, fsys FS, dir string) {
	const size = 16 * PageSize
	f := create(t, fsys, filepath.Join(dir, "f"), "")
	m := mapFor(t, f, size, MapWrite)
	require.NoError(t, f.Allocate(0, PageSize))
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				require.NoError(t, m.Sync(0, size))
				require.NoError(t, f.Sync())
			}
		}
	})
	for i := range int64(16) {
		require.NoError(t, f.Allocate(i*PageSize, PageSize))
		for j := range int64(PageSize) {
			m.Bytes()[i*PageSize+j] = byte(i + 1)
		}
	}
	close(stop)
	wg.Wait()
}
