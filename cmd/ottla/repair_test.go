package main

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla"
	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/segment"
)

// repairCase is something done to the files of build that a repair cures, at the price of some offsets.
type repairCase struct {
	name string
	do   func(t *testing.T, dir string, s []string) // s: the segments of orders/0
	lost [][2]int64                                 // from an offset up to another
	kept int                                        // files copied or moved away
}

var repairCases = []repairCase{
	{name: "nothing", do: func(*testing.T, string, []string) {}},
	{name: "a batch", kept: 2, lost: [][2]int64{{18, 21}},
		do: func(t *testing.T, _ string, s []string) { flipIn(t, s[0], 18) }},
	{name: "first batch of the log", kept: 2, lost: [][2]int64{{0, 3}},
		do: func(t *testing.T, _ string, s []string) { flipIn(t, s[0], 0) }},
	{name: "last batch of a segment", kept: 2, lost: [][2]int64{{93, 96}},
		do: func(t *testing.T, _ string, s []string) { flipIn(t, s[0], 93) }},
	{name: "all batches of a segment", kept: 2, lost: [][2]int64{{96, 189}},
		do: func(t *testing.T, _ string, s []string) { wipe(t, s[1], 96, 189) }},
	{name: "ranges in all segments", kept: 7, lost: [][2]int64{{3, 9}, {18, 21}, {96, 99}, {189, 192}, {201, 207}},
		do: func(t *testing.T, _ string, s []string) {
			flipIn(t, s[0], 18)
			wipe(t, s[0], 3, 9)
			flipIn(t, s[1], 96)
			wipe(t, s[2], 201, 207)
			flipIn(t, s[2], 189)
		}},
	{name: "records that can't be read", kept: 1, lost: [][2]int64{{18, 21}},
		do: func(t *testing.T, _ string, s []string) { forge(t, s[0], 18, func(b []byte) { b[61] = 1 }) }},
	{name: "sealed segment cut", kept: 2, lost: [][2]int64{{87, 96}},
		do: func(t *testing.T, _ string, s []string) { cutIn(t, s[0], 87) }},
	{name: "sealed segment empty", kept: 2, lost: [][2]int64{{96, 189}},
		do: func(t *testing.T, _ string, s []string) { change(t, s[1], func([]byte) []byte { return nil }) }},
	{name: "segment missing", kept: 2, lost: [][2]int64{{96, 189}},
		do: func(t *testing.T, _ string, s []string) { removeSegment(t, s[1]) }},
	{name: "rubbish behind a segment", kept: 2,
		do: func(t *testing.T, _ string, s []string) { addTo(t, s[0], []byte("rubbish")) }},
	{name: "zeros behind a segment", kept: 2,
		do: func(t *testing.T, _ string, s []string) { addTo(t, s[0], make([]byte, 9000)) }},
	{name: "index", kept: 1,
		do: func(t *testing.T, _ string, s []string) { change(t, indexPath(s[0]), flip(70, 1)) }},
	{name: "range that ends at the recovery point", kept: 3, lost: [][2]int64{{192, 198}},
		do: func(t *testing.T, dir string, s []string) { pointTo(t, dir, s[2], 198); wipe(t, s[2], 192, 198) }},
	{name: "range around the recovery point", kept: 3, lost: [][2]int64{{192, 198}},
		do: func(t *testing.T, dir string, s []string) { pointTo(t, dir, s[2], 195); wipe(t, s[2], 192, 198) }},
	{name: "range that begins at the recovery point", kept: 3, lost: [][2]int64{{192, 198}},
		do: func(t *testing.T, dir string, s []string) { pointTo(t, dir, s[2], 192); wipe(t, s[2], 192, 198) }},
	{name: "range behind the recovery point", kept: 3, lost: [][2]int64{{201, 204}},
		do: func(t *testing.T, dir string, s []string) { pointTo(t, dir, s[2], 192); flipIn(t, s[2], 201) }},
	{name: "range at a recovery point between two segments", kept: 3, lost: [][2]int64{{93, 96}},
		do: func(t *testing.T, dir string, s []string) {
			movePoint(t, dir, func(p *log.RecoveryPoint) { p.Base, p.Offset, p.Pos = 0, 96, int64(sizeOf(t, s[0])) })
			flipIn(t, s[0], 93)
		}},
}

func TestRepair(t *testing.T) {
	for _, c := range repairCases {
		t.Run(c.name, func(t *testing.T) {
			dir := build(t)
			c.do(t, dir, segments(t, dir))
			before := files(t, dir)
			status := statusDamage
			if c.kept == 0 {
				status = statusOK
			}
			out := must(t, status, "repair", "-drop-damaged", dir)
			require.Equal(t, before, files(t, dir), "a dry run")
			summary := fmt.Sprintf("%d offsets", lostIn(c.lost))
			require.Contains(t, out, summary)

			out = must(t, statusOK, "repair", "-drop-damaged", "-yes", dir)
			require.Contains(t, out, summary)
			require.Equal(t, c.kept, strings.Count(out, "kept  "), out)
			requireKept(t, before, files(t, dir), out)
			requireRepaired(t, dir, c.lost)
		})
	}
}

func lostIn(lost [][2]int64) (n int64) {
	for _, r := range lost {
		n += r[1] - r[0]
	}
	return n
}

// requireKept requires that each file named as kept is one of those before the repair, as it was.
func requireKept(t *testing.T, before, after map[string]string, out string) {
	t.Helper()
	content := func(file string) string { return file[strings.LastIndexByte(file, ' ')+1:] }
	for line := range strings.Lines(out) {
		path, ok := strings.CutPrefix(strings.TrimSpace(line), "kept  ")
		if !ok {
			continue
		}
		original, ok := strings.CutSuffix(path, ".1.aside")
		require.True(t, ok, path)
		require.Equal(t, content(before[original]), content(after[path]), path)
	}
}

// requireRepaired requires a sound directory in which orders/0 holds all that build has put there but the lost offsets, and
// goes on.
func requireRepaired(t *testing.T, dir string, lost [][2]int64) {
	t.Helper()
	must(t, statusOK, "verify", dir)
	repaired := files(t, dir)
	require.Contains(t, must(t, statusOK, "repair", "-drop-damaged", "-yes", dir), ": 0 damaged ranges with 0 offsets, 0 indexes\n")
	after := files(t, dir)
	delete(repaired, filepath.Join(dir, "ottla.lock"))
	delete(after, filepath.Join(dir, "ottla.lock"))
	require.Equal(t, repaired, after, "a second run")

	want := offsets(0, 210, lost)
	got, damaged := readAll(t, dir)
	require.Equal(t, want, got)
	require.False(t, damaged)
	b := openBroker(t, dir)
	requireSeeks(t, b, want)
	batchesOf(t, b, "orders", 40) // into the next segment
	require.NoError(t, b.Close())
	got, damaged = readAll(t, dir)
	require.Equal(t, append(want, offsets(210, 330, nil)...), got)
	require.False(t, damaged)
	must(t, statusOK, "verify", dir)
}

// offsets lists those from first up to next but the lost ones.
func offsets(first, next int64, lost [][2]int64) (list []int64) {
	for o := first; o < next; o++ {
		if !slices.ContainsFunc(lost, func(r [2]int64) bool { return r[0] <= o && o < r[1] }) {
			list = append(list, o)
		}
	}
	return list
}

