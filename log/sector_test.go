package log_test

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/record"
)

// TestATornBatchIsCutWhateverSectorsCame: of the last batch, which nobody was promised, each subset of its sectors reached
// the disk. The log ends before it or behind it, never with an error, and the operator hears of what was cut off.
func TestATornBatchIsCutWhateverSectorsCame(t *testing.T) {
	const sector = 512
	for _, policy := range []log.SyncPolicy{log.SyncAlways, log.SyncNever} {
		mem := newMem(t)
		l := open(t, mem, log.Config{SegmentBytes: 8192, Sync: policy})
		promised := fill(t, l, 3, 2)
		recs := []record.Record{{Value: bytes.Repeat([]byte("torn"), 600), Time: time.UnixMilli(1)}}
		_, err := l.Append(record.HeaderAt(0, 0), recs)
		require.NoError(t, err)
		files := snapshot(t, mem)
		seg := segmentsOf(t, mem)[0]
		batch := last(seg.batches)
		sectors := batch.end/sector - batch.pos/sector + 1
		require.GreaterOrEqual(t, sectors, int64(5))

		for kept := range 1 << sectors {
			torn := []byte(files[seg.path])
			for pos := batch.pos; pos < batch.end; pos++ {
				if kept>>(pos/sector-batch.pos/sector)&1 == 0 {
					torn[pos] = 0
				}
			}
			disk := newMem(t)
			for path, content := range files {
				writeFile(t, disk, path, []byte(content))
			}
			writeFile(t, disk, seg.path, torn)

			var told bytes.Buffer
			cfg := log.Config{SegmentBytes: 8192, Sync: policy, Logger: slog.New(slog.NewTextHandler(&told, nil))}
			l := open(t, disk, cfg)
			require.Empty(t, l.Recovery().Damage)
			if kept == 1<<sectors-1 {
				require.Equal(t, promised+1, l.End())
				require.Zero(t, l.Recovery().Cut)
				require.NoError(t, l.Close())
				continue
			}
			require.Equal(t, promised, l.End(), "sectors %b", kept)
			require.EqualValues(t, promised, readAll(t, l, 0))
			if kept > 0 {
				require.NotZero(t, l.Recovery().Cut)
				require.Contains(t, told.String(), seg.path)
			}
			fill(t, l, 1, 1)
			require.NoError(t, l.Close())
			l = open(t, disk, cfg)
			require.EqualValues(t, promised+1, readAll(t, l, 0), "what took its place is there")
			require.NoError(t, l.Close())
		}
	}
}
