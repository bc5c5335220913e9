package log_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/record"
	"github.com/ottlalog/ottla/segment"
)

// outcome is what is left of a log after damage.
type outcome struct {
	lost   [][2]int64 // offsets that can't be read
	end    int64
	known  int  // ranges that Open reports
	cut    bool // Open has cut off a torn tail
	asides int  // files set aside
}

// subject is a log of many segments, closed in peace or killed, to be damaged.
type subject struct {
	mem    *vfs.Mem
	segs   []onDisk
	sealed onDisk // one in the middle
	active onDisk // the last one
	end    int64
}

func newSubject(t testing.TB, cfg log.Config, closed bool) subject {
	t.Helper()
	mem := newMem(t)
	l := open(t, mem, cfg)
	for len(segmentsOf(t, mem)) < 6 {
		fill(t, l, 1, 2)
	}
	for range 8 { // above the recovery point, which was stored when the last segment was sealed
		fill(t, l, 1, 2)
	}
	end := l.End()
	if closed {
		require.NoError(t, l.Close())
	} else {
		mem = mem.Kill()
	}
	segs := segmentsOf(t, mem)
	require.Len(t, segs, 6)
	return subject{mem, segs, segs[2], segs[5], end}
}

// damages are all that is done to files, with what is expected for a log that was closed, or killed under SyncAlways, or
// killed under another policy.
var damages = []struct {
	name   string
	damage func(t testing.TB, s subject)
	closed func(s subject) outcome
	always func(s subject) outcome // nil: as closed
	other  func(s subject) outcome // nil: as always
}{
	{name: "none", damage: func(testing.TB, subject) {}, closed: whole},

	{name: "sealed: bit flipped in a batch",
		damage: func(t testing.TB, s subject) { edit(t, s.mem, s.sealed.path, flipAt(s.sealed.batches[3].pos+70)) },
		closed: func(s subject) outcome { return s.without(0, s.sealed.batches[3]) }},
	{name: "sealed: bit flipped in a base offset",
		damage: func(t testing.TB, s subject) { edit(t, s.mem, s.sealed.path, flipAt(s.sealed.batches[3].pos+6)) },
		closed: func(s subject) outcome { return s.without(0, s.sealed.batches[3]) }},
	{name: "sealed: bit flipped in a length",
		damage: func(t testing.TB, s subject) { edit(t, s.mem, s.sealed.path, flipAt(s.sealed.batches[3].pos+10)) },
		closed: func(s subject) outcome { return s.without(0, s.sealed.batches[3]) }},
	{name: "sealed: zeros over two batches",
		damage: func(t testing.TB, s subject) {
			edit(t, s.mem, s.sealed.path, zeroFrom(s.sealed.batches[3].pos, s.sealed.batches[4].end-s.sealed.batches[3].pos))
		},
		closed: func(s subject) outcome { return s.without(0, s.sealed.batches[3], s.sealed.batches[4]) }},
	{name: "sealed: first batch",
		damage: func(t testing.TB, s subject) { edit(t, s.mem, s.sealed.path, flipAt(20)) },
		closed: func(s subject) outcome { return s.without(0, s.sealed.batches[0]) }},
	{name: "sealed: last batch",
		damage: func(t testing.TB, s subject) { edit(t, s.mem, s.sealed.path, flipAt(s.sealed.end()-1)) },
		closed: func(s subject) outcome { return s.without(0, last(s.sealed.batches)) }},
	{name: "sealed: cut inside a batch",
		damage: func(t testing.TB, s subject) { edit(t, s.mem, s.sealed.path, cutAt(s.sealed.batches[5].pos+50)) },
		closed: func(s subject) outcome { return s.without(0, s.sealed.batches[5:]...) }},
	{name: "sealed: cut between batches, as an older copy is",
		damage: func(t testing.TB, s subject) { edit(t, s.mem, s.sealed.path, cutAt(s.sealed.batches[5].pos)) },
		closed: func(s subject) outcome { return s.without(0, s.sealed.batches[5:]...) }},
	{name: "sealed: empty",
		damage: func(t testing.TB, s subject) { edit(t, s.mem, s.sealed.path, cutAt(0)) },
		closed: func(s subject) outcome { return s.without(0, s.sealed.batches...) }},
	{name: "sealed: zeros behind",
		damage: func(t testing.TB, s subject) {
			edit(t, s.mem, s.sealed.path, extended(s.sealed.end(), make([]byte, 5000)))
		},
		closed: whole},
	{name: "sealed: rubbish behind",
		damage: func(t testing.TB, s subject) {
			edit(t, s.mem, s.sealed.path, extended(s.sealed.end(), bytes.Repeat([]byte("\x02no batch"), 500)))
		},
		closed: whole},
	{name: "sealed: removed",
		damage: func(t testing.TB, s subject) { edit(t, s.mem, s.sealed.path, removed) },
		closed: func(s subject) outcome { return s.without(0, s.sealed.batches...) }},
	{name: "first segment removed",
		damage: func(t testing.TB, s subject) { edit(t, s.mem, s.segs[0].path, removed) },
		closed: func(s subject) outcome { return s.without(1, s.segs[0].batches...) }},

	{name: "index removed",
		damage: func(t testing.TB, s subject) { edit(t, s.mem, indexOf(s.sealed), removed) }, closed: whole},
	{name: "index cut",
		damage: func(t testing.TB, s subject) { edit(t, s.mem, indexOf(s.sealed), cutAt(70)) }, closed: whole},
	{name: "index of another segment",
		damage: func(t testing.TB, s subject) {
			writeFile(t, s.mem, indexOf(s.sealed), readFile(t, s.mem, indexOf(s.segs[0])))
		}, closed: whole},

	{name: "active: bit flipped in a batch",
		damage: func(t testing.TB, s subject) { edit(t, s.mem, s.active.path, flipAt(s.active.batches[4].pos+70)) },
		closed: func(s subject) outcome { return s.without(0, s.active.batches[4]) },
		always: func(s subject) outcome { return s.without(1, s.active.batches[4]) },
		other:  func(s subject) outcome { return outcome{end: s.active.batches[4].base, asides: 1} }},
	{name: "active: last batch",
		damage: func(t testing.TB, s subject) { edit(t, s.mem, s.active.path, flipAt(last(s.active.batches).pos+70)) },
		closed: func(s subject) outcome { return s.without(0, last(s.active.batches)) },
		always: func(s subject) outcome { return outcome{end: last(s.active.batches).base, cut: true} }},
	{name: "active: below the recovery point",
		damage: func(t testing.TB, s subject) { edit(t, s.mem, s.active.path, flipAt(20)) },
		closed: func(s subject) outcome { return s.without(0, s.active.batches[0]) }},
	{name: "active: cut inside a batch",
		damage: func(t testing.TB, s subject) { edit(t, s.mem, s.active.path, cutAt(s.active.batches[4].pos+50)) },
		closed: func(s subject) outcome { return s.without(1, s.active.batches[4:]...) },
		always: func(s subject) outcome { return outcome{end: s.active.batches[4].base, cut: true} }},
	{name: "active: cut between batches",
		damage: func(t testing.TB, s subject) { edit(t, s.mem, s.active.path, cutAt(s.active.batches[4].pos)) },
		closed: func(s subject) outcome { return s.without(1, s.active.batches[4:]...) },
		always: func(s subject) outcome { return outcome{end: s.active.batches[4].base} }},
	{name: "active: cut below the recovery point",
		damage: func(t testing.TB, s subject) { edit(t, s.mem, s.active.path, cutAt(10)) },
		closed: func(s subject) outcome { return s.without(1, s.active.batches...) },
		always: func(s subject) outcome { // no more is known to have been there
			return outcome{end: s.active.batches[0].next, known: 1, lost: [][2]int64{{s.active.base, s.active.batches[0].next}}}
		}},
	{name: "active: removed",
		damage: func(t testing.TB, s subject) { edit(t, s.mem, s.active.path, removed) },
		closed: func(s subject) outcome { return s.without(1, s.active.batches...) },
		always: func(s subject) outcome {
			return outcome{end: s.active.batches[0].next, known: 1, lost: [][2]int64{{s.active.base, s.active.batches[0].next}}}
		}},
	{name: "active: rubbish behind",
		damage: func(t testing.TB, s subject) {
			edit(t, s.mem, s.active.path, extended(s.active.end(), bytes.Repeat([]byte("\x02no batch"), 500)))
		},
		closed: func(s subject) outcome { return outcome{end: s.end, cut: true} }},

	{name: "recovery point removed",
		damage: func(t testing.TB, s subject) { edit(t, s.mem, pointPath, removed) }, closed: whole},
	{name: "recovery point empty",
		damage: func(t testing.TB, s subject) { edit(t, s.mem, pointPath, cutAt(0)) }, closed: whole},
	{name: "recovery point cut",
		damage: func(t testing.TB, s subject) { edit(t, s.mem, pointPath, cutAt(4100)) }, closed: whole},
	{name: "recovery point of rubbish",
		damage: func(t testing.TB, s subject) { writeFile(t, s.mem, pointPath, bytes.Repeat([]byte("12345\n"), 2000)) },
		closed: whole},
	{name: "recovery point of zeros",
		damage: func(t testing.TB, s subject) { writeFile(t, s.mem, pointPath, make([]byte, 8192)) }, closed: whole},
	{name: "recovery point: each slot's newest byte",
		damage: func(t testing.TB, s subject) {
			edit(t, s.mem, pointPath, func(b []byte) []byte { b[24] ^= 1; b[4096+24] ^= 1; return b })
		}, closed: whole},
	{name: "recovery point removed and the last batch damaged",
		damage: func(t testing.TB, s subject) {
			edit(t, s.mem, pointPath, removed)
			edit(t, s.mem, s.active.path, flipAt(last(s.active.batches).pos+70))
		},
		closed: func(s subject) outcome { return outcome{end: last(s.active.batches).base, asides: 1} }},
	{name: "recovery point removed and a batch damaged",
		damage: func(t testing.TB, s subject) {
			edit(t, s.mem, pointPath, removed)
			edit(t, s.mem, s.active.path, flipAt(s.active.batches[4].pos+70))
			edit(t, s.mem, s.sealed.path, flipAt(s.sealed.batches[4].pos+70))
		},
		closed: func(s subject) outcome { return s.without(2, s.sealed.batches[4], s.active.batches[4]) }},
}

