package segment

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const dir = "p-0"

func newMem(t testing.TB) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem("")
	require.NoError(t, mem.MkdirAll(dir))
	return mem
}

var options = Options{Capacity: 1 << 20}

func create(t testing.TB, fs vfs.FS, base int64, o Options) *Segment {
	t.Helper()
	s, err := Create(fs, dir, base, o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Abandon() })
	return s
}

// reopen seals s and opens it again for appending, as a next process does.
func reopen(t testing.TB, s *Segment) *Segment {
	t.Helper()
	require.NoError(t, s.Seal())
	s, err := OpenActive(s.fs, filepath.Dir(s.path), s.base, s.Size(), s.Next(), options)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Abandon() })
	return s
}

// put appends one batch of a record for each timestamp, with values of size bytes that tell their offset.
func put(s *Segment, size int, times ...int64) error {
	recs := make([]record.Record, len(times))
	for i, ms := range times {
		recs[i] = record.Record{Time: time.UnixMilli(ms), Value: valueOf(s.Next()+int64(i), size)}
	}
	return putRecords(s, recs...)
}

func putRecords(s *Segment, recs ...record.Record) error {
	l, err := record.Plan(recs, 0)
	if err != nil {
		return err
	}
	h := record.HeaderAt(s.Next(), 0)
	return s.Append(&h, &l, recs)
}

func valueOf(offset int64, size int) []byte {
	v := make([]byte, size)
	copy(v, fmt.Sprintf("<%d>", offset))
	return v
}

// stored is what a test knows of a batch.
type stored struct {
	Place
	end   Place
	times []int64
}

// fill appends n batches of 1 to 9 records with odd sizes, one after the other, and returns them.
func fill(t testing.TB, s *Segment, rng *rand.Rand, n int, clock func() int64) []stored {
	t.Helper()
	var all []stored
	for range n {
		b := stored{Place: Place{s.Size(), s.Next()}}
		for range 1 + rng.IntN(9) {
			b.times = append(b.times, clock())
		}
		require.NoError(t, put(s, rng.IntN(300), b.times...))
		b.end = Place{s.Size(), s.Next()}
		all = append(all, b)
	}
	return all
}

// content returns all published bytes.
func content(t testing.TB, s *Segment) []byte {
	t.Helper()
	v, err := s.Acquire()
	require.NoError(t, err)
	defer v.Release()
	b := make([]byte, s.Size()+10)
	n, err := v.ReadAt(b, 0)
	require.NoError(t, err)
	require.EqualValues(t, s.Size(), n)
	return b[:n]
}

// requireBatches walks over bytes and checks that they are the batches.
func requireBatches(t testing.TB, b []byte, want []stored) {
	t.Helper()
	pos := int64(0)
	for _, w := range want {
		require.Equal(t, w.Pos, pos)
		batch, err := record.Parse(b[pos:])
		require.NoError(t, err)
		require.Equal(t, w.Offset, batch.Header().BaseOffset)
		require.EqualValues(t, len(w.times), batch.Header().Count)
		require.NoError(t, batch.Validate())
		pos += int64(batch.Header().Size())
	}
	require.EqualValues(t, len(b), pos)
}

// writeFile replaces a file's content.
func writeFile(t testing.TB, fs vfs.FS, name string, content []byte) {
	t.Helper()
	require.NoError(t, removeIfThere(fs, name))
	f, err := fs.Create(name)
	require.NoError(t, err)
	_, err = f.WriteAt(content, 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func readFile(t testing.TB, fs vfs.FS, name string) []byte {
	t.Helper()
	f, err := fs.OpenRead(name)
	require.NoError(t, err)
	defer f.Close()
	size, err := f.Size()
	require.NoError(t, err)
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	if n < len(b) {
		require.NoError(t, err)
	}
	return b
}

func rngFor(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }
