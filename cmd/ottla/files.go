package main

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/log"
)

// host is where the data directories are.
var host vfs.FS = vfs.OS

const (
	logSuffix   = ".log"
	indexSuffix = ".index"
)

// indexPath returns the index file of a segment.
func indexPath(segmentPath string) string {
	return strings.TrimSuffix(segmentPath, logSuffix) + indexSuffix
}

// pointPath returns the file with the recovery point in a partition's folder.
func pointPath(dir string) string { return filepath.Join(dir, log.PointName) }

// settle repeats what failed because a file had gone meanwhile.
func settle(look func() error) (err error) {
	const attempts = 5
	for range attempts {
		if err = look(); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return err
}

// lookAgain repeats a look as long as it meets damage: what looks like that may be being written.
func lookAgain(damaged func() bool) {
	const attempts = 4
	for n := 1; damaged() && n < attempts; n++ {
		time.Sleep(10 * time.Millisecond)
	}
}