var pointPath = filepath.Join(dir, "recovery-point")

func indexOf(s onDisk) string { return strings.TrimSuffix(s.path, ".log") + ".index" }

func last(b []batchOnDisk) batchOnDisk { return b[len(b)-1] }

func whole(s subject) outcome { return outcome{end: s.end} }

// without is the outcome when batches that follow each other, or don't, are lost.
func (s subject) without(known int, batches ...batchOnDisk) outcome {
	o := outcome{end: s.end, known: known}
	for _, b := range batches {
		if n := len(o.lost); n > 0 && o.lost[n-1][1] == b.base {
			o.lost[n-1][1] = b.next
			continue
		}
		o.lost = append(o.lost, [2]int64{b.base, b.next})
	}
	return o
}

func TestDamage(t *testing.T) {
	for _, d := range damages {
		for _, closed := range []bool{true, false} {
			for _, policy := range []log.SyncPolicy{log.SyncAlways, log.SyncInterval(time.Hour), log.SyncNever} {
				t.Run(fmt.Sprintf("%s/closed %v/sync %v", d.name, closed, policy), func(t *testing.T) {
					cfg := log.Config{SegmentBytes: 4096, Sync: policy}
					s := newSubject(t, cfg, closed)
					want := d.closed
					if !closed && d.always != nil {
						want = d.always
						if d.other != nil && policy != log.SyncAlways {
							want = d.other
						}
					}
					d.damage(t, s)
					requireOutcome(t, s, cfg, want(s))
				})
			}
		}
	}
}

