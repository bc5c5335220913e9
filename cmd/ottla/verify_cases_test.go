package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/log"
)

// verifyCase is something done to the files of build, and what verify says of it: a pattern for each line, in order.
type verifyCase struct {
	name  string
	do    func(t *testing.T, dir string, s []string) // s: the segments of orders/0
	says  []string
	sound bool // no damage
}

var batchCases = []verifyCase{
	{name: "nothing", do: func(*testing.T, string, []string) {}, sound: true},
	{name: "bit flipped in a batch",
		do:   func(t *testing.T, _ string, s []string) { flipIn(t, s[0], 18) },
		says: []string{`^damage .*/0{20}\.log: bytes 736 to 861: offsets 18-20: .*checksum does not match`}},
	{name: "zeros over batches",
		do:   func(t *testing.T, _ string, s []string) { wipe(t, s[1], 99, 105) },
		says: []string{`^damage .*96\.log: bytes \d+ to \d+: offsets 99-104: zeros`}},
	{name: "records that can't be read under a good checksum",
		do: func(t *testing.T, _ string, s []string) {
			forge(t, s[0], 18, func(b []byte) { b[61] = 1 })
		},
		says: []string{`^damage .*/0{20}\.log: bytes 736 to 861: offsets 18-20: records, byte 61: bad record length`}},
	{name: "wrong largest timestamp",
		do: func(t *testing.T, _ string, s []string) {
			forge(t, s[0], 18, func(b []byte) { b[42]++ })
		},
		says: []string{`^damage .*offsets 18-20: largest timestamp is 2026-05-04T12:00:20.000Z, the header says 2026-05-04T12:00:20.001Z`}},
	{name: "records that the codec didn't write",
		do: func(t *testing.T, _ string, s []string) {
			forge(t, s[0], 18, func(b []byte) { b[22] = 1 })
		},
		says: []string{`^damage .*offsets 18-20: records, byte 61: gzip: .*invalid header`}},
	{name: "leader epoch that never was",
		do: func(t *testing.T, _ string, s []string) {
			forge(t, s[0], 18, func(b []byte) { b[15] = 7 })
		},
		says: []string{`^damage .*offsets 18-20: leader epoch 7, and the catalogue knows 0 to 0`}},
}

var segmentCases = []verifyCase{
	{name: "sealed segment cut within a batch",
		do:   func(t *testing.T, _ string, s []string) { cutIn(t, s[0], 87) },
		says: []string{`^damage .*/0{20}\.log: bytes \d+ to \d+: offsets 87-95: no batch, and none behind it`}},
	{name: "sealed segment cut between batches",
		do: func(t *testing.T, _ string, s []string) {
			at := batchAt(t, s[0], 87)
			change(t, s[0], func(b []byte) []byte { return b[:at.pos] })
			remove(t, indexPath(s[0]))
		},
		says: []string{`^damage .*/0{20}\.log: offsets 87-95: the segment ends at offset 87, the next one begins at 96`}},
	{name: "sealed segment empty",
		do: func(t *testing.T, _ string, s []string) {
			change(t, s[1], func([]byte) []byte { return nil })
			remove(t, indexPath(s[1]))
		},
		says: []string{`^damage .*96\.log: offsets 96-\d+: the segment ends at offset 96`}},
	{name: "rubbish behind a sealed segment",
		do:   func(t *testing.T, _ string, s []string) { addTo(t, s[0], []byte("rubbish")) },
		says: []string{`^damage .*/0{20}\.log: bytes 4012 to 4018: bytes that are no batch at the end of the segment`}},
	{name: "zeros behind a sealed segment",
		do:   func(t *testing.T, _ string, s []string) { addTo(t, s[0], make([]byte, 5000)) },
		says: []string{`^damage .*/0{20}\.log: bytes 4012 to 9011: zeros behind the last batch of a sealed segment`}},
	{name: "segments that overlap",
		do: func(t *testing.T, _ string, s []string) {
			change(t, s[0], func(b []byte) []byte { return append(b, firstBatch(t, s[1])...) })
			remove(t, indexPath(s[0]))
		},
		says: []string{`^damage .*offsets 96-98: the next segment begins at offset 96, in the midst of this one`}},
	{name: "first segment missing",
		do:   func(t *testing.T, _ string, s []string) { removeSegment(t, s[0]) },
		says: []string{`^damage .*orders-0: offsets 0-95: the segments with these offsets are missing`}},
	{name: "segment missing in the middle",
		do:   func(t *testing.T, _ string, s []string) { removeSegment(t, s[1]) },
		says: []string{`^damage .*/0{20}\.log: offsets 96-\d+: the segment ends at offset 96, the next one begins at`}},
	{name: "last segment missing",
		do:   func(t *testing.T, _ string, s []string) { removeSegment(t, s[2]) },
		says: []string{`^damage .*96\.log: offsets \d+-209: the log ends before the recovery point`}},
	{name: "all segments missing",
		do: func(t *testing.T, _ string, s []string) {
			for _, path := range s {
				removeSegment(t, path)
			}
		},
		says: []string{`^damage .*orders-0: offsets 0-209: there is a recovery point, and all segments are missing`}},
	{name: "last batch",
		do:   func(t *testing.T, _ string, s []string) { flipIn(t, s[2], 207) },
		says: []string{`^damage .*: offsets 207-209: .*checksum.*; the recovery point says that these offsets were on the disk`}},
	{name: "torn tail",
		do:   func(t *testing.T, _ string, s []string) { addTo(t, s[2], firstBatch(t, s[2])[:80]) },
		says: []string{`^note .*: bytes \d+ to \d+: torn tail behind the recovery point`}, sound: true},
	{name: "reserved space",
		do: func(t *testing.T, _ string, s []string) { addTo(t, s[2], make([]byte, 9000)) }, sound: true},
}

