package main

import (
	"encoding/binary"
	"io/fs"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla"
	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/log"
)

func TestVerify(t *testing.T) {
	for _, cases := range [][]verifyCase{batchCases, segmentCases, indexCases, pointCases, directoryCases} {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				dir := build(t)
				c.do(t, dir, segments(t, dir))
				requireVerified(t, dir, c)
			})
		}
	}
}

// requireVerified runs verify in both of its forms.
func requireVerified(t *testing.T, dir string, c verifyCase) {
	t.Helper()
	status := statusDamage
	if c.sound {
		status = statusOK
	}
	before := files(t, dir)
	out := must(t, status, "verify", dir)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, len(c.says)+1, out)
	damage := 0
	for i, says := range c.says {
		require.Regexp(t, says, lines[i])
		if strings.HasPrefix(lines[i], "damage") {
			damage++
		}
	}
	if c.sound {
		require.Regexp(t, `: all well \(`, lines[len(c.says)])
	} else {
		require.Regexp(t, `: \d+ damaged \(`, lines[len(c.says)])
	}
	list := objects(t, must(t, status, "verify", "-json", dir))
	require.Len(t, ofType(list, "damage"), damage)
	require.Len(t, ofType(list, "note"), len(c.says)-damage)
	summary := list[len(list)-1]
	require.Equal(t, "summary", summary["type"])
	require.EqualValues(t, damage, summary["damage"])
	require.EqualValues(t, len(c.says)-damage, summary["notes"])
	require.Equal(t, before, files(t, dir))
}

func TestVerifySaysWhatItWentThrough(t *testing.T) {
	dir := build(t)
	require.Regexp(t, `^\S+: 2 topics, 3 partitions, 3 segments, \d+ B, 70 batches, 210 records, 3 indexes, \d+ journal frames: all well \(`,
		must(t, statusOK, "verify", dir))
	flipIn(t, segments(t, dir)[0], 18)
	list := objects(t, must(t, statusDamage, "verify", "-json", dir))
	require.Len(t, list, 2)
	for name, want := range map[string]any{
		"type": "damage", "topic": "orders", "partition": 0.0, "file": segments(t, dir)[0], "start": 736.0, "end": 862.0,
		"firstOffset": 18.0, "nextOffset": 21.0,
	} {
		require.Equal(t, want, list[0][name], name)
	}
	require.EqualValues(t, 69, list[1]["batches"])
	require.EqualValues(t, 207, list[1]["records"])
}

// TestVerifyLongIndexes: entries in a damaged range are passed over, those behind it are compared again.
func TestVerifyLongIndexes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	b := openBroker(t, dir)
	_, err := b.CreateTopic(ctx, "orders", ottla.TopicConfig{SegmentBytes: 32 << 10})
	require.NoError(t, err)
	batchesOf(t, b, "orders", 600)
	require.NoError(t, b.Close())
	must(t, statusOK, "verify", dir)
	s := segments(t, dir)
	require.Len(t, s, 3)
	wipe(t, s[0], 90, 300)
	list := objects(t, must(t, statusDamage, "verify", "-json", dir))
	require.Len(t, ofType(list, "damage"), 1)

	index := indexPath(s[0])
	change(t, index, func(b []byte) []byte { // its last entry
		b[len(b)-8-12]++
		binary.LittleEndian.PutUint64(b[len(b)-8:], xxhash.Sum64(b[64:len(b)-8]))
		return b
	})
	list = ofType(objects(t, must(t, statusDamage, "verify", "-json", dir)), "damage")
	require.Len(t, list, 2)
	require.Equal(t, index, list[1]["file"])
}

// TestSegmentsThatVanish: retention removes some while they are verified, after it has moved the log start.
func TestSegmentsThatVanish(t *testing.T) {
	for name, c := range map[string]struct {
		vanished int   // the segment that is gone when it is opened
		start    int64 // the log start by then
		says     string
	}{
		"first by retention": {0, 100, ": all well ("},
		"two by retention":   {1, 190, ": all well ("},
		"last by retention":  {2, 210, ": all well ("},
		"first":              {0, 0, "0.log: offsets 0-95: went missing meanwhile\n"},
		"second":             {1, 100, "96.log: offsets 96-188: went missing meanwhile\n"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := build(t)
			s := segments(t, dir)
			defer func() { host = vfs.OS }()
			host = vfs.NewFault(vfs.OS, func(op vfs.Op) (o vfs.Outcome) {
				if op.Kind == vfs.KindOpenRead && op.Name == s[c.vanished] {
					o.Err = fs.ErrNotExist
					point, err := log.ReadPointFile(vfs.OS, pointOf(dir))
					require.NoError(t, err)
					p, _ := point.InForce()
					p.Start = c.start
					require.NoError(t, log.StorePoint(vfs.OS, filepath.Dir(s[0]), p))
				}
				return o
			})
			require.Contains(t, ottlaRun("verify", dir).out, c.says)
		})
	}
}

func TestEpochsNeverFall(t *testing.T) {
	p := partitionCheck{epoch: 3, fresh: true}
	for _, step := range []struct {
		epoch int32
		says  string
	}{
		{0, ""}, {2, ""}, {2, ""}, {1, "leader epoch 1 after 2"}, {3, ""}, {4, "leader epoch 4, and the catalogue knows 0 to 3"},
		{-1, "leader epoch -1, and the catalogue knows 0 to 3"}, {math.MaxInt32, "leader epoch 2147483647, and the catalogue knows 0 to 3"},
		{3, ""},
	} {
		require.Equal(t, step.says, p.epochFault(step.epoch))
	}
}

// TestEveryByteCounts flips a bit of the bytes that are looked at, one at a time.
func TestEveryByteCounts(t *testing.T) {
	dir := build(t)
	last := segments(t, dir)[2]
	frames, _, err := scanJournal(dir)
	require.NoError(t, err)
	mark := frames[len(frames)-1].Pos // speaks for what is before it: broken, it is a torn tail
	for _, c := range []struct {
		path      string
		end, step int
	}{
		{last, sizeOf(t, last), 5},
		{indexPath(last), sizeOf(t, indexPath(last)), 7},
		{filepath.Join(dir, "meta"), sizeOf(t, filepath.Join(dir, "meta")), 7},
		{journalFile(t, dir), int(mark), 47},
	} {
		for at := 0; at < c.end; at += c.step {
			change(t, c.path, flip(at, 4))
			require.NotEqual(t, statusOK, ottlaRun("verify", dir).status, "%s byte %d", c.path, at)
			change(t, c.path, flip(at, 4))
		}
	}
}
