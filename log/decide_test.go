package log

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/record"
	"github.com/ottlalog/ottla/segment"
)

// found describes a walk over a file of 100 bytes for each offset: good batches up to end, then tail bytes that are none.
func found(base, end int64, tail int64, holes ...int64) segment.Found {
	place := func(offset int64) segment.Place { return segment.Place{Pos: 100 * (offset - base), Offset: offset} }
	f := segment.Found{Good: end > base, End: place(end)}
	for _, h := range holes {
		f.Holes = append(f.Holes, segment.Hole{Start: place(h), End: place(h + 1), Err: record.ErrCorrupt})
	}
	f.TailEnd = f.End.Pos + tail
	f.Size = f.TailEnd + 1000
	if tail > 0 {
		f.Tail = record.ErrCorrupt
	}
	return f
}

// TestDecide is the table of what a recovery does. Each piece is a segment; the recovery point is at offset 20.
func TestDecide(t *testing.T) {
	type pieces = []piece
	piece := func(base int64, f segment.Found) piece { return piece{base: base, Found: f} }
	keep := func(bytes, next int64) verdict { return verdict{keep: true, bytes: bytes, next: next} }
	keepAside := func(bytes, next int64) verdict { return verdict{keep: true, bytes: bytes, next: next, aside: true} }
	var removed, aside = verdict{}, verdict{aside: true}

	always := known{point: point{offset: 20, base: 20}, ok: true, always: true}
	interval := known{point: point{offset: 20, base: 20}, ok: true}
	nothing := known{}
	for _, c := range []struct {
		name   string
		k      []known
		pieces pieces
		want   []verdict
		end    int64
		damage int
	}{
		{"a clean end", []known{always, interval, nothing},
			pieces{piece(20, found(20, 30, 0))}, []verdict{keep(1000, 30)}, 30, 0},
		{"clean segments", []known{always, interval, nothing},
			pieces{piece(20, found(20, 30, 0)), piece(30, found(30, 35, 0))}, []verdict{keep(1000, 30), keep(500, 35)}, 35, 0},
		{"an empty last one", []known{always, interval, nothing},
			pieces{piece(20, found(20, 30, 0)), piece(30, found(30, 30, 0))}, []verdict{keep(1000, 30), keep(0, 30)}, 30, 0},
		{"a torn tail", []known{always, interval},
			pieces{piece(20, found(20, 30, 50))}, []verdict{keep(1000, 30)}, 30, 0},
		{"a torn tail, and nothing known", []known{nothing},
			pieces{piece(20, found(20, 30, 50))}, []verdict{keepAside(1000, 30)}, 30, 0},
		{"a torn tail in the last two", []known{always, interval},
			pieces{piece(20, found(20, 30, 50)), piece(31, found(31, 31, 70))}, []verdict{keep(1000, 30), removed}, 30, 0},
		{"a hole", []known{always, nothing},
			pieces{piece(20, found(20, 30, 0, 25))}, []verdict{keep(1000, 30)}, 30, 1},
		{"a hole that may be cut", []known{interval},
			pieces{piece(20, found(20, 30, 0, 25, 27)), piece(30, found(30, 31, 0))}, []verdict{keepAside(500, 25), aside}, 25, 0},
		{"a hole between segments", []known{always, nothing},
			pieces{piece(20, found(20, 30, 50)), piece(31, found(31, 35, 0))}, []verdict{keep(2050, 30), keep(400, 35)}, 35, 1},
		{"a hole between segments that may be cut", []known{interval},
			pieces{piece(20, found(20, 30, 50)), piece(31, found(31, 35, 0)), piece(36, found(36, 36, 0))},
			[]verdict{keep(1000, 30), aside, removed}, 30, 0},
		{"bad below the recovery point, at the end", []known{always, interval},
			pieces{piece(10, found(10, 15, 50))}, []verdict{keep(1550, 15)}, 20, 1},
		{"gone below the recovery point, at the end", []known{always, interval},
			pieces{piece(10, found(10, 15, 0)), piece(20, found(20, 20, 0))}, []verdict{keep(500, 15), keep(0, 20)}, 20, 1},
		{"bad below the recovery point, in the middle", []known{always, interval},
			pieces{piece(10, found(10, 30, 0, 15))}, []verdict{keep(2000, 30)}, 30, 1},
		{"bad below and above", []known{interval},
			pieces{piece(10, found(10, 30, 0, 15, 22))}, []verdict{keepAside(1200, 22)}, 22, 1},
	} {
		for _, k := range c.k {
			p, err := decide(c.pieces, c.pieces[0].base, k)
			require.NoError(t, err)
			require.Equal(t, c.want, p.verdicts, c.name)
			require.Equal(t, c.end, p.end, c.name)
			require.Len(t, p.damage, c.damage, c.name)
		}
	}
	_, err := decide(pieces{piece(20, found(20, 30, 0)), piece(25, found(25, 28, 0))}, 20, always)
	require.ErrorIs(t, err, errOverlap)
}