// requireSeeks begins to read orders/0 at each offset, and at the time of each record.
func requireSeeks(t *testing.T, b *ottla.Broker, want []int64) {
	t.Helper()
	tp, err := b.Topic("orders")
	require.NoError(t, err)
	r, err := tp.Partition(0).NewReader(ottla.Earliest)
	require.NoError(t, err)
	defer r.Close()
	for o := range want[len(want)-1] + 1 {
		require.NoError(t, r.SeekTo(ottla.At(o)))
		recs, err := r.Read(nil, 1)
		require.NoError(t, err)
		i, held := slices.BinarySearch(want, o)
		require.Equal(t, want[i], recs[0].Offset)
		if held {
			at, err := tp.Partition(0).OffsetForTime(recs[0].Time)
			require.NoError(t, err)
			require.Equal(t, o, at)
		}
	}
}

func TestRepairAtTheEndOfALog(t *testing.T) {
	dir := build(t)
	flipIn(t, segments(t, dir)[2], 207)
	must(t, statusOK, "repair", "-drop-damaged", "-yes", dir)
	must(t, statusOK, "verify", dir)
	got, damaged := readAll(t, dir)
	require.Equal(t, offsets(0, 207, nil), got)
	require.False(t, damaged)

	b := openBroker(t, dir)
	batchesOf(t, b, "orders", 1)
	require.NoError(t, b.Close())
	must(t, statusOK, "verify", dir)
	got, _ = readAll(t, dir)
	require.Equal(t, offsets(0, 213, [][2]int64{{207, 210}}), got)
}

func TestRepairLeavesAloneWhatItCantCure(t *testing.T) {
	dir := build(t)
	removeSegment(t, segments(t, dir)[0])
	flipIn(t, segments(t, dir)[0], 99)
	require.Contains(t, must(t, statusDamage, "repair", "-drop-damaged", dir), "would drop  ")
	require.Contains(t, must(t, statusDamage, "repair", "-drop-damaged", "-yes", dir),
		"1 damaged ranges with 3 offsets, 0 indexes; 1 left alone\n")
	require.Len(t, ofType(objects(t, must(t, statusDamage, "verify", "-json", dir)), "damage"), 1)
}

func TestRepairWantsTheLock(t *testing.T) {
	dir := build(t)
	flipIn(t, segments(t, dir)[0], 18)
	b := openBroker(t, dir)
	before := files(t, dir)
	must(t, statusDamage, "repair", "-drop-damaged", dir)
	r := ottlaRun("repair", "-drop-damaged", "-yes", dir)
	require.Equal(t, statusFailed, r.status)
	require.Contains(t, r.stderr, "in use by this process (pid ")
	require.Empty(t, r.out)
	require.Equal(t, before, files(t, dir))
	require.NoError(t, b.Close())
	must(t, statusOK, "repair", "-drop-damaged", "-yes", dir)
}

func TestRepairRefusesAnUnfinishedTruncation(t *testing.T) {
	dir := build(t)
	s := segments(t, dir)
	at := batchAt(t, s[2], 201)
	movePoint(t, dir, func(p *log.RecoveryPoint) { p.Offset, p.Pos, p.Cutting = 201, int64(at.pos), true })
	flipIn(t, s[2], 192)
	before := files(t, filepath.Join(dir, "orders-0"))
	r := ottlaRun("repair", "-drop-damaged", "-yes", dir)
	require.Equal(t, statusFailed, r.status)
	require.Contains(t, r.stderr, "a truncation has begun")
	require.Equal(t, before, files(t, filepath.Join(dir, "orders-0")))
}

// TestOnlyWhatASegmentCanHoldIsDropped: a batch without records for more offsets than that can't stand in for segments that
// are missing.
func TestOnlyWhatASegmentCanHoldIsDropped(t *testing.T) {
	found := segment.Found{Size: 500, End: segment.Place{Pos: 500, Offset: 1010}}
	for next, want := range map[int64]cure{1000 + math.MaxInt32: cureDrop, 1001 + math.MaxInt32: cureNone} {
		var p partitionCheck
		p.sealedEnd(log.SegmentFile{Base: 1000}, found, next)
		require.Len(t, p.findings, 1)
		require.Equal(t, want, p.findings[0].cure)
	}
}
