package log_test

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/segment"
)

// FuzzOpen damages the files of a log as the input says, two bytes for where and two for what, and uses the log. Whatever
// is in the files: no panic, no endless loop, typed errors, and what is appended then is there in the end.
func FuzzOpen(f *testing.F) {
	mem := newMem(f)
	l := open(f, mem, log.Config{SegmentBytes: 1500})
	fill(f, l, 40, 2)
	files := snapshot(f, mem.Kill())

	f.Add(uint8(0), []byte{})
	f.Add(uint8(1), []byte{0, 10, 1, 3, 40, 0, 0, 9})
	f.Add(uint8(2), []byte{7, 200, 2, 77, 9, 9, 3, 30, 1, 1, 4, 50, 2, 2, 5, 60})
	f.Fuzz(func(t *testing.T, policy uint8, edits []byte) {
		mem := newMem(t)
		for path, content := range files {
			writeFile(t, mem, path, []byte(content))
		}
		for edits = edits[:min(len(edits), 40)]; len(edits) >= 4; edits = edits[4:] {
			mutate(t, mem, [4]byte(edits))
		}
		sync := []log.SyncPolicy{log.SyncAlways, log.SyncNever, log.SyncInterval(time.Second)}[policy%3]
		useAnyhow(t, mem.PowerCutWith(vfs.KeepAll), log.Config{SegmentBytes: 1500, Sync: sync})
	})
}

// FuzzPoint gives a log a recovery point that is whole and says something else than it should, as another log's does or one
// from a backup. Where it makes no sense Open refuses it or goes without it.
func FuzzPoint(f *testing.F) {
	mem := newMem(f)
	l := open(f, mem, log.Config{SegmentBytes: 1500})
	fill(f, l, 40, 2)
	files := snapshot(f, mem.Kill())
	f.Add(int64(0), int64(0), int64(0), int64(0), false, uint8(0))
	f.Add(int64(10), int64(80), int64(60), int64(100), true, uint8(1))
	f.Add(int64(1<<40), int64(1<<40), int64(1<<40), int64(0), false, uint8(0))
	f.Add(int64(5), int64(math.MaxInt64), int64(7), int64(math.MaxInt64), true, uint8(2))
	f.Fuzz(func(t *testing.T, start, offset, base, pos int64, cutting bool, policy uint8) {
		mem := newMem(t)
		for path, content := range files {
			writeFile(t, mem, path, []byte(content))
		}
		p := log.RecoveryPoint{Start: start, Offset: offset, Base: base, Pos: pos, Cutting: cutting}
		require.NoError(t, log.StorePoint(mem, dir, p))
		sync := []log.SyncPolicy{log.SyncAlways, log.SyncNever, log.SyncInterval(time.Second)}[policy%3]
		useAnyhow(t, mem.PowerCutWith(vfs.KeepAll), log.Config{SegmentBytes: 1500, Sync: sync})
	})
}

// mutate makes one change: to a file, at a place in it, of a kind.
func mutate(t testing.TB, mem *vfs.Mem, e [4]byte) {
	paths := list(t, mem)
	if len(paths) == 0 {
		return
	}
	path := paths[int(e[0])%len(paths)]
	edit(t, mem, path, func(b []byte) []byte {
		at := 0
		if len(b) > 0 {
			at = (int(e[1])<<4 + int(e[3])) % len(b)
		}
		to := min(len(b), at+int(e[3]))
		switch e[2] % 8 {
		case 0:
			return append([]byte{}, b[:at]...)
		case 1:
			clear(b[at:to])
		case 2:
			for i := range b[at:min(to, at+8)] {
				b[at+i] ^= e[3] + byte(i)
			}
		case 3:
			return append(b, make([]byte, int(e[1])*int(e[3]))...)
		case 4:
			return append(append([]byte{}, b[:at]...), b[to:]...)
		case 5:
			return append(append(append([]byte{}, b[:to]...), b[at:to]...), b[to:]...)
		case 6: // another file's content
			return readFile(t, mem, paths[int(e[3])%len(paths)])
		case 7:
			if e[3]%8 == 0 {
				return nil
			}
			if filepath.Ext(path) == ".log" {
				writeFile(t, mem, filepath.Join(dir, segment.Name(int64(e[1]))), b)
			}
		}
		return b
	})
}

// useAnyhow opens, reads, appends, and opens again.
func useAnyhow(t testing.TB, mem *vfs.Mem, cfg log.Config) {
	before := snapshot(t, mem)
	l, err := log.Open(mem, dir, cfg)
	if err != nil {
		if !errors.Is(err, log.ErrCorrupt) && !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("an error of no known kind: %v", err)
		}
		require.Equal(t, before, snapshot(t, mem), "refused, and changed: %v", err)
		requireClosed(t, mem)
		return
	}
	defer l.Close()
	readable := countReadable(t, l)
	end := l.End()
	for range 30 {
		appendOne(t, l)
	}
	require.NoError(t, l.Sync(t.Context(), l.End()))
	require.Equal(t, readable+30, countReadable(t, l))
	if _, _, _, err := l.OffsetForTime(1000+end, l.End()); err != nil {
		t.Fatal(err)
	}
	require.NoError(t, l.Tick(t.Context(), time.Now()))
	next := mem.PowerCut(nil)
	l2, err := log.Open(next, dir, cfg)
	require.NoError(t, err)
	require.Equal(t, end+30, l2.End())
	require.Equal(t, readable+30, countReadable(t, l2))
	require.NoError(t, l2.Close())
	requireClosed(t, next)
}

// countReadable reads from the start to the end, over whatever damage there is.
func countReadable(t testing.TB, l *log.Log) (records int64) {
	r, err := l.NewReader(l.Start())
	require.NoError(t, err)
	defer r.Close()
	for last := int64(-1); ; {
		b, err := r.Next(l.End())
		if err == io.EOF {
			require.Equal(t, l.End(), r.Offset())
			return records
		}
		var damage *segment.CorruptionError
		if errors.As(err, &damage) {
			require.NoError(t, r.Skip())
			require.Greater(t, r.Offset(), last)
			last = r.Offset()
			continue
		}
		require.NoError(t, err)
		require.Greater(t, r.Offset(), last)
		last = r.Offset()
		records += int64(b.Header().Count)
	}
}
