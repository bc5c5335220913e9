package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/internal/vfs"
)

// sample is a closed journal with a snapshot, durable calls and, at its end, calls that were only written.
type sample struct {
	fs      *vfs.Mem
	file    string
	content []byte
	entries []Entry
	states  []*State // after each entry
}

func newSample(t testing.TB) sample {
	var s sample
	s.fs = newMem(t)
	j := mustCreate(t, s.fs, testDir, Options{SnapshotBytes: 600})
	for n := range 4 {
		require.NoError(t, j.Append(created(n, 4)))
	}
	require.NoError(t, j.Append(committed("a", 0, 1, 10)))
	require.NoError(t, j.Write(committed("b", 1, 1, 10)))
	require.NoError(t, j.Append(committed("b", 1, 1, 11), committed("c", 1, 2, 3)))
	require.NoError(t, j.Close())
	j, _ = mustOpen(t, s.fs, testDir, Options{})
	require.NoError(t, j.Append(committed("d", 1, 1, 12)))
	require.NoError(t, j.Write(committed("e", 2, 1, 13)))
	require.NoError(t, j.Write(committed("f", 2, 1, 14)))
	require.NoError(t, j.Write(committed("g", 2, 1, 15)))
	s.fs = s.fs.Kill()

	s.file, s.content = journalFile(t, s.fs, testDir)
	s.entries = entriesOf(t, s.fs, testDir)
	state := newState()
	for _, e := range s.entries {
		require.NoError(t, state.replay(e))
		s.states = append(s.states, state.clone())
	}
	require.Equal(t, KindSnapshot, s.entries[0].Kind)
	require.Greater(t, len(s.entries), 8)
	return s
}

// base returns the end of the snapshot.
func (s sample) base() int64 {
	i := slices.IndexFunc(s.entries, func(e Entry) bool { return e.Kind == KindSnapshotEnd })
	return s.entries[i+1].Pos
}

// before returns the index of the last entry that ends at or before pos.
func (s sample) before(pos int64) int {
	n := 0
	for n < len(s.entries) && s.entries[n].Pos <= pos {
		n++
	}
	if pos >= int64(len(s.content)) {
		return n - 1
	}
	return n - 2
}

// requireRefused checks that Open names the file and changes nothing.
func requireRefused(t *testing.T, fsys vfs.FS, dir string, want error, names string) {
	before := tree(t, fsys, dir)
	_, _, err := Open(fsys, dir, Options{})
	require.ErrorIs(t, err, want)
	require.ErrorContains(t, err, names)
	require.NotErrorIs(t, err, fs.ErrNotExist)
	_, err = Create(fsys, dir, Options{})
	require.Error(t, err)
	require.Equal(t, before, tree(t, fsys, dir))
}

// tree returns all files and their content.
func tree(t testing.TB, fsys vfs.FS, dir string) map[string]string {
	files := map[string]string{}
	var walk func(dir string)
	walk = func(dir string) {
		entries, err := fsys.ReadDir(dir)
		require.NoError(t, err)
		files[dir] = "folder"
		for _, e := range entries {
			if name := filepath.Join(dir, e.Name()); e.IsDir() {
				walk(name)
			} else {
				files[name] = string(readFile(t, fsys, name))
			}
		}
	}
	walk(dir)
	return files
}

func TestCutAtEveryLength(t *testing.T) {
	s := newSample(t)
	for n := range len(s.content) + 1 {
		setFile(t, s.fs, s.file, s.content[:n])
		if int64(n) < s.base() {
			requireRefused(t, s.fs, testDir, ErrCorrupt, s.file)
			continue
		}
		last := s.before(int64(n))
		end := int64(len(s.content))
		if last+1 < len(s.entries) {
			end = s.entries[last+1].Pos
		}
		j, r := mustOpen(t, s.fs, testDir, Options{})
		require.Equal(t, s.states[last], stateOf(j), "cut at %d", n)
		require.Equal(t, int64(n)-end, r.CutBytes)
		require.Empty(t, r.SetAside)
		require.NoError(t, j.Close())
	}
}

