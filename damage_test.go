package ottla_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla"
	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/internal/vfs/vfstest"
	"github.com/ottlalog/ottla/record"
)

// tree is the content of all files below a folder.
type tree map[string]string

func treeOf(t testing.TB, fsys vfs.FS, dir string) tree {
	t.Helper()
	files := tree{}
	entries, err := fsys.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if e.IsDir() {
			maps.Copy(files, treeOf(t, fsys, path))
			continue
		}
		f, err := fsys.OpenRead(path)
		require.NoError(t, err)
		size, err := f.Size()
		require.NoError(t, err)
		b := make([]byte, size)
		if size > 0 {
			_, err = f.ReadAt(b, 0)
			require.NoError(t, err)
		}
		require.NoError(t, f.Close())
		files[path] = string(b)
	}
	return files
}

// plant makes a file system of the files.
func (files tree) plant(t testing.TB, hostDir string) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem(hostDir)
	for path, content := range files {
		require.NoError(t, mem.MkdirAll(filepath.Dir(path)))
		f, err := mem.Create(path)
		require.NoError(t, err)
		_, err = f.WriteAt([]byte(content), 0)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	return mem.PowerCutWith(vfs.KeepAll)
}

func (files tree) with(path, content string) tree {
	files = maps.Clone(files)
	files[path] = content
	return files
}

func (files tree) without(path string) tree {
	files = maps.Clone(files)
	delete(files, path)
	return files
}

// plantation is a directory as it was at two times, and what it holds at the later one.
type plantation struct {
	older, files tree
	values       map[string]map[int64]string // partition → offset → value
	committed    int64                       // of group g in a/0
}

func newPlantation(t testing.TB) plantation {
	mem := vfs.NewMem(vfstest.HostDir(t))
	var p plantation
	p.values = map[string]map[int64]string{}
	fill := func(b *ottla.Broker, name string, partition, n int) {
		tp, err := b.Topic(name)
		require.NoError(t, err)
		at := place(name, partition)
		if p.values[at] == nil {
			p.values[at] = map[int64]string{}
		}
		for range n {
			offset := tp.Partition(partition).EndOffset()
			v := fmt.Sprintf("%s@%d %s", at, offset, strings.Repeat("x", 400))
			_, err := tp.Partition(partition).Append(t.Context(), []ottla.Record{{Value: []byte(v)}})
			require.NoError(t, err)
			p.values[at][offset] = v
		}
	}
	commit := func(b *ottla.Broker) {
		m, err := b.Group("g").Join(t.Context(), ottla.MemberConfig{Topics: []string{"a"}})
		require.NoError(t, err)
		_, err = m.Poll(t.Context())
		require.NoError(t, err)
		require.NoError(t, m.Commit(t.Context()))
		require.NoError(t, m.Close())
		p.committed, _ = b.Group("g").Committed("a", 0)
	}
	b, err := ottla.Open("/data", ottla.Options{MinFreeBytes: -1}.On(mem))
	require.NoError(t, err)
	for _, name := range []string{"a", "b"} {
		_, err = b.CreateTopic(t.Context(), name, ottla.TopicConfig{Partitions: 2, SegmentBytes: 4096})
		require.NoError(t, err)
		fill(b, name, 0, 15)
		fill(b, name, 1, 14)
	}
	commit(b)
	p.older = treeOf(t, mem, "/data")
	for _, name := range []string{"a", "b"} {
		fill(b, name, 0, 15)
		fill(b, name, 1, 18)
	}
	commit(b)
	require.NoError(t, b.Close())
	p.files = treeOf(t, mem, "/data")
	return p
}

// state is what became of a directory.
type state struct {
	refused error
	whole   map[string]bool // partition → all of it can be read, and nothing is reported
	foreign map[string]bool // partition → it shows another one's records
}

