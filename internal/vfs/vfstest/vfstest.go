// Package vfstest helps tests that use vfs.Mem.
package vfstest

import (
	"os"
	"testing"
)

// HostDir returns a folder for what the wal library does below a vfs.Mem, in memory if the system has such a place: its own
// syncs need not reach a disk. It is removed when the test ends.
func HostDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "ottla-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