// With any byte changed, Open refuses and names the file, or loses nothing but calls that no intact frame witnesses.
func TestFlipEveryByte(t *testing.T) {
	s := newSample(t)
	refused := 0
	for pos := range s.content {
		for _, flip := range []byte{1 << (pos % 8), 0xff, s.content[pos]} {
			if flip == 0 {
				continue
			}
			content := slices.Clone(s.content)
			content[pos] ^= flip
			setFile(t, s.fs, s.file, content)

			hit := s.before(int64(pos)) + 1
			witnessed := int64(0)
			for i, e := range s.entries {
				if i != hit {
					witnessed = max(witnessed, e.Synced)
				}
			}
			if int64(pos) < max(witnessed, s.base()) {
				_, _, err := Open(s.fs, testDir, Options{})
				require.True(t, errors.Is(err, ErrCorrupt) || errors.Is(err, ErrVersion), "byte %d: %v", pos, err)
				require.ErrorContains(t, err, s.file)
				_, now := journalFile(t, s.fs, testDir)
				require.Equal(t, string(content), string(now))
				refused++
				continue
			}
			j, r := mustOpen(t, s.fs, testDir, Options{})
			require.Equal(t, s.states[hit-1], stateOf(j), "byte %d", pos)
			require.Equal(t, s.entries[hit].Pos, r.CutPos)
			require.Equal(t, hit < len(s.entries)-1, r.SetAside != "")
			require.NoError(t, j.Close())
			if r.SetAside != "" {
				require.NoError(t, s.fs.Remove(r.SetAside))
			}
		}
	}
	require.Greater(t, refused, len(s.content))
}

func TestUnsyncedPageLost(t *testing.T) {
	s := newSample(t)
	hole := s.entries[len(s.entries)-3]
	next := s.entries[len(s.entries)-2].Pos
	for n := range 3 { // again and again, whatever lies there from before
		content := slices.Clone(s.content)
		clear(content[hole.Pos:next])
		setFile(t, s.fs, s.file, content)
		_, err := Scan(s.fs, testDir, func(Entry) error { return nil })
		require.NoError(t, err)

		_, r := mustOpen(t, s.fs, testDir, Options{})
		require.Equal(t, Report{
			File: s.file, Entries: len(s.entries) - 3, Seq: hole.Seq - 1,
			CutPos: hole.Pos, CutBytes: int64(len(content)) - hole.Pos, CutFrames: 2,
			SetAside: filepath.Join(testDir, folderName, fmt.Sprintf("%020d.cut-%d", 2, n+1)),
		}, r)
		s.fs = s.fs.PowerCut(nil)
		require.Equal(t, string(content[hole.Pos:]), string(readFile(t, s.fs, r.SetAside)))
		j, _ := mustOpen(t, s.fs, testDir, Options{})
		require.Equal(t, s.states[len(s.states)-4], stateOf(j))
		require.NoError(t, j.Append(committed("z", 0, 0, int64(n))))
		require.NoError(t, j.Close())
		j, r = mustOpen(t, s.fs, testDir, Options{})
		require.Zero(t, r.CutBytes)
		require.Contains(t, stateOf(j).Groups, "z")
		require.NoError(t, j.Close())
	}
	setFile(t, s.fs, filepath.Join(testDir, folderName, fmt.Sprintf("%020d.cut-1", 2)), []byte("rubbish")) // nobody reads it
	j, _ := mustOpen(t, s.fs, testDir, Options{})
	require.NoError(t, j.Close())
}

// The power is cut at each step of a repair: what is cut off is in the file still or set aside.
func TestRepairInterrupted(t *testing.T) {
	s := newSample(t)
	hole := s.entries[len(s.entries)-3]
	clear(s.content[hole.Pos:s.entries[len(s.entries)-2].Pos])
	setFile(t, s.fs, s.file, s.content)
	s.fs = s.fs.PowerCut(nil)
	tail := s.content[hole.Pos:]
	for n, done := 1, false; !done; n++ {
		for seed := range uint64(8) {
			mem := s.fs.PowerCut(nil)
			decide, boot := vfs.CutBefore(mem, n, rand.New(rand.NewPCG(seed, uint64(n))))
			fault := vfs.NewFault(mem, decide)
			j, _, err := Open(fault, testDir, Options{})
			if done = err == nil; done {
				defer j.Close()
			}
			mem = boot()
			file, content := journalFile(t, mem, testDir)
			require.Equal(t, s.file, file)
			if string(content) != string(s.content) {
				aside := readFile(t, mem, filepath.Join(testDir, folderName, "00000000000000000002.cut-1"))
				require.Equal(t, string(tail), string(aside))
			}
			j, _ = mustOpen(t, mem, testDir, Options{})
			require.Equal(t, s.states[len(s.states)-4], stateOf(j))
			require.NoError(t, j.Close())
		}
	}
}

