package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDumpOfPartitions(t *testing.T) {
	dir := build(t)
	out := must(t, statusOK, "dump", dir, "orders", "-from", "100", "-n", "2", "-records")
	require.Regexp(t, `\n +\d+  99-101 +3 +\d+ +0  none +ok `, out)
	require.NotContains(t, out, `"value 99"`)
	require.Contains(t, out, `101          2026-05-04T12:01:41.000Z  "key 101"  "value 101"`)
	require.NotContains(t, out, `"value 102"`)

	list := objects(t, must(t, statusOK, "dump", "-json", "-records", dir))
	require.Len(t, ofType(list, "partition"), 3)
	require.Len(t, ofType(list, "segment"), 3)
	require.Len(t, ofType(list, "batch"), 70)
	for i, r := range ofType(list, "record") {
		require.EqualValues(t, i, r["offset"])
		require.Equal(t, fmt.Sprintf("value %d", i), r["value"])
	}
	require.Len(t, ofType(list, "record"), 210)
	require.Len(t, objects(t, must(t, statusOK, "dump", "-json", "-n", "5", segments(t, dir)[1])), 1+5)

	seg := segments(t, dir)[0]
	change(t, seg, flip(batchAt(t, seg, 18).pos+70, 1))
	out = must(t, statusDamage, "dump", seg)
	require.Regexp(t, `\d+  18-20 +DAMAGED  \d+ bytes: .*checksum`, out)
	require.Len(t, ofType(objects(t, must(t, statusDamage, "dump", "-json", dir, "orders/0")), "damage"), 1)
}

func TestDumpOfFiles(t *testing.T) {
	dir := build(t)
	seg := segments(t, dir)[0]
	index := strings.TrimSuffix(seg, ".log") + ".index"
	require.Regexp(t, `covers \d+ bytes from offset 0`, must(t, statusOK, "dump", index))
	require.NotEmpty(t, ofType(objects(t, must(t, statusOK, "dump", "-json", index)), "indexEntry"))
	point := filepath.Join(dir, "orders-0", "recovery-point")
	require.Contains(t, must(t, statusOK, "dump", point), "on disk below offset 210")
	require.Len(t, ofType(objects(t, must(t, statusOK, "dump", "-json", point)), "slot"), 2)
	require.Contains(t, must(t, statusOK, "dump", filepath.Join(dir, "meta")), "format 1, broker ")
	require.Len(t, objects(t, must(t, statusOK, "dump", "-json", filepath.Join(dir, "meta"))), 1)
	out := must(t, statusOK, "dump", "journal", dir)
	require.Contains(t, out, `{"topicCreated":{"id":`)
	require.Contains(t, out, `"group":"billing"`)
	frames := ofType(objects(t, must(t, statusOK, "dump", "-json", "journal", dir)), "frame")
	require.Equal(t, "snapshot end", frames[0]["kind"])
	require.Equal(t, "mark", frames[len(frames)-1]["kind"])
}