// requireOutcome opens the damaged log, reads it, goes on appending, and opens it again and again.
func requireOutcome(t *testing.T, s subject, cfg log.Config, want outcome) {
	t.Helper()
	before := snapshot(t, s.mem)
	l := open(t, s.mem, cfg)
	rec := l.Recovery()
	require.Equal(t, want.end, l.End())
	require.EqualValues(t, 0, l.Start())
	require.Len(t, rec.Damage, want.known, "%v", rec.Damage)
	require.Equal(t, want.cut, rec.Cut > 0, "%d bytes cut", rec.Cut)
	require.Len(t, rec.SetAside, want.asides)
	require.Equal(t, want.lost, readWithGaps(t, l))
	require.NoError(t, l.Close())
	requireNothingDeleted(t, before, snapshot(t, s.mem), rec.Cut)

	opened := snapshot(t, s.mem)
	l = open(t, s.mem, cfg)
	require.Equal(t, want.end, l.End())
	require.NoError(t, l.Close())
	require.Equal(t, opened, snapshot(t, s.mem), "opening again changes nothing")

	l = open(t, s.mem, cfg)
	fill(t, l, 40, 2)
	require.Equal(t, want.lost, readWithGaps(t, l))
	seekEverywhere(t, l, want.lost)
	l = open(t, s.mem.Kill(), cfg)
	require.EqualValues(t, want.end+80, l.End())
	require.Equal(t, want.lost, readWithGaps(t, l))
	require.NoError(t, l.Close())
}