var indexCases = []verifyCase{
	{name: "index missing",
		do: func(t *testing.T, _ string, s []string) { remove(t, indexPath(s[0])) }, sound: true},
	{name: "bit flipped in an index",
		do:   func(t *testing.T, _ string, s []string) { change(t, indexPath(s[0]), flip(70, 1)) },
		says: []string{`^damage .*/0{20}\.index: magic, version, length or a checksum is wrong`}},
	{name: "index cut",
		do: func(t *testing.T, _ string, s []string) {
			change(t, indexPath(s[0]), func(b []byte) []byte { return b[:40] })
		},
		says: []string{`^damage .*/0{20}\.index: no index has 40 bytes`}},
	{name: "index of another segment",
		do: func(t *testing.T, _ string, s []string) {
			other, err := os.ReadFile(indexPath(s[1]))
			require.NoError(t, err)
			change(t, indexPath(s[0]), func([]byte) []byte { return other })
		},
		says: []string{`^damage .*/0{20}\.index: index of the segment that begins at offset 96`}},
	{name: "index of other batches",
		do: func(t *testing.T, _ string, s []string) {
			forgeIndex(t, indexPath(s[0]), func(header, _ []byte) { header[24]++ })
		},
		says: []string{`^damage .*\.index: index of other batches`}},
	{name: "index of more batches",
		do: func(t *testing.T, _ string, s []string) {
			forgeIndex(t, indexPath(s[0]), func(header, _ []byte) { header[16]++ })
		},
		says: []string{`^damage .*\.index: covers more than the batches of the segment`}},
	{name: "index of an earlier state",
		do: func(t *testing.T, _ string, s []string) {
			earlier, err := os.ReadFile(indexPath(s[2]))
			require.NoError(t, err)
			b := openBroker(t, filepath.Dir(filepath.Dir(s[2])))
			batchesOf(t, b, "orders", 1)
			require.NoError(t, b.Close())
			change(t, indexPath(s[2]), func([]byte) []byte { return earlier })
		}, sound: true},
	{name: "entry where no batch begins",
		do: func(t *testing.T, _ string, s []string) {
			forgeIndex(t, indexPath(s[0]), func(_, entry []byte) { entry[4]++ })
		},
		says: []string{`^damage .*\.index: entry 0 isn't where a batch begins`}},
	{name: "entry behind the batches",
		do: func(t *testing.T, _ string, s []string) {
			forgeIndex(t, indexPath(s[0]), func(_, entry []byte) { entry[6]++ })
		},
		says: []string{`^damage .*\.index: entry 0 is behind the last batch`}},
	{name: "entry with a wrong time",
		do: func(t *testing.T, _ string, s []string) {
			forgeIndex(t, indexPath(s[0]), func(_, entry []byte) { binary.LittleEndian.PutUint64(entry[8:], 0) })
		},
		says: []string{`^damage .*\.index: entry 0 has the largest timestamp 1970-01-01T00:00:00.000Z, the batches before it say -`}},
	{name: "index with a wrong time",
		do: func(t *testing.T, _ string, s []string) {
			forgeIndex(t, indexPath(s[0]), func(header, _ []byte) { header[32]++ })
		},
		says: []string{`^damage .*\.index: largest timestamp is \S+, the batches say 2026-05-04T12:01:35.000Z`}},
	{name: "index without its segment",
		do: func(t *testing.T, _ string, s []string) {
			require.NoError(t, os.Rename(indexPath(s[0]), filepath.Join(filepath.Dir(s[0]), "00000000000000000007.index")))
		},
		says: []string{`^note .*7\.index: index without a segment`}, sound: true},
}

