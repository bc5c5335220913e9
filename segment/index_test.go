package segment

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/record"
)

// clocks are the kinds of timestamps that producers send.
var clocks = map[string]func(*rand.Rand) func() int64{
	"in order": func(*rand.Rand) func() int64 { return ticking() },
	"all the same": func(*rand.Rand) func() int64 {
		return func() int64 { return 7 }
	},
	"interleaved": func(rng *rand.Rand) func() int64 {
		now := int64(0)
		return func() int64 { now += 3; return now - rng.Int64N(100) }
	},
	"backwards": func(*rand.Rand) func() int64 {
		now := int64(10_000)
		return func() int64 { now -= 2; return now }
	},
	"negative": func(rng *rand.Rand) func() int64 {
		return func() int64 { return -1 - rng.Int64N(1000) }
	},
	"extreme": func(rng *rand.Rand) func() int64 {
		return func() int64 {
			return []int64{math.MinInt64, math.MinInt64 + 1, -1, 0, 1, math.MaxInt64 - 1, math.MaxInt64}[rng.IntN(7)]
		}
	},
}

// requireLookups compares a segment's answers with a look at every batch.
func requireLookups(t testing.TB, s *Segment, batches []stored) {
	t.Helper()
	for offset := s.Base(); offset < s.Next()+2; offset++ {
		at, err := s.Lookup(offset)
		require.NoError(t, err)
		i := slices.IndexFunc(batches, func(b stored) bool { return b.Place == at })
		require.GreaterOrEqual(t, i, 0, "offset %d: %v is where a batch begins", offset, at)
		require.LessOrEqual(t, at.Offset, offset)
		holder := slices.IndexFunc(batches, func(b stored) bool { return offset < b.end.Offset })
		if holder >= 0 {
			require.Less(t, batches[holder].Pos-at.Pos, int64(3*indexInterval), "and not far before")
		}
	}
	want := map[int64]bool{math.MinInt64: true, math.MaxInt64: true}
	latest := int64(math.MinInt64)
	for _, b := range batches {
		for _, ms := range b.times {
			want[ms], want[ms+1], want[ms-1] = true, true, true
			latest = max(latest, ms)
		}
	}
	for ms := range want {
		requireTime(t, s, batches, ms)
	}
	got, err := s.MaxTime()
	require.NoError(t, err)
	require.Equal(t, latest, got)
}

func requireTime(t testing.TB, s *Segment, batches []stored, ms int64) {
	t.Helper()
	at, ok, err := s.LookupTime(ms)
	require.NoError(t, err)
	first := slices.IndexFunc(batches, func(b stored) bool { return slices.Max(b.times) >= ms })
	if first < 0 {
		require.False(t, ok, "nothing is as late as %d", ms)
		return
	}
	require.True(t, ok, "time %d", ms)
	i := slices.IndexFunc(batches, func(b stored) bool { return b.Place == at })
	require.GreaterOrEqual(t, i, 0)
	require.LessOrEqual(t, i, first, "time %d: all before is older", ms)
}

func TestLookupsEqualBruteForce(t *testing.T) {
	for name, clock := range clocks {
		t.Run(name, func(t *testing.T) {
			rng := rngFor(3)
			s := create(t, newMem(t), 1000, options)
			now := clock(rng)
			var batches []stored
			for range 4 { // the live part alone, then behind a head
				batches = append(batches, fill(t, s, rng, 30, now)...)
				requireLookups(t, s, batches)
				require.NoError(t, s.Seal())
				requireLookups(t, s, batches)
				requireLookups(t, OpenSealed(s.fs, dir, s.base, s.Size(), s.Next()), batches)
				s = reopen(t, s)
				requireLookups(t, s, batches)
			}
		})
	}
}

// TestIndexOfManyShortRuns: each reopening begins a new live part, and the file must not grow by an entry each time.
func TestIndexOfManyShortRuns(t *testing.T) {
	s := create(t, newMem(t), 0, options)
	var batches []stored
	for range 100 {
		batches = append(batches, fill(t, s, rngFor(1), 1, ticking())...)
		s = reopen(t, s)
	}
	requireLookups(t, s, batches)
	head, err := s.headOf(s.index.Load())
	require.NoError(t, err)
	require.LessOrEqual(t, int64(len(head.entries)), s.Size()/indexInterval+1)
}

func TestIndexKnowsTheTimeOfAppendingToo(t *testing.T) {
	s := create(t, newMem(t), 0, options)
	recs := []record.Record{{Time: time.UnixMilli(5)}}
	l, err := record.Plan(recs, 0)
	require.NoError(t, err)
	h := record.HeaderAt(0, 0)
	h.Attributes, h.MaxTimestamp = record.FlagLogAppendTime, 900
	require.NoError(t, s.Append(&h, &l, recs))
	for range 2 {
		_, ok, err := s.LookupTime(900)
		require.NoError(t, err)
		require.True(t, ok)
		require.NoError(t, s.Seal())
	}
}

