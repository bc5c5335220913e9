package log

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/segment"
)

// Recovery tells what Open found behind the recovery point and did about it.
type Recovery struct {
	// Scanned is how many bytes had to be read.
	Scanned int64
	// Cut is how many bytes of unfinished appends were cut off.
	Cut int64
	// SetAside names the files that hold what was cut off although good batches were in it.
	SetAside []string
	// Damage lists ranges that can't be read. They stay where they are.
	Damage []*segment.CorruptionError
}

// Open opens the log in a folder, which must exist; an empty folder is an empty log. It reads what lies above the
// recovery point, cuts off the torn end of an unfinished append, and leaves damage where it is: see Recovery.
//
// A *segment.CorruptionError means that data which was stored is missing altogether, or is there twice; nothing was
// changed then. Other errors are about reading and writing and say nothing about the data.
func Open(fsys vfs.FS, dir string, cfg Config) (*Log, error) {
	l := &Log{fs: fsys, dir: dir, cfg: cfg.withDefaults(), turn: make(chan struct{}, 1)}
	l.point = checkpoint{fs: fsys, dir: dir}
	round := make(chan struct{})
	l.round.Store(&round)
	l.setSegmentsLocked(nil)
	if err := l.point.load(); err != nil {
		return nil, err
	}
	files, err := listSegments(fsys, dir)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		if err := l.checkFresh(); err != nil {
			return nil, err
		}
		return l, nil
	}
	if !l.point.ok {
		l.cfg.Logger.Warn("no usable recovery point, the log is scanned whole", "dir", l.dir)
	}
	r := recoverer{log: l, files: files}
	if err := r.run(); err != nil {
		return nil, err
	}
	return l, nil
}

// Recovery returns what Open found and did.
func (l *Log) Recovery() Recovery { return l.recovery }

// checkFresh refuses to take a log that has lost its segments for a new one.
func (l *Log) checkFresh() error {
	p := l.point.last
	if p.offset > 0 || l.point.unreadable {
		return &segment.CorruptionError{Path: l.dir, FirstOffset: p.start, NextOffset: p.offset,
			Err: fmt.Errorf("%w: there is a recovery point, and all segments are missing", ErrCorrupt)}
	}
	return nil
}

// segmentFile is a segment before it is known what it holds.
type segmentFile struct {
	path       string
	base, size int64
}

// maxOffset is beyond what any log reaches. Larger ones are damage: counting on from them would overflow.
const maxOffset = 1 << 62

var errOffset = errors.New("no log reaches such an offset")

func listSegments(fsys vfs.FS, dir string) ([]segmentFile, error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []segmentFile
	for _, e := range entries {
		base, ok := segment.ParseName(e.Name())
		if !ok || e.IsDir() {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if base > maxOffset {
			return nil, &segment.CorruptionError{Path: path, FirstOffset: base, NextOffset: base, Err: errOffset}
		}
		info, err := fsys.Stat(path)
		if err != nil {
			return nil, err
		}
		files = append(files, segmentFile{path, base, info.Size()})
	}
	return files, nil
}

// cutFile makes a file of batches durably shorter. The index goes first: it must not outlive what it was made of.
func cutFile(fsys vfs.FS, path string, size int64) error {
	if err := segment.RemoveIndex(fsys, path); err != nil {
		return err
	}
	f, err := fsys.Open(path)
	if err != nil {
		return err
	}
	err = f.Truncate(size)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
