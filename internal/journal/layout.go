package journal

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ottlalog/ottla/internal/vfs"
)

const (
	folderName = "journal"
	digits     = 20
	tmpSuffix  = ".tmp"
	cutInfix   = ".cut-"
)

// fileIn returns the one file of a generation: the name is the wal library's.
func fileIn(gen string) string { return filepath.Join(gen, fmt.Sprintf("%0*d", digits, 1)) }

// listing is what stands in the journal's folder.
type listing struct {
	folder      string
	generations []uint64 // ascending
	building    []uint64 // that were never completed, ascending
	cuts        []string // tails that were set aside
}

func (l listing) path(generation uint64) string {
	return filepath.Join(l.folder, fmt.Sprintf("%0*d", digits, generation))
}

// newest is for a list that isn't empty.
func (l listing) newest() uint64 { return l.generations[len(l.generations)-1] }

// next returns a number that no generation had, as far as can be seen.
func (l listing) next() uint64 {
	n := uint64(0)
	for _, numbers := range [][]uint64{l.generations, l.building} {
		if len(numbers) > 0 {
			n = max(n, numbers[len(numbers)-1])
		}
	}
	return n + 1
}

// list returns an error that matches fs.ErrNotExist where no journal was ever completely created: a folder in which
// the first generation was being built is such a place. Anything more is evidence of a journal that was lost.
func list(fsys vfs.FS, dir string) (listing, error) {
	l, err := readFolder(fsys, filepath.Join(dir, folderName))
	if err != nil || len(l.generations) > 0 {
		return l, err
	}
	if len(l.cuts) > 0 || l.next() > 2 {
		return l, &CorruptionError{File: l.folder, What: "the generation in force is missing"}
	}
	return l, fmt.Errorf("journal: %s: not created: %w", l.folder, fs.ErrNotExist)
}

func readFolder(fsys vfs.FS, folder string) (listing, error) {
	l := listing{folder: folder}
	entries, err := fsys.ReadDir(l.folder)
	if err != nil {
		return l, err
	}
	for _, e := range entries {
		name, isTmp := strings.CutSuffix(e.Name(), tmpSuffix)
		n, err := strconv.ParseUint(name, 10, 64)
		isNumber := err == nil && len(name) == digits
		switch {
		case isNumber && !e.IsDir():
			return l, &CorruptionError{File: filepath.Join(l.folder, e.Name()), What: "a file where a folder belongs"}
		case isNumber && isTmp:
			l.building = append(l.building, n)
		case isNumber:
			l.generations = append(l.generations, n)
		case strings.Contains(name, cutInfix):
			l.cuts = append(l.cuts, e.Name())
		}
	}
	return l, nil
}

// checkStrangers refuses a generation with files beside its own that the wal library would take for its own: it would
// rename and remove some, and write to others.
func checkStrangers(fsys vfs.FS, gen string) error {
	entries, err := fsys.ReadDir(gen)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		if len(name) < digits || filepath.Join(gen, name) == fileIn(gen) {
			continue
		}
		if _, err := strconv.ParseUint(name[:digits], 10, 64); err == nil {
			return &CorruptionError{File: filepath.Join(gen, name), What: "doesn't belong here"}
		}
	}
	return nil
}

// cutName returns a free name for a tail of the generation.
func (l listing) cutName(generation uint64) string {
	for n := 1; ; n++ {
		name := fmt.Sprintf("%0*d%s%d", digits, generation, cutInfix, n)
		if !slices.Contains(l.cuts, name) {
			return filepath.Join(l.folder, name)
		}
	}
}