// Where a tail can't be set aside it stays in the file, and Open says why.
func TestNoSpaceToSetAside(t *testing.T) {
	s := newSample(t)
	hole := s.entries[len(s.entries)-3]
	clear(s.content[hole.Pos:s.entries[len(s.entries)-2].Pos])
	setFile(t, s.fs, s.file, s.content)
	before := tree(t, s.fs, testDir)
	for _, kind := range []vfs.Kind{vfs.KindCreate, vfs.KindRead, vfs.KindWrite, vfs.KindSync} {
		_, _, err := Open(vfs.NewFault(s.fs, func(op vfs.Op) (o vfs.Outcome) {
			if op.Kind == kind {
				o.Err = vfs.ErrNoSpace
			}
			return o
		}), testDir, Options{})
		require.ErrorIs(t, err, vfs.ErrNoSpace)
		require.Equal(t, before, tree(t, s.fs, testDir))
	}
}

// appendFrame adds an intact frame, with a valid place unless the change says otherwise.
func (s sample) appendFrame(t testing.TB, f frame) {
	b := f.encode()
	setFile(t, s.fs, s.file, slices.Concat(s.content, []byte{byte(len(b))}, b))
	require.Less(t, len(b), 128)
}

func TestRefusals(t *testing.T) {
	last := func(s sample) Entry { return s.entries[len(s.entries)-1] }
	call := func(s sample, payload string) frame {
		return frame{kind: KindCall, seq: last(s).Seq + 1, synced: last(s).Synced, payload: []byte(payload)}
	}
	folder := filepath.Join(testDir, folderName)
	for name, c := range map[string]struct {
		damage func(t *testing.T, s sample)
		want   error
		names  string
	}{
		"newer event": {func(t *testing.T, s sample) {
			s.appendFrame(t, call(s, `[{"aclCreated":{"id":"x"}}]`))
		}, ErrVersion, "aclCreated"},
		"newer field": {func(t *testing.T, s sample) {
			s.appendFrame(t, call(s, `[{"groupDeleted":{"group":"x","soft":true}}]`))
		}, ErrVersion, "soft"},
		"empty event": {func(t *testing.T, s sample) { s.appendFrame(t, call(s, `[{}]`)) }, ErrVersion, "event 0"},
		"no event":    {func(t *testing.T, s sample) { s.appendFrame(t, call(s, `[]`)) }, ErrVersion, "no event"},
		"not JSON":    {func(t *testing.T, s sample) { s.appendFrame(t, call(s, `[{]`)) }, ErrVersion, "invalid"},
		"more JSON": {func(t *testing.T, s sample) {
			s.appendFrame(t, call(s, `[{"groupDeleted":{"group":"x"}}][]`))
		}, ErrVersion, "after"},
		"newer kind": {func(t *testing.T, s sample) {
			s.appendFrame(t, frame{kind: 'T', seq: last(s).Seq})
		}, ErrVersion, `kind 'T'`},
		"misfit": {func(t *testing.T, s sample) {
			s.appendFrame(t, call(s, `[{"topicDeleted":{"id":"`+topicID(99)+`"}}]`))
		}, ErrCorrupt, "unknown topic"},
		"sequence": {func(t *testing.T, s sample) {
			s.appendFrame(t, frame{kind: KindMark, seq: last(s).Seq + 1})
		}, ErrCorrupt, "sequence"},
		"synced position": {func(t *testing.T, s sample) {
			s.appendFrame(t, frame{kind: KindMark, seq: last(s).Seq, synced: 1 << 40})
		}, ErrCorrupt, "synced"},
		"second snapshot": {func(t *testing.T, s sample) {
			s.appendFrame(t, frame{kind: KindSnapshotEnd, seq: last(s).Seq, payload: []byte(`{}`)})
		}, ErrCorrupt, "out of place"},
		"snapshot frame lost": {func(t *testing.T, s sample) {
			setFile(t, s.fs, s.file, s.content[s.entries[1].Pos:])
		}, ErrCorrupt, "snapshot of 1 frames"},
		"another version": {func(t *testing.T, s sample) {
			setFile(t, s.fs, s.file, []byte(strings.ReplaceAll(string(s.content), frameMagic, "OJ2\n")))
		}, ErrVersion, "OJ2"},
		"empty file":   {func(t *testing.T, s sample) { setFile(t, s.fs, s.file, nil) }, ErrCorrupt, "snapshot"},
		"zeros":        {func(t *testing.T, s sample) { setFile(t, s.fs, s.file, make([]byte, 9999)) }, ErrCorrupt, "snapshot"},
		"file missing": {func(t *testing.T, s sample) { require.NoError(t, s.fs.Remove(s.file)) }, ErrCorrupt, "missing"},
		"second wal file": {func(t *testing.T, s sample) {
			setFile(t, s.fs, strings.TrimSuffix(s.file, "1")+"2.END", nil)
		}, ErrCorrupt, "2.END"},
		"file for a folder": {func(t *testing.T, s sample) {
			setFile(t, s.fs, filepath.Join(folder, strings.Repeat("0", 18)+"77"), nil)
		}, ErrCorrupt, "077"},
		"all generations lost": {func(t *testing.T, s sample) {
			require.NoError(t, s.fs.Rename(filepath.Dir(s.file), filepath.Dir(s.file)+tmpSuffix))
		}, ErrCorrupt, "missing"},
		"but for a tail": {func(t *testing.T, s sample) {
			require.NoError(t, s.fs.RemoveAll(filepath.Dir(s.file)))
			setFile(t, s.fs, filepath.Join(folder, "00000000000000000002.cut-1"), nil)
		}, ErrCorrupt, "missing"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSample(t)
			c.damage(t, s)
			requireRefused(t, s.fs, testDir, c.want, c.names)
		})
	}
}

