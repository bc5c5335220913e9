package log_test

import (
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/record"
)

// emptied is the change of a file that takes the records out of a batch, whose offsets stay.
func emptied(t testing.TB, at batchOnDisk) func([]byte) []byte {
	h := record.HeaderAt(at.base, 0)
	h.LastOffsetDelta = int32(at.next - at.base - 1)
	h.BaseTimestamp, h.MaxTimestamp = record.NoTimestamp, record.NoTimestamp
	layout, err := record.Replan(h, nil)
	require.NoError(t, err)
	b := make([]byte, layout.Size)
	layout.Put(b, h, nil)
	return func(content []byte) []byte {
		return append(append(append([]byte(nil), content[:at.pos]...), b...), content[at.end:]...)
	}
}

// unplace takes the byte out of the log's recovery point.
func unplace(t testing.TB, fs vfs.FS) log.RecoveryPoint {
	t.Helper()
	p := inForce(t, fs).Unplaced()
	require.NoError(t, log.StorePoint(fs, dir, p))
	require.Equal(t, p, inForce(t, fs))
	require.False(t, p.Placed())
	return p
}

func inForce(t testing.TB, fs vfs.FS) log.RecoveryPoint {
	t.Helper()
	folder, err := log.Look(fs, dir)
	require.NoError(t, err)
	p, ok := folder.Point.InForce()
	require.True(t, ok)
	return p
}

// TestBatchesWithoutRecords: compaction and repairs leave them. They are read over, wherever they stand.
func TestBatchesWithoutRecords(t *testing.T) {
	cfg := log.Config{SegmentBytes: 4096}
	for name, pick := range map[string]func(s subject) (onDisk, batchOnDisk){
		"in a sealed segment":      func(s subject) (onDisk, batchOnDisk) { return s.sealed, s.sealed.batches[3] },
		"first of a segment":       func(s subject) (onDisk, batchOnDisk) { return s.sealed, s.sealed.batches[0] },
		"last of a sealed segment": func(s subject) (onDisk, batchOnDisk) { return s.sealed, last(s.sealed.batches) },
		"in the last segment":      func(s subject) (onDisk, batchOnDisk) { return s.active, s.active.batches[4] },
		"last of the log":          func(s subject) (onDisk, batchOnDisk) { return s.active, last(s.active.batches) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSubject(t, cfg, true)
			file, batch := pick(s)
			edit(t, s.mem, file.path, emptied(t, batch))
			unplace(t, s.mem)
			for range 2 { // as found, and as the first run has left it
				l := open(t, s.mem, cfg)
				require.Empty(t, l.Recovery().Damage)
				require.Zero(t, l.Recovery().Cut)
				require.Equal(t, batch.next-batch.base, readOver(t, l, 0))
				for o := batch.base; o <= batch.next; o++ {
					readOver(t, l, o)
				}
				off, _, ok, err := l.OffsetForTime(1000+batch.base, l.End())
				require.NoError(t, err)
				require.True(t, !ok || off == batch.next)
				fill(t, l, 3, 2)
				require.Equal(t, batch.next-batch.base, readOver(t, l, 0))
				require.NoError(t, l.Close())
			}
			l := open(t, s.mem, cfg)
			require.NoError(t, l.Truncate(t.Context(), batch.next))
			require.NoError(t, l.Truncate(t.Context(), batch.base))
			require.Equal(t, batch.base, l.End())
			fill(t, l, 1, 2)
			require.Zero(t, readOver(t, l, 0))
		})
	}
}

// readOver reads from an offset to the end, and returns how many offsets had no records.
func readOver(t testing.TB, l *log.Log, from int64) (missing int64) {
	t.Helper()
	r, err := l.NewReader(from)
	require.NoError(t, err)
	defer r.Close()
	for {
		b, err := r.Next(l.End())
		if err == io.EOF {
			require.Equal(t, l.End(), r.Offset())
			return missing
		}
		require.NoError(t, err)
		h := b.Header()
		require.Equal(t, h.NextOffset(), r.Offset())
		missing += h.NextOffset() - h.BaseOffset - int64(h.Count)
		if h.Count > 0 {
			requireValues(t, b, h.BaseOffset)
		}
	}
}

// TestARecoveryPointWithoutAPlace keeps what it says of offsets, and costs a longer scan.
func TestARecoveryPointWithoutAPlace(t *testing.T) {
	for _, sync := range []log.SyncPolicy{log.SyncAlways, log.SyncInterval(time.Hour), log.SyncNever} {
		cfg := log.Config{SegmentBytes: 4096, Sync: sync}
		s := newSubject(t, cfg, true)
		unplace(t, s.mem)
		l := open(t, s.mem, cfg)
		require.Equal(t, s.end, l.End())
		require.EqualValues(t, s.active.end(), l.Recovery().Scanned)
		require.NoError(t, l.Close())
		require.True(t, inForce(t, s.mem).Placed())

		s = newSubject(t, cfg, true)
		unplace(t, s.mem)
		edit(t, s.mem, s.active.path, cutAt(s.active.batches[4].pos))
		l = open(t, s.mem, cfg)
		require.Equal(t, s.end, l.End(), "offsets aren't given out twice")
		require.Len(t, l.Recovery().Damage, 1)
		require.Equal(t, s.active.batches[4].pos, l.Recovery().Damage[0].End)
		require.NoError(t, l.Close())

		s = newSubject(t, cfg, true)
		unplace(t, s.mem)
		edit(t, s.mem, s.active.path, flipAt(s.active.batches[4].pos+70))
		requireOutcome(t, s, cfg, s.without(1, s.active.batches[4]))
	}
}

// TestStorePointKeepsTheOneBefore: a torn write of the new one leaves it.
func TestStorePointKeepsTheOneBefore(t *testing.T) {
	s := newSubject(t, log.Config{SegmentBytes: 4096}, true)
	path := filepath.Join(dir, log.PointName)
	before := inForce(t, s.mem)
	after := unplace(t, s.mem)
	file, err := log.ReadPointFile(s.mem, path)
	require.NoError(t, err)
	for _, slot := range file.Slots {
		if slot.Point != after {
			continue
		}
		edit(t, s.mem, path, flipAt(slot.Pos+30))
		require.Equal(t, before, inForce(t, s.mem))
	}
}