// look opens the directory and uses what can be used. Whatever is in the files: what can be read is what was stored, an
// opening that is refused has changed nothing, and what is appended is there the next time.
func (p plantation) look(t testing.TB, files tree, hostDir, what string) (s state) {
	t.Helper()
	mem := files.plant(t, hostDir)
	opts := ottla.Options{MinFreeBytes: -1}.On(mem)
	b, err := ottla.Open("/data", opts)
	if err != nil {
		now := treeOf(t, mem, "/data")
		delete(now, "/data/ottla.lock")
		require.Equal(t, files.without("/data/ottla.lock"), now, "%s: refused and changed: %v", what, err)
		require.Contains(t, err.Error(), "/data", what)
		return state{refused: err}
	}
	defer func() { require.NoError(t, b.Close(), what) }()
	s.whole, s.foreign = map[string]bool{}, map[string]bool{}
	ends := map[string]int64{}
	for _, tp := range b.Topics() {
		for n := range tp.Partitions() {
			at, part := place(tp.Name(), n), tp.Partition(n)
			if part.Err() != nil {
				require.ErrorIs(t, part.Err(), ottla.ErrNoLeader, what)
				continue
			}
			values, intact := readAnyhow(t, part, what)
			for offset, v := range values {
				owner, _, _ := strings.Cut(v, "@")
				require.Equal(t, p.values[owner][offset], v, "%s: %s offset %d", what, at, offset)
				s.foreign[at] = s.foreign[at] || owner != at
			}
			s.whole[at] = intact && len(values) == len(p.values[at]) && !s.foreign[at]
			end := part.EndOffset()
			_, err := part.Append(t.Context(), []ottla.Record{{Value: []byte("after")}})
			require.NoError(t, err, what)
			ends[at] = end + 1
		}
	}
	require.NoError(t, b.Close(), what)
	b, err = ottla.Open("/data", opts)
	require.NoError(t, err, what)
	for at, end := range ends {
		name, n := at[:1], int(at[2]-'0')
		tp, err := b.Topic(name)
		require.NoError(t, err, what)
		require.Equal(t, end, tp.Partition(n).EndOffset(), what)
		values, _ := readAnyhow(t, tp.Partition(n), what)
		require.Equal(t, "after", values[end-1], what)
	}
	return s
}

// readAnyhow reads what can be read of a partition.
func readAnyhow(t testing.TB, p *ottla.Partition, what string) (values map[int64]string, intact bool) {
	t.Helper()
	r, err := p.NewReader(ottla.Earliest)
	require.NoError(t, err, what)
	defer r.Close()
	values, intact = map[int64]string{}, true
	for range 10_000 {
		recs, err := r.Read(nil, 100)
		for _, rec := range recs {
			values[rec.Offset] = string(rec.Value)
		}
		switch {
		case errors.Is(err, ottla.ErrCorrupt):
			intact = false
			require.NoError(t, r.Skip(), what)
		case err != nil:
			require.NoError(t, err, what)
		case len(recs) == 0:
			return values, intact
		}
	}
	require.Fail(t, "reading doesn't end", what)
	return nil, false
}

// change is what happens to a file.
type change struct {
	name string
	do   func(p plantation, path string) []tree
}

// changes are applied to every file of a directory that was closed in peace.
var changes = []change{
	{"a bit flipped", func(p plantation, path string) (after []tree) {
		content := p.files[path]
		for pos := 0; pos < len(content); pos += max(1, len(content)/61) { // an odd step comes to all fields in the end
			if kindOf(path) == ".log" && isEpoch(content, pos) {
				continue // as in Kafka, outside of the checksum, and no record depends on it
			}
			b := []byte(content)
			b[pos] ^= 1 << (pos % 8)
			after = append(after, p.files.with(path, string(b)))
		}
		return after
	}},
	{"cut", func(p plantation, path string) (after []tree) {
		content := p.files[path]
		for _, n := range []int{0, 1, 7, 8, 16, 60, 61, 62, len(content) / 2, len(content) - 62, len(content) - 1} {
			if n >= 0 && n < len(content) {
				after = append(after, p.files.with(path, content[:n]))
			}
		}
		return after
	}},
	{"zeros behind", func(p plantation, path string) []tree {
		return []tree{p.files.with(path, p.files[path]+string(make([]byte, 5000)))}
	}},
	{"rubbish behind", func(p plantation, path string) []tree {
		return []tree{p.files.with(path, p.files[path]+strings.Repeat("\x02rubbish", 600))}
	}},
	{"an older copy", func(p plantation, path string) []tree {
		if old, ok := p.older[path]; ok && old != p.files[path] {
			return []tree{p.files.with(path, old)}
		}
		return nil
	}},
	{"another partition's", func(p plantation, path string) []tree {
		if other := strings.NewReplacer("/a-0/", "/b-1/", "/b-1/", "/a-0/").Replace(path); other != path {
			if content, ok := p.files[other]; ok {
				return []tree{p.files.with(path, content)}
			}
		}
		return nil
	}},
	{"removed", func(p plantation, path string) []tree { return []tree{p.files.without(path)} }},
}

// isEpoch says whether a byte of a segment belongs to the leader epoch of a batch.
func isEpoch(content string, pos int) bool {
	for at := 0; at < len(content); {
		h, err := record.ParseHeader([]byte(content[at:]))
		if err != nil {
			return false
		}
		if pos < at+h.Size() {
			return pos >= at+12 && pos < at+16
		}
		at += h.Size()
	}
	return false
}