// A length takes no more bytes than it needs, or a frame could stand at two positions.
func TestLengthIsMinimal(t *testing.T) {
	s := newSample(t)
	b := frame{kind: KindMark, seq: s.entries[len(s.entries)-1].Seq}.encode()
	setFile(t, s.fs, s.file, slices.Concat(s.content, []byte{byte(len(b)) | 0x80, 0}, b))
	j, r := mustOpen(t, s.fs, testDir, Options{})
	require.Equal(t, int64(len(s.content)), r.CutPos)
	require.NoError(t, j.Close())
}

func TestScan(t *testing.T) {
	s := newSample(t)
	before := tree(t, s.fs, testDir)
	stop := errors.New("stop")
	_, err := Scan(s.fs, testDir, func(e Entry) error {
		if e.Kind == KindCall {
			return stop
		}
		return nil
	})
	require.ErrorIs(t, err, stop)
	_, err = Scan(s.fs, "/none", nil)
	require.ErrorIs(t, err, fs.ErrNotExist)

	setFile(t, s.fs, s.file, s.content[:len(s.content)-1])
	r, err := Scan(s.fs, testDir, func(Entry) error { return nil })
	require.NoError(t, err)
	require.Equal(t, s.entries[len(s.entries)-1].Pos, r.CutPos)
	setFile(t, s.fs, s.file, s.content)
	require.Equal(t, before, tree(t, s.fs, testDir))
	files, _, _ := s.fs.Handles()
	require.Zero(t, files)
}

// Scanning beside a writer that snapshots all the time finds states of late, and no damage.
func TestScanBesideWriter(t *testing.T) {
	dir := t.TempDir()
	j := mustCreate(t, vfs.OS, dir, Options{SnapshotBytes: 300})
	require.NoError(t, j.Append(created(0, 1)))
	done := make(chan error, 1)
	go func() {
		var err error
		for n := 0; n < 150 && err == nil; n++ {
			err = j.Write(committed("g", 0, 0, int64(n)))
		}
		done <- err
	}()
	seq := uint64(0)
	for running := true; running; {
		select {
		case err := <-done:
			require.NoError(t, err)
			running = false
		default:
		}
		r, err := Scan(vfs.OS, dir, func(Entry) error { return nil })
		require.NoError(t, err)
		require.GreaterOrEqual(t, r.Seq, seq)
		seq = r.Seq
	}
	require.Equal(t, uint64(151), seq)
	require.NoError(t, j.Close())
}

func FuzzOpen(f *testing.F) {
	s := newSample(f)
	f.Add(s.content)
	f.Add(s.content[:s.base()])
	for _, pos := range []int64{0, 3, s.base() + 1, s.base() + 40, int64(len(s.content)) - 50} {
		content := slices.Clone(s.content)
		content[pos] ^= 0x40
		f.Add(content)
	}
	f.Add(slices.Concat(s.content, make([]byte, 5000), s.content[s.base():]))
	f.Fuzz(func(t *testing.T, content []byte) {
		fsys := newMem(t)
		require.NoError(t, fsys.MkdirAll(filepath.Dir(s.file)))
		setFile(t, fsys, s.file, content)
		j, r, err := Open(fsys, testDir, Options{})
		if err != nil {
			require.True(t, errors.Is(err, ErrCorrupt) || errors.Is(err, ErrVersion), "%v", err)
			_, now := journalFile(t, fsys, testDir)
			require.Equal(t, string(content), string(now))
			return
		}
		if r.CutBytes == 0 {
			_, now := journalFile(t, fsys, testDir)
			require.Equal(t, string(content), string(now))
		}
		require.NoError(t, j.Append(Event{GroupDeleted: &GroupDeleted{"g"}}))
		want := stateOf(j)
		require.NoError(t, j.Close())
		j, r = mustOpen(t, fsys, testDir, Options{})
		require.Equal(t, want, stateOf(j))
		require.Zero(t, r.CutBytes)
		require.NoError(t, j.Close())
	})
}
