package segment

import (
	"bytes"
	"encoding/binary"
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

// sealedBytes returns the content of a segment of n batches that begins at offset 10, and where they are.
func sealedBytes(t testing.TB, n int) ([]byte, []stored) {
	s := create(t, newMem(t), 10, options)
	batches := fill(t, s, rngFor(5), n, ticking())
	return content(t, s), batches
}

func inspect(t testing.TB, b []byte, from Place) Found {
	t.Helper()
	mem := newMem(t)
	path := filepath.Join(dir, Name(10))
	writeFile(t, mem, path, b)
	found, err := Inspect(mem, path, from, math.MaxInt64)
	require.NoError(t, err)
	requireNoHandles(t, mem)
	require.Equal(t, b, readFile(t, mem, path), "nothing is changed")
	return found
}

func TestInspectFindsTheEnd(t *testing.T) {
	b, batches := sealedBytes(t, 20)
	end := Place{int64(len(b)), batches[19].end.Offset}
	for _, zeros := range []int{0, 1, 7, 8, 16, 17, 60, 61, 62, 4095, 4096, 65536, 300_000} {
		padded := append(slices.Clone(b), make([]byte, zeros)...)
		for _, from := range []Place{{0, 10}, batches[7].Place, end} {
			found := inspect(t, padded, from)
			require.Equal(t, Found{Size: int64(len(padded)), Good: from != end, End: end, TailEnd: end.Pos}, found,
				"%d zeros", zeros)
		}
	}
	require.Equal(t, Found{End: Place{0, 10}}, inspect(t, []byte{}, Place{0, 10}))
}

// TestInspectCutsATornTailAtEveryByte: of the last batch only a first part was written, or a last part.
func TestInspectCutsATornTailAtEveryByte(t *testing.T) {
	b, batches := sealedBytes(t, 5)
	last := batches[4]
	for n := last.Pos + 1; n < int64(len(b)); n++ {
		for what, torn := range map[string][]byte{
			"file ends there":    b[:n],
			"zeros follow":       append(slices.Clone(b[:n]), make([]byte, 5000)...),
			"only the rest came": append(append(slices.Clone(b[:last.Pos]), make([]byte, n-last.Pos)...), b[n:]...),
		} {
			found := inspect(t, torn, Place{0, 10})
			if bytes.HasPrefix(torn, b) {
				require.Equal(t, last.end, found.End, "only zeros were lost")
				continue
			}
			require.Equal(t, last.Place, found.End, "%s: %d", what, n)
			require.Empty(t, found.Holes)
			if rest := torn[last.Pos:]; record.IsZero(rest) {
				require.NoError(t, found.Tail)
			} else {
				require.Error(t, found.Tail, "%s: %d", what, n)
				require.EqualValues(t, last.Pos+int64(lastByte(rest)), found.TailEnd)
			}
		}
	}
}

// TestInspectFindsEachFlippedBit flips the header's bits of a batch in the middle: it alone is lost, except for those bits
// that no checksum covers and that don't matter for finding the batch.
func TestInspectFindsEachFlippedBit(t *testing.T) {
	b, batches := sealedBytes(t, 9)
	bad := batches[4]
	for bit := range 8 * (record.HeaderSize + 5) {
		flipped := slices.Clone(b)
		flipped[bad.Pos+int64(bit/8)] ^= 1 << (bit % 8)
		found := inspect(t, flipped, Place{0, 10})
		require.Equal(t, batches[8].end, found.End, "bit %d", bit)
		require.NoError(t, found.Tail, "bit %d", bit)
		if bit/8 >= 12 && bit/8 < 16 { // the leader epoch
			require.Empty(t, found.Holes, "bit %d", bit)
			continue
		}
		require.Len(t, found.Holes, 1, "bit %d", bit)
		require.Equal(t, bad.Place, found.Holes[0].Start, "bit %d", bit)
		require.Equal(t, bad.end, found.Holes[0].End, "bit %d", bit)
		require.Error(t, found.Holes[0].Err)
	}
}

func TestInspectFindsHolesOfZeros(t *testing.T) {
	b, batches := sealedBytes(t, 60)
	require.Greater(t, len(b), 5*vfs.PageSize)
	for page := range len(b) / vfs.PageSize {
		zeroed := slices.Clone(b)
		clear(zeroed[page*vfs.PageSize:][:vfs.PageSize])
		found := inspect(t, zeroed, Place{0, 10})
		require.Equal(t, batches[59].end, found.End)
		require.Len(t, found.Holes, 1)
		first := slices.IndexFunc(batches, func(s stored) bool {
			return !bytes.Equal(b[s.Pos:s.end.Pos], zeroed[s.Pos:s.end.Pos])
		})
		next := slices.IndexFunc(batches, func(s stored) bool { return s.Pos >= int64((page+1)*vfs.PageSize) })
		require.Equal(t, batches[first].Place, found.Holes[0].Start)
		require.Equal(t, batches[next].Place, found.Holes[0].End)
	}
}

func TestInspectListsEveryHole(t *testing.T) {
	b, batches := sealedBytes(t, 30)
	for _, i := range []int{0, 3, 4, 20} {
		b[batches[i].Pos+40] ^= 1
	}
	found := inspect(t, b, Place{0, 10})
	var got [][2]Place
	for _, h := range found.Holes {
		got = append(got, [2]Place{h.Start, h.End})
	}
	require.Equal(t, [][2]Place{
		{batches[0].Place, batches[1].Place},
		{batches[3].Place, batches[5].Place},
		{batches[20].Place, batches[21].Place},
	}, got)
}

// TestInspectTakesNoBatchInsideARecord: a queue may well carry Kafka's batches as values. They are content, also where
// the batch around them is damaged or torn.
func TestInspectTakesNoBatchInsideARecord(t *testing.T) {
	inner := create(t, newMem(t), 1000, options)
	require.NoError(t, put(inner, 20, 1, 2, 3))
	value := append(make([]byte, 3000), content(t, inner)...)

	s := create(t, newMem(t), 10, options)
	fill(t, s, rngFor(1), 1, ticking())
	outer := Place{s.Size(), s.Next()}
	require.NoError(t, putRecords(s, record.Record{Time: time.UnixMilli(1), Value: value}))
	behind := Place{s.Size(), s.Next()}
	torn := content(t, s)
	require.NoError(t, put(s, 20, 1))
	whole := content(t, s)

	require.Empty(t, inspect(t, whole, Place{0, 10}).Holes)
	for _, at := range []int64{17, 30, 61, 2000} {
		whole, torn := slices.Clone(whole), slices.Clone(torn)
		whole[outer.Pos+at] ^= 1
		found := inspect(t, whole, Place{0, 10})
		require.Len(t, found.Holes, 1)
		require.Equal(t, Hole{outer, behind, found.Holes[0].Err}, found.Holes[0])

		torn[outer.Pos+at] ^= 1
		found = inspect(t, append(torn, make([]byte, 4096)...), Place{0, 10})
		require.Empty(t, found.Holes)
		require.Equal(t, outer, found.End)
		require.Error(t, found.Tail)
	}
}

// TestInspectBelievesNoOffsetThatDoesntFollow: base offsets stand outside of the checksum.
func TestInspectBelievesNoOffsetThatDoesntFollow(t *testing.T) {
	b, batches := sealedBytes(t, 9)
	for _, delta := range []int64{-3, -1, 1, 5, 1 << 20, 1 << 40} {
		moved := slices.Clone(b)
		record.SetBase(moved[batches[4].Pos:], batches[4].Offset+delta, 0)
		found := inspect(t, moved, Place{0, 10})
		require.Equal(t, batches[8].end, found.End, "moved by %d", delta)
		require.Len(t, found.Holes, 1)
		require.Equal(t, batches[5].Place, found.Holes[0].End)
	}
}

// TestInspectOfRubbish: whatever is in the file, it ends, and what it calls good is good.
func TestInspectOfRubbish(t *testing.T) {
	b, _ := sealedBytes(t, 30)
	for seed := range uint64(300) {
		rng := rngFor(seed)
		mutated := mutate(rng, slices.Clone(b))
		found := inspect(t, mutated, Place{0, 10})
		require.LessOrEqual(t, found.End.Pos, found.TailEnd)
		require.LessOrEqual(t, found.TailEnd, found.Size)
		at := Place{0, 10}
		for _, h := range append(found.Holes, Hole{Start: found.End, End: found.End}) {
			require.LessOrEqual(t, at.Pos, h.Start.Pos)
			for at.Pos < h.Start.Pos {
				batch, err := record.Parse(mutated[at.Pos:])
				require.NoError(t, err)
				require.Equal(t, at.Offset, batch.Header().BaseOffset)
				at = Place{at.Pos + int64(batch.Header().Size()), batch.Header().NextOffset()}
			}
			require.Equal(t, at, h.Start)
			require.LessOrEqual(t, h.Start.Pos, h.End.Pos)
			require.LessOrEqual(t, h.Start.Offset, h.End.Offset)
			at = h.End
		}
	}
}

// mutate damages b in a few places.
func mutate(rng *rand.Rand, b []byte) []byte {
	for range 1 + rng.IntN(6) {
		if len(b) == 0 {
			return b
		}
		at := rng.IntN(len(b))
		to := min(len(b), at+rng.IntN(3000))
		switch rng.IntN(7) {
		case 0:
			b = b[:at]
		case 1:
			clear(b[at:to])
		case 2:
			b[at] ^= 1 << rng.IntN(8)
		case 3:
			b = append(b, make([]byte, rng.IntN(9000))...)
		case 4:
			b = slices.Delete(b, at, to)
		case 5:
			b = slices.Insert(b, at, slices.Clone(b[at:to])...)
		case 6:
			if to-at >= 4 {
				binary.BigEndian.PutUint32(b[at:], rng.Uint32())
			}
		}
	}
	return b
}

// TestResyncEqualsInspect: a reader finds the same good batches as a recovery.
func TestResyncEqualsInspect(t *testing.T) {
	b, batches := sealedBytes(t, 20)
	b[batches[6].Pos+30] ^= 1
	b[batches[15].Pos+30] ^= 1
	mem := newMem(t)
	writeFile(t, mem, filepath.Join(dir, Name(10)), b)
	v, err := OpenSealed(mem, dir, 10, int64(len(b)), batches[19].end.Offset).Acquire()
	require.NoError(t, err)
	defer v.Release()
	for _, h := range inspect(t, b, Place{0, 10}).Holes {
		to, ok, err := v.Resync(h.Start)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, h.End, to)
	}
	end := batches[19].end
	to, ok, err := v.Resync(end)
	require.NoError(t, err)
	require.False(t, ok)
	require.Equal(t, end, to)
}

func TestCorruptionErrorSaysWhereAndWhat(t *testing.T) {
	err := error(&CorruptionError{Path: "a/b.log", Start: 100, End: 200, FirstOffset: 5, NextOffset: 8, Err: fmt.Errorf("why")})
	require.ErrorIs(t, err, ErrCorrupt)
	for _, part := range []string{"a/b.log", "100", "200", "5", "7", "why"} {
		require.ErrorContains(t, err, part)
	}
}
