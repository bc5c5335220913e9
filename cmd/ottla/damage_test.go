package main

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/record"
)

// Ways to damage the files of a directory that build has made. Its topic "orders" has three segments: s is one of them.

// flipIn flips a bit in the batch that begins with an offset.
func flipIn(t *testing.T, segment string, first int64) {
	t.Helper()
	change(t, segment, flip(batchAt(t, segment, first).pos+record.HeaderSize+9, 1))
}

// wipe overwrites the batches from an offset up to another with zeros.
func wipe(t *testing.T, segment string, first, next int64) {
	t.Helper()
	for _, b := range batchesIn(t, segment) {
		if b.first >= first && b.first < next {
			defer change(t, segment, func(content []byte) []byte {
				clear(content[b.pos:b.end])
				return content
			})
		}
	}
}

// forge changes the batch that begins with an offset and makes its checksum right again. The index, which knows the batches
// by a checksum of its own, goes.
func forge(t *testing.T, segment string, first int64, how func(batch []byte)) {
	t.Helper()
	at := batchAt(t, segment, first)
	change(t, segment, func(content []byte) []byte {
		b := content[at.pos:at.end]
		how(b)
		binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
		return content
	})
	remove(t, indexPath(segment))
}

// forgeIndex changes an index file and makes its checksums right again.
func forgeIndex(t *testing.T, index string, how func(header, entry []byte)) {
	t.Helper()
	change(t, index, func(b []byte) []byte {
		how(b[:56], b[64:80])
		binary.LittleEndian.PutUint64(b[56:], xxhash.Sum64(b[:56]))
		binary.LittleEndian.PutUint64(b[len(b)-8:], xxhash.Sum64(b[64:len(b)-8]))
		return b
	})
}

// cutIn cuts a segment within the batch that begins with an offset.
func cutIn(t *testing.T, segment string, first int64) {
	t.Helper()
	at := batchAt(t, segment, first)
	change(t, segment, func(b []byte) []byte { return b[:at.end-5] })
}

func addTo(t *testing.T, path string, more []byte) {
	t.Helper()
	change(t, path, func(b []byte) []byte { return append(b, more...) })
}

func remove(t *testing.T, path string) {
	t.Helper()
	require.NoError(t, os.RemoveAll(path))
}

func create(t *testing.T, path string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte("something"), 0o600))
}

// movePoint changes the recovery point of orders/0.
func movePoint(t *testing.T, dir string, how func(p *log.RecoveryPoint)) {
	t.Helper()
	folder := filepath.Join(dir, "orders-0")
	file, err := log.ReadPointFile(host, pointPath(folder))
	require.NoError(t, err)
	p, ok := file.InForce()
	require.True(t, ok)
	how(&p)
	require.NoError(t, log.StorePoint(host, folder, p))
}

// pointTo moves the recovery point of orders/0 back to the batch that begins with an offset.
func pointTo(t *testing.T, dir, segment string, first int64) {
	t.Helper()
	at := batchAt(t, segment, first)
	movePoint(t, dir, func(p *log.RecoveryPoint) {
		p.Base, p.Offset, p.Pos = batchesIn(t, segment)[0].first, first, int64(at.pos)
	})
}

// journalFile returns the file of the journal.
func journalFile(t *testing.T, dir string) string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "journal", "*", "*"))
	require.NoError(t, err)
	require.Len(t, list, 1)
	return list[0]
}

func pointOf(dir string) string { return pointPath(filepath.Join(dir, "orders-0")) }

func firstBatch(t *testing.T, segment string) []byte {
	t.Helper()
	b, err := os.ReadFile(segment)
	require.NoError(t, err)
	return b[:batchesIn(t, segment)[0].end]
}

func removeSegment(t *testing.T, segment string) {
	t.Helper()
	remove(t, segment)
	remove(t, indexPath(segment))
}
