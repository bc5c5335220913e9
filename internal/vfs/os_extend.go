//go:build darwin || windows

package vfs

import "os"

// extend lengthens the file to size if it is shorter: what the systems without fallocate have in its place.
func extend(f *os.File, old, size int64) error {
	if old >= size {
		return nil
	}
	return f.Truncate(size)
}