// readWithGaps reads all, skips what is damaged, and returns the gaps. All else must be dense and right.
func readWithGaps(t testing.TB, l *log.Log) (gaps [][2]int64) {
	t.Helper()
	r, err := l.NewReader(l.Start())
	require.NoError(t, err)
	defer r.Close()
	next := l.Start()
	for {
		b, err := r.Next(l.End())
		if err == io.EOF {
			require.Equal(t, l.End(), r.Offset())
			return gaps
		}
		var damage *segment.CorruptionError
		if errors.As(err, &damage) {
			require.ErrorIs(t, err, log.ErrCorrupt)
			require.Equal(t, next, damage.FirstOffset)
			require.Greater(t, damage.NextOffset, damage.FirstOffset, "it goes on")
			require.LessOrEqual(t, damage.Start, damage.End)
			_, again := r.Next(l.End())
			require.Equal(t, err, again, "until it is skipped")
			gaps = append(gaps, [2]int64{damage.FirstOffset, damage.NextOffset})
			require.NoError(t, r.Skip())
			require.NoError(t, r.Skip(), "skipping twice is skipping once")
			require.Equal(t, damage.NextOffset, r.Offset())
			next = damage.NextOffset
			continue
		}
		require.NoError(t, err)
		next = requireValues(t, b, next)
	}
}

func requireValues(t testing.TB, b record.Batch, next int64) int64 {
	t.Helper()
	it := b.Records()
	var rec record.Record
	for it.Next(&rec) {
		require.Equal(t, next, rec.Offset)
		require.Equal(t, string(value(next)), string(rec.Value))
		next++
	}
	require.NoError(t, it.Err())
	return next
}

// seekEverywhere reads from every offset: damage elsewhere is no matter.
func seekEverywhere(t testing.TB, l *log.Log, lost [][2]int64) {
	t.Helper()
	r, err := l.NewReader(0)
	require.NoError(t, err)
	defer r.Close()
	for offset := range l.End() {
		require.NoError(t, r.SeekTo(offset))
		b, err := r.Next(l.End())
		gap := slices.IndexFunc(lost, func(g [2]int64) bool { return g[0] <= offset && offset < g[1] })
		if gap < 0 {
			require.NoError(t, err, "offset %d", offset)
			require.LessOrEqual(t, b.Header().BaseOffset, offset)
			require.Greater(t, b.Header().NextOffset(), offset)
			continue
		}
		var damage *segment.CorruptionError
		require.ErrorAs(t, err, &damage, "offset %d", offset)
		require.Equal(t, lost[gap][1], damage.NextOffset, "offset %d", offset)
	}
}

// requireNothingDeleted: what a file held is still there, or in a file set aside, or was reported as cut.
func requireNothingDeleted(t testing.TB, before, after map[string]string, cut int64) {
	t.Helper()
	for path, old := range before {
		if filepath.Ext(path) != ".log" {
			continue
		}
		have := after[path]
		for n := 1; ; n++ {
			part, ok := after[fmt.Sprintf("%s.%d.aside", path, n)]
			if !ok {
				break
			}
			have += part
		}
		old, have = strings.TrimRight(old, "\x00"), strings.TrimRight(have, "\x00")
		require.LessOrEqual(t, int64(len(old)-len(have)), cut+16, path)
		require.True(t, strings.HasPrefix(old, have), path)
	}
}

// TestTheRecoveryPointSurvivesADamagedSlot: one slot is enough, and never one that is ahead.
func TestTheRecoveryPointSurvivesADamagedSlot(t *testing.T) {
	cfg := log.Config{SegmentBytes: 4096}
	s := newSubject(t, cfg, true)
	saved := snapshot(t, s.mem)
	for pos := int64(0); pos < 8192; pos++ {
		if pos%4096 >= 70 {
			continue
		}
		mem := newMem(t)
		for path, content := range saved {
			writeFile(t, mem, path, []byte(content))
		}
		edit(t, mem, pointPath, flipAt(pos))
		l := open(t, mem, cfg)
		require.Equal(t, s.end, l.End(), "byte %d", pos)
		require.EqualValues(t, s.end, readAll(t, l, 0))
		require.Zero(t, l.Recovery().Damage)
		require.NoError(t, l.Close())
	}
}

