package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla"
)

// Every command reads compressed batches like others.
func TestCompressedTopics(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	b := openBroker(t, dir)
	codecs := []ottla.Compression{ottla.Gzip, ottla.Snappy, ottla.Lz4, ottla.Zstd}
	for _, c := range codecs {
		tp, err := b.CreateTopic(ctx, c.String(), ottla.TopicConfig{SegmentBytes: 4096, Compression: c})
		require.NoError(t, err)
		for batch := range 50 {
			recs := make([]ottla.Record, 20)
			for i := range recs {
				recs[i] = ottla.Record{Time: noon, Value: fmt.Appendf(nil, "value %d", batch*20+i)}
			}
			_, err := tp.Partition(0).Append(ctx, recs)
			require.NoError(t, err)
		}
	}
	require.NoError(t, b.Close())
	require.Contains(t, must(t, statusOK, "verify", dir), "4000 records")
	for _, c := range codecs {
		list := objects(t, must(t, statusOK, "dump", "-json", "-records", dir, c.String()))
		require.Greater(t, len(ofType(list, "segment")), 1)
		for _, o := range ofType(list, "batch") {
			require.Equal(t, c.String(), o["codec"])
		}
		require.Len(t, ofType(list, "record"), 1000)
		require.Equal(t, 15, strings.Count(must(t, statusOK, "tail", "-n", "15", dir, c.String()), `"value 9`))
	}
}