// verdicts say what may become of a directory when a file of a kind is changed: "refused", naming the file's folder; "whole";
// "damaged": its partition alone is; "foreign": that isn't noticed.
var verdicts = map[string]map[string][]string{
	"ottla.lock": {"": {"whole"}},
	"meta":       {"": {"refused"}},
	"journal": {
		"":             {"refused", "whole"}, // whole: the mark at the end says nothing that isn't known without it
		"zeros behind": {"whole"},
		"removed":      {"refused"},
	},
	"recovery-point": {"": {"whole", "damaged"}, "a bit flipped": {"whole"}, "removed": {"whole"}, "zeros behind": {"whole"}, "rubbish behind": {"whole"}},
	".index":         {"": {"whole"}},
	".log": {
		"":             {"damaged"},
		"zeros behind": {"whole"}, "rubbish behind": {"whole", "damaged"},
		// Kafka's format has no place for whose a batch is: what has the offsets that are wanted is believed.
		"another partition's": {"foreign"},
	},
}

func kindOf(path string) string {
	switch base := filepath.Base(path); {
	case base == "ottla.lock" || base == "meta" || base == "recovery-point":
		return base
	case strings.HasPrefix(path, "/data/journal/"):
		return "journal"
	}
	return filepath.Ext(path)
}

// TestDamagedDirectories does every kind of damage to every file of a directory.
func TestDamagedDirectories(t *testing.T) {
	p := newPlantation(t)
	hostDir := vfstest.HostDir(t)
	cases := map[string]int{}
	for _, path := range slices.Sorted(maps.Keys(p.files)) {
		if dir := filepath.Dir(path); dir != "/data" && kindOf(path) != "journal" && dir != "/data/a-0" {
			continue // one partition's are enough
		}
		kind := kindOf(path)
		require.Contains(t, verdicts, kind, path)
		for _, c := range changes {
			allowed := verdicts[kind][c.name]
			if allowed == nil {
				allowed = verdicts[kind][""]
			}
			for i, files := range c.do(p, path) {
				if testing.Short() && i%7 != 0 {
					continue
				}
				what := fmt.Sprintf("%s: %s (%d)", path, c.name, i)
				got := p.verdict(p.look(t, files, hostDir, what), path, t, what)
				require.Contains(t, allowed, got, what)
				cases[kind+" "+got]++
			}
		}
	}
	t.Log(cases)
}

// verdict names a state, and checks that no partition is hurt but the one that the file belongs to.
func (p plantation) verdict(s state, path string, t testing.TB, what string) string {
	if s.refused != nil {
		require.Contains(t, s.refused.Error(), kindOf(path), what)
		return "refused"
	}
	verdict := "whole"
	for at := range p.values {
		if !s.whole[at] {
			require.Contains(t, path, strings.Replace(at, "/", "-", 1), "%s: hurts %s", what, at)
			verdict = "damaged"
		}
		if s.foreign[at] {
			return "foreign"
		}
	}
	return verdict
}

// FuzzOpen changes the files of a directory as the input says, four bytes for each change, and uses what is left.
func FuzzOpen(f *testing.F) {
	p := newPlantation(f)
	paths := slices.Sorted(maps.Keys(p.files))
	hostDir := vfstest.HostDir(f)
	f.Add([]byte{})
	for i := range paths {
		f.Add([]byte{byte(i), 0, 10, 1, byte(i + 3), 1, 0, 2, byte(i + 5), 0, 61, 3})
	}
	f.Fuzz(func(t *testing.T, edits []byte) {
		files := maps.Clone(p.files)
		for edits = edits[:min(len(edits), 40)]; len(edits) >= 4; edits = edits[4:] {
			path := paths[int(edits[0])%len(paths)]
			b := []byte(files[path])
			at := min(len(b), int(edits[1])<<8+int(edits[2]))
			switch op := edits[3]; op % 6 {
			case 0:
				delete(files, path)
				continue
			case 1:
				b = b[:at]
			case 2:
				for i := at; i < min(len(b), at+1+int(op)/6); i++ {
					b[i] ^= op
				}
			case 3:
				b = append(b, bytes.Repeat([]byte{op}, at)...)
			case 4:
				b = []byte(p.files[paths[int(edits[2])%len(paths)]])
			case 5:
				b = slices.Delete(b, at, min(len(b), at+int(op)))
			}
			files[path] = string(b)
		}
		p.look(t, files, hostDir, "fuzz")
	})
}