var pointCases = []verifyCase{
	{name: "bit flipped in the recovery point",
		do:   func(t *testing.T, dir string, _ []string) { change(t, pointOf(dir), flip(20, 1)) },
		says: []string{`^damage .*recovery-point: bytes 0 to 63: magic or checksum is wrong`}},
	{name: "recovery point missing",
		do:   func(t *testing.T, dir string, _ []string) { remove(t, pointOf(dir)) },
		says: []string{`^damage .*recovery-point: is missing or empty, and there are segments`}},
	{name: "recovery point never written",
		do: func(t *testing.T, dir string, _ []string) {
			change(t, pointOf(dir), func(b []byte) []byte { return make([]byte, len(b)) })
		},
		says: []string{`^damage .*recovery-point: bytes 0 to \d+: no recovery point is in it, and there are segments`}},
	{name: "recovery point within a batch",
		do: func(t *testing.T, dir string, _ []string) {
			movePoint(t, dir, func(p *log.RecoveryPoint) { p.Pos -= 3 })
		},
		says: []string{`^damage .*recovery-point: no batch begins where it says: \d+\.log`}},
	{name: "recovery point behind the log's end",
		do: func(t *testing.T, dir string, _ []string) {
			movePoint(t, dir, func(p *log.RecoveryPoint) { p.Offset += 3 })
		},
		says: []string{`^damage .*\.log: offsets 210-212: the log ends before the recovery point`}},
	{name: "recovery point in a segment that never was",
		do: func(t *testing.T, dir string, _ []string) {
			movePoint(t, dir, func(p *log.RecoveryPoint) { p.Base-- })
		},
		says: []string{`^damage .*recovery-point: no batch begins where it says: \d+\.log`}},
	{name: "recovery point without a place",
		do: func(t *testing.T, dir string, _ []string) {
			movePoint(t, dir, func(p *log.RecoveryPoint) { *p = p.Unplaced() })
		}, sound: true},
	{name: "older recovery point",
		do: func(t *testing.T, dir string, s []string) { pointTo(t, dir, s[1], 99) }, sound: true},
	{name: "bytes outside of the slots",
		do:   func(t *testing.T, dir string, _ []string) { change(t, pointOf(dir), flip(99, 1)) },
		says: []string{`^note .*recovery-point: bytes 99 to \d+: bytes outside of the two slots`}, sound: true},
}

var directoryCases = []verifyCase{
	{name: "foreign file",
		do:   func(t *testing.T, dir string, _ []string) { create(t, filepath.Join(dir, "orders-0", "readme.txt")) },
		says: []string{`^note .*readme\.txt: doesn't belong to the log`}, sound: true},
	{name: "something set aside",
		do:   func(t *testing.T, _ string, s []string) { create(t, s[0]+".1.aside") },
		says: []string{`^note .*\.1\.aside: set aside by a recovery or a repair`}, sound: true},
	{name: "partition missing",
		do:   func(t *testing.T, dir string, _ []string) { remove(t, filepath.Join(dir, "idle-1")) },
		says: []string{`^damage .*idle-1: is missing`}},
	{name: "partition that the catalogue doesn't know",
		do: func(t *testing.T, dir string, _ []string) {
			require.NoError(t, os.CopyFS(filepath.Join(dir, "stray-0"), os.DirFS(filepath.Join(dir, "orders-0"))))
		},
		says: []string{`^damage .*stray-0: has records, and the catalogue doesn't know the partition`}},
	{name: "folder of something else",
		do: func(t *testing.T, dir string, _ []string) {
			require.NoError(t, os.Mkdir(filepath.Join(dir, "stray-0"), 0o700))
		}, sound: true},
	{name: "meta missing",
		do:   func(t *testing.T, dir string, _ []string) { remove(t, filepath.Join(dir, "meta")) },
		says: []string{`^damage .*meta: is missing`}},
	{name: "bit flipped in meta",
		do:   func(t *testing.T, dir string, _ []string) { change(t, filepath.Join(dir, "meta"), flip(20, 1)) },
		says: []string{`^damage .*meta: bytes 0 to \d+: .*checksum mismatch`}},
	{name: "journal missing",
		do:   func(t *testing.T, dir string, _ []string) { remove(t, filepath.Join(dir, "journal")) },
		says: []string{`^damage .*journal: is missing`}},
	{name: "bit flipped in the journal's snapshot",
		do:   func(t *testing.T, dir string, _ []string) { change(t, journalFile(t, dir), flip(8, 1)) },
		says: []string{`^damage .*journal/.*: bytes \d+ to \d+: .*within the snapshot`}},
	{name: "bit flipped in a call of the journal",
		do: func(t *testing.T, dir string, _ []string) {
			change(t, journalFile(t, dir), func(b []byte) []byte { return flip(bytes.Index(b, []byte("billing")), 1)(b) })
		},
		says: []string{`^damage .*journal/.*: bytes \d+ to \d+: .*were on disk`}},
	{name: "torn tail of the journal",
		do:   func(t *testing.T, dir string, _ []string) { addTo(t, journalFile(t, dir), []byte("\x40OJ1\nxxx")) },
		says: []string{`^note .*journal/.*: bytes \d+ to \d+: torn tail`}, sound: true},
	{name: "tail of the journal set aside",
		do: func(t *testing.T, dir string, _ []string) {
			create(t, filepath.Join(dir, "journal", "00000000000000000001.cut-1"))
		},
		says: []string{`^note .*\.cut-1: set aside by a recovery`}, sound: true},
}
