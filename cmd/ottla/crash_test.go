package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/record"
)

// damagedTwice makes a directory with damage in two segments, in one of them around the recovery point.
func damagedTwice(t *testing.T) (dir string, lost [][2]int64) {
	t.Helper()
	dir = build(t)
	s := segments(t, dir)
	pointTo(t, dir, s[2], 195)
	wipe(t, s[2], 192, 198)
	flipIn(t, s[0], 18)
	return dir, [][2]int64{{18, 21}, {192, 198}}
}

// TestPowerCutDuringRepair cuts the power before each operation of a repair that changes something.
func TestPowerCutDuringRepair(t *testing.T) {
	interrupt(t, 4, func(mem *vfs.Mem, seed, n int) (func() vfs.Outcome, func() *vfs.Mem) {
		rng := rand.New(rand.NewPCG(uint64(seed), uint64(n)))
		cut := sync.OnceValue(func() *vfs.Mem { return mem.PowerCut(rng) })
		return func() vfs.Outcome {
			cut()
			return vfs.Outcome{} // the dead machine fails by itself
		}, cut
	})
}

// TestFailureDuringRepair makes each operation of a repair that changes something fail, undone or done.
func TestFailureDuringRepair(t *testing.T) {
	effects := []vfs.Effect{vfs.EffectNone, vfs.EffectAll}
	interrupt(t, len(effects), func(mem *vfs.Mem, i, _ int) (func() vfs.Outcome, func() *vfs.Mem) {
		return func() vfs.Outcome { return vfs.Outcome{Err: errors.New("it fails"), Effect: effects[i]} }, mem.Kill
	})
}

// interrupt runs repairs, each of which meets trouble at its n-th change. Whatever that leaves is no worse than before, and
// a second repair ends well. of returns what happens at the change, and what ends the process.
func interrupt(t *testing.T, variants int,
	of func(mem *vfs.Mem, variant, n int) (trouble func() vfs.Outcome, end func() *vfs.Mem)) {
	t.Helper()
	dir, lost := damagedTwice(t)
	defer func() { host = vfs.OS }()
	n := 1
	for met := true; met; n++ {
		for variant := range variants {
			mem := loaded(t, dir)
			trouble, end := of(mem, variant, n)
			changes := 0
			host = vfs.NewFault(mem, func(op vfs.Op) (o vfs.Outcome) {
				if op.Kind.Changes() {
					if changes++; changes == n {
						o = trouble()
					}
				}
				return o
			})
			ottlaRun("repair", "-drop-damaged", "-yes", dir)
			met = changes >= n
			next := end()
			host = next
			requireCopies(t, segments(t, dir))
			if n%2 == 0 { // someone opens the log in between
				requireHeld(t, next, dir, lost)
			}
			must(t, statusOK, "repair", "-drop-damaged", "-yes", dir)
			must(t, statusOK, "verify", dir)
			requireHeld(t, next, dir, lost)
		}
	}
	require.Greater(t, n, 20)
}

// loaded returns a file system in memory with a copy of a folder, durable.
func loaded(t *testing.T, dir string) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem("")
	var folders []string
	for path := filepath.Dir(dir); !slices.Contains(folders, path); path = filepath.Dir(path) {
		folders = append(folders, path)
	}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			folders = append(folders, path)
			return errors.Join(err, mem.MkdirAll(path))
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f, err := mem.Create(path)
		if err != nil {
			return err
		}
		_, err = f.WriteAt(content, 0)
		return errors.Join(err, f.Sync(), f.Close())
	}))
	for _, path := range folders {
		require.NoError(t, mem.SyncDir(path))
	}
	return mem
}

// requireCopies requires that a file which isn't any more what the real one is has a copy of that beside it.
func requireCopies(t *testing.T, paths []string) {
	t.Helper()
	for _, path := range paths {
		original, err := os.ReadFile(path)
		require.NoError(t, err)
		var now, kept bytes.Buffer
		require.NoError(t, copyRange(&now, path, 0, math.MaxInt64))
		if !bytes.Equal(now.Bytes(), original) {
			require.NoError(t, copyRange(&kept, path+".1.aside", 0, math.MaxInt64))
			require.Equal(t, original, kept.Bytes())
		}
	}
}

// requireHeld opens orders/0 under the policy that lets recovery take most off the log, and requires that all but the lost
// offsets are read.
func requireHeld(t *testing.T, mem *vfs.Mem, dir string, lost [][2]int64) {
	t.Helper()
	l, err := log.Open(mem, filepath.Join(dir, "orders-0"), log.Config{SegmentBytes: 4096, Sync: log.SyncNever})
	require.NoError(t, err)
	r, err := l.NewReader(0)
	require.NoError(t, err)
	var got []int64
	for r.Offset() < l.End() {
		batch, err := r.Next(l.End())
		if err != nil {
			require.ErrorIs(t, err, log.ErrCorrupt)
			require.NoError(t, r.Skip())
			continue
		}
		require.NoError(t, eachRecord(batch, func(rec *record.Record) error {
			require.Equal(t, fmt.Sprintf("value %d", rec.Offset), string(rec.Value))
			got = append(got, rec.Offset)
			return nil
		}))
	}
	require.Equal(t, offsets(0, 210, lost), got)
	require.NoError(t, r.Close())
	require.NoError(t, l.Close())
}