// TestIndexFileIsNeverTrusted: whatever is wrong with the file, look-ups give the same answers, and a good one is there
// afterwards.
func TestIndexFileIsNeverTrusted(t *testing.T) {
	mem := newMem(t)
	rng := rngFor(4)
	s := create(t, mem, 0, options)
	batches := fill(t, s, rng, 120, clocks["interleaved"](rng))
	require.NoError(t, s.Seal())
	good := readFile(t, mem, indexPath(s.Path()))
	_, err := decodeIndex(good, coverOf(t, s))
	require.NoError(t, err)

	check := func(bad []byte, what string) {
		writeFile(t, mem, indexPath(s.Path()), bad)
		sealed := OpenSealed(mem, dir, 0, s.Size(), s.Next())
		at, err := sealed.Lookup(s.Next() - 1)
		require.NoError(t, err, what)
		require.Greater(t, at.Pos, s.Size()/2, what)
		if rng.IntN(50) == 0 {
			requireLookups(t, sealed, batches)
		}
		_, err = decodeIndex(readFile(t, mem, indexPath(s.Path())), coverOf(t, s))
		require.NoError(t, err, "%s: rebuilt", what)
	}
	for n := range len(good) {
		check(good[:n], fmt.Sprintf("cut to %d bytes", n))
		flipped := slices.Clone(good)
		flipped[n] ^= 1 << rng.IntN(8)
		check(flipped, fmt.Sprintf("bit flipped in byte %d", n))
	}
	check(make([]byte, len(good)), "zeros")
	check(append(slices.Clone(good), 0), "longer")
	check(make([]byte, 1<<20), "much longer")

	for what, other := range map[string]*Segment{
		"of another base":                     twin(t, newMem(t), 1, 120, rngFor(4)),
		"older":                               twin(t, newMem(t), 0, 119, rngFor(4)),
		"of as many bytes with other content": sameLength(t, s),
	} {
		check(readFile(t, other.fs, indexPath(other.Path())), what)
	}

	require.NoError(t, mem.Remove(indexPath(s.Path())))
	requireLookups(t, OpenSealed(mem, dir, 0, s.Size(), s.Next()), batches)
	requireNoHandles(t, mem)
}

func coverOf(t testing.TB, s *Segment) covered {
	v, err := s.Acquire()
	require.NoError(t, err)
	defer v.Release()
	c, err := v.cover(s.Size())
	require.NoError(t, err)
	return c
}

func twin(t testing.TB, mem *vfs.Mem, base int64, n int, rng *rand.Rand) *Segment {
	s := create(t, mem, base, options)
	fill(t, s, rng, n, clocks["interleaved"](rng))
	require.NoError(t, s.Seal())
	return s
}

// sameLength returns a sealed segment of one batch that is as long as s.
func sameLength(t testing.TB, s *Segment) *Segment {
	other := create(t, newMem(t), 0, options)
	require.NoError(t, put(other, int(s.Size())-record.HeaderSize-12, 3))
	for pad := range 16 {
		if other.Size() == s.Size() {
			break
		}
		other = create(t, newMem(t), 0, options)
		require.NoError(t, put(other, int(s.Size())-record.HeaderSize-4-pad, 3))
	}
	require.Equal(t, s.Size(), other.Size())
	require.NoError(t, other.Seal())
	return other
}

// TestIndexThatCantBeStored: it is derived, so sealing succeeds and look-ups work.
func TestIndexThatCantBeStored(t *testing.T) {
	mem := newMem(t)
	s := create(t, vfs.NewFault(mem, func(op vfs.Op) (o vfs.Outcome) {
		if filepath.Ext(op.Name) == indexSuffix {
			o.Err = vfs.ErrNoSpace
		}
		return o
	}), 0, options)
	batches := fill(t, s, rngFor(1), 60, ticking())
	require.NoError(t, s.Seal())
	requireLookups(t, s, batches)
	requireLookups(t, OpenSealed(s.fs, dir, 0, s.Size(), s.Next()), batches)
	requireNoHandles(t, mem)
}

func TestIndexStepsOverDamage(t *testing.T) {
	mem := newMem(t)
	s := create(t, mem, 0, options)
	batches := fill(t, s, rngFor(1), 100, ticking())
	require.NoError(t, s.Seal())
	b := readFile(t, mem, s.Path())
	b[batches[40].Pos+30] ^= 1
	writeFile(t, mem, s.Path(), b)
	require.NoError(t, mem.Remove(indexPath(s.Path())))
	sealed := OpenSealed(mem, dir, 0, s.Size(), s.Next())
	requireLookups(t, sealed, slices.Delete(slices.Clone(batches), 40, 41))
}

// TestLookupsBesideAppendsAndSealing: whoever looks sees the index before or the index after.
func TestLookupsBesideAppendsAndSealing(t *testing.T) {
	s := create(t, newMem(t), 0, options)
	require.NoError(t, put(s, 10, 50))
	done := make(chan error)
	stop := make(chan struct{})
	for range 2 {
		go func() {
			for {
				select {
				case <-stop:
					done <- nil
					return
				default:
				}
				if _, ok, err := s.LookupTime(50); !ok || err != nil {
					done <- fmt.Errorf("time not found: %w", err)
					return
				}
				if at, err := s.Lookup(s.Next()); err != nil || at.Offset > s.Next() {
					done <- fmt.Errorf("%v: %w", at, err)
					return
				}
			}
		}()
	}
	for range 1000 {
		require.NoError(t, put(s, 100, 1))
	}
	require.NoError(t, s.Seal())
	time.Sleep(time.Millisecond)
	close(stop)
	require.NoError(t, <-done)
	require.NoError(t, <-done)
}