// TestDecideInvariants: whatever was found, no synced offset is given out again, nothing that may have been promised is
// taken off, and what is kept follows from the front.
func TestDecideInvariants(t *testing.T) {
	for seed := range uint64(5000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		k := known{ok: rng.IntN(4) > 0, always: rng.IntN(2) == 0}
		k.offset = rng.Int64N(40)
		var pieces []piece
		for base := rng.Int64N(5); len(pieces) == 0 || rng.IntN(3) > 0; {
			end := base + rng.Int64N(6)
			var holes []int64
			if end-base > 3 && rng.IntN(3) == 0 {
				holes = append(holes, base+1)
			}
			pieces = append(pieces, piece{base: base, Found: found(base, end, rng.Int64N(2)*30, holes...)})
			base = end + 1
			if rng.IntN(2) == 0 && end > pieces[len(pieces)-1].base {
				base = end
			}
		}
		p, err := decide(pieces, pieces[0].base, k)
		require.NoError(t, err)
		if k.ok {
			require.GreaterOrEqual(t, p.end, k.offset, "seed %d", seed)
		}
		dropped := false
		for i, v := range p.verdicts {
			require.False(t, dropped && v.keep, "seed %d: what is kept is in front", seed)
			dropped = dropped || !v.keep
			lost := pieces[i].Good && (!v.keep || v.bytes < pieces[i].End.Pos)
			require.False(t, lost && (k.always || !k.ok), "seed %d: good batches are taken off", seed)
			require.False(t, lost && !v.aside, "seed %d: good batches are kept somewhere", seed)
		}
	}
}

// TestExpired is the table of what retention removes. The last segment is the active one.
func TestExpired(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	at := func(age int64) int64 { return now.UnixMilli() - age }
	for _, c := range []struct {
		name  string
		segs  []held
		bytes int64
		age   time.Duration
		want  int
	}{
		{"nothing set", []held{{bytes: 5, newest: 0}, {bytes: 5}}, 0, 0, 0},
		{"no segments", nil, 1, 1, 0},
		{"only the active", []held{{bytes: 500, newest: 0}}, 1, 1, 0},

		{"older than the age", []held{{newest: at(1001)}, {}}, 0, time.Second, 1},
		{"exactly as old stays", []held{{newest: at(1000)}, {}}, 0, time.Second, 0},
		{"the active stays however old", []held{{newest: at(5000)}, {newest: at(5000)}}, 0, time.Second, 1},
		{"one that is young keeps those behind it", []held{{newest: at(5000)}, {newest: at(10)}, {newest: at(5000)}, {}}, 0, time.Second, 1},
		{"from the future, sealed long ago", []held{{newest: math.MaxInt64, sealedAt: at(1001)}, {}}, 0, time.Second, 1},
		{"from the future, sealed just now", []held{{newest: math.MaxInt64, sealedAt: at(999)}, {}}, 0, time.Second, 0},
		{"from the future, sealed who knows when", []held{{newest: math.MaxInt64}, {}}, 0, time.Second, 0},
		{"no records in it", []held{{newest: math.MinInt64}, {}}, 0, time.Second, 1},
		{"an age beyond all times", []held{{newest: math.MinInt64 + 1}, {}}, 0, math.MaxInt64, 1},

		{"as many bytes as are to stay", []held{{bytes: 10}, {bytes: 10}, {bytes: 10}}, 20, 0, 1},
		{"one less would be too few", []held{{bytes: 10}, {bytes: 10}, {bytes: 9}}, 20, 0, 0},
		{"the active counts", []held{{bytes: 10}, {bytes: 10}, {bytes: 500}}, 20, 0, 2},
		{"empty ones", []held{{}, {}, {bytes: 20}}, 20, 0, 2},
		{"both", []held{{bytes: 10, newest: at(5000)}, {bytes: 10, newest: at(1)}, {bytes: 10, newest: at(1)}}, 10, time.Second, 2},
	} {
		n := expired(c.segs, c.bytes, c.age, now)
		require.Equal(t, c.want, n, c.name)
		require.Zero(t, expired(c.segs[n:], c.bytes, c.age, now), "%s: again", c.name)
	}
}