// TestAnOlderRecoveryPointCostsOnlyTime: the log itself decides where it ends.
func TestAnOlderRecoveryPointCostsOnlyTime(t *testing.T) {
	for _, truncated := range []bool{false, true} {
		mem := newMem(t)
		l := open(t, mem, small)
		fill(t, l, 50, 3)
		require.NoError(t, l.Close())
		old := readFile(t, mem, pointPath)
		l = open(t, mem, small)
		if truncated { // the old point is not at a batch's start then
			require.NoError(t, l.Truncate(t.Context(), 141))
			fill(t, l, 1, 20)
		}
		end := fill(t, l, 5, 1)
		mem = mem.Kill()
		writeFile(t, mem, pointPath, old)
		l = open(t, mem, small)
		require.Equal(t, end, l.End())
		require.EqualValues(t, end, readAll(t, l, 0))
		require.Empty(t, l.Recovery().Damage)
		require.Zero(t, l.Recovery().Cut)
	}
}

// TestLostSegmentsAreNoNewLog: a recovery point without segments is refused, and nothing is touched.
func TestLostSegmentsAreNoNewLog(t *testing.T) {
	for _, ruined := range []bool{false, true} {
		s := newSubject(t, small, true)
		for _, seg := range s.segs {
			edit(t, s.mem, seg.path, removed)
		}
		if ruined {
			edit(t, s.mem, pointPath, func(b []byte) []byte { return bytes.Repeat([]byte{7}, len(b)) })
		}
		before := snapshot(t, s.mem)
		_, err := log.Open(s.mem, dir, small)
		require.ErrorIs(t, err, log.ErrCorrupt)
		require.ErrorContains(t, err, dir)
		require.Equal(t, before, snapshot(t, s.mem))
		requireClosed(t, s.mem)
	}
}

// TestSegmentsThatOverlapAreRefused: a stray copy must not make the end go back.
func TestSegmentsThatOverlapAreRefused(t *testing.T) {
	s := newSubject(t, small, true)
	writeFile(t, s.mem, filepath.Join(dir, segment.Name(s.active.batches[2].base)),
		readFile(t, s.mem, s.active.path)[s.active.batches[2].pos:s.active.batches[4].pos])
	before := snapshot(t, s.mem)
	_, err := log.Open(s.mem, dir, small)
	require.ErrorIs(t, err, log.ErrCorrupt)
	require.Equal(t, before, snapshot(t, s.mem))
}

// TestFilesThatCantBeReadAreErrors, and neither missing nor empty.
func TestFilesThatCantBeReadAreErrors(t *testing.T) {
	s := newSubject(t, small, false)
	before := snapshot(t, s.mem)
	for _, path := range []string{s.active.path, pointPath, dir} {
		fault := vfs.NewFault(s.mem, func(op vfs.Op) (o vfs.Outcome) {
			if op.Name == path {
				o.Err = errInjected
			}
			return o
		})
		_, err := log.Open(fault, dir, small)
		require.ErrorIs(t, err, errInjected)
		require.ErrorContains(t, err, path)
		require.NotErrorIs(t, err, log.ErrCorrupt)
		require.True(t, maps.Equal(before, snapshot(t, s.mem)))
	}
}

// TestTheFirstRecordsMayBeCutToo: before anything was synced there is a recovery point that says so. What the kernel hasn't
// written of the very first batches is an unfinished append, then, and no damage.
func TestTheFirstRecordsMayBeCutToo(t *testing.T) {
	cfg := log.Config{SegmentBytes: 4096, Sync: log.SyncNever}
	mem := newMem(t)
	l := open(t, mem, cfg)
	for range 3 {
		appendOne(t, l)
	}
	mem = mem.Kill()
	seg := segmentsOf(t, mem)[0]
	edit(t, mem, seg.path, zeroFrom(seg.batches[1].pos, seg.batches[1].end-seg.batches[1].pos))
	l = open(t, mem, cfg)
	require.Empty(t, l.Recovery().Damage)
	require.Len(t, l.Recovery().SetAside, 1)
	require.EqualValues(t, 1, l.End())
}
