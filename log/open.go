package log

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/segment"
)

// Recovery tells what Open found behind the recovery point and did about it.
type Recovery struct {
	// Scanned is how many bytes had to be read.
	Scanned int64
	// Cut is how many bytes of an unfinished append were cut off.
	Cut int64
	// SetAside names the files that hold what was cut off although good batches were in it.
	SetAside []string
	// Damage lists ranges that can't be read. They stay where they are.
	Damage []*segment.CorruptionError
}

// asideSuffix marks what recovery has set aside. Nothing reads or removes it.
const asideSuffix = ".aside"

// Open opens the log in a folder, which must exist; an empty folder is an empty log. It reads what lies above the
// recovery point, cuts off the torn end of an unfinished append, and leaves damage where it is: see Recovery.
//
// A *segment.CorruptionError means that data which was stored is missing altogether; nothing was changed then. Other
// errors are about reading and say nothing about the data.
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
	r := recoverer{log: l, files: files}
	if err := r.run(); err != nil {
		return nil, err
	}
	l.recovery = r.report
	return l, nil
}

// Recovery returns what Open found and did.
func (l *Log) Recovery() Recovery { return l.recovery }

// segmentFile is a segment before it is known what it holds.
type segmentFile struct {
	base, size int64
}

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
		info, err := fsys.Stat(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		files = append(files, segmentFile{base, info.Size()})
	}
	return files, nil
}

// recoverer finds the end of a log.
type recoverer struct {
	log     *Log
	files   []segmentFile
	segs    []*segment.Segment
	next    int64 // offset that follows what was accepted so far
	changed bool  // files were changed or hold what isn't known to be synced
	report  Recovery
}

func (r *recoverer) run() error {
	l, p := r.log, r.log.point.last
	if len(r.files) == 0 {
		if p.offset > 0 {
			return &segment.CorruptionError{Path: l.dir, FirstOffset: p.start, NextOffset: p.offset,
				Err: errors.New("the segments are missing")}
		}
		return nil
	}
	if !l.point.ok {
		l.cfg.Logger.Warn("no usable recovery point, the log is scanned whole", "dir", l.dir)
	}
	first := r.firstToScan(p)
	for _, f := range r.files[:first] {
		next := r.files[first].base
		if i := slices.Index(r.files, f); i+1 < len(r.files) {
			next = r.files[i+1].base
		}
		r.segs = append(r.segs, segment.OpenSealed(l.fs, l.dir, f.base, f.size, next))
	}
	r.next = r.files[first].base
	for i := first; i < len(r.files); i++ {
		goOn, err := r.scan(i, p)
		if err != nil {
			return err
		}
		if !goOn {
			break
		}
	}
	return r.finish(p)
}

// firstToScan returns the index of the segment that holds the recovery point: all before it is on the disk.
func (r *recoverer) firstToScan(p point) int {
	if !r.log.point.ok {
		return 0
	}
	i := len(r.files) - 1
	for i > 0 && r.files[i].base > p.base {
		i--
	}
	return i
}

// scan looks at one segment at or above the recovery point. It returns false when the log ends in it.
func (r *recoverer) scan(i int, p point) (goOn bool, err error) {
	l, f := r.log, r.files[i]
	path := filepath.Join(l.dir, segment.Name(f.base))
	last := i == len(r.files)-1
	pos, off := int64(0), f.base
	if l.point.ok && f.base == p.base && p.pos <= f.size {
		pos, off = p.pos, p.offset
	}
	if f.base != r.next {
		if r.mayCut(r.next) {
			return false, r.setAside(i)
		}
		r.damaged(&segment.CorruptionError{Path: path, FirstOffset: r.next, NextOffset: f.base,
			Err: errors.New("the segment before ends early")})
	}
	if last && l.point.ok && pos == f.size && f.base == p.base { // closed in peace
		r.accept(f.base, pos, off)
		return true, nil
	}
	found, err := segment.Inspect(l.fs, path, pos, off)
	if err != nil {
		return false, err
	}
	r.report.Scanned += found.Size - pos
	r.changed = true
	switch {
	case found.After && r.mayCut(found.Next):
		if err := r.setAside(i + 1); err != nil {
			return false, err
		}
		if err := r.copyAside(path, found); err != nil {
			return false, err
		}
		return false, r.cut(f.base, path, found)
	case found.After:
		r.damaged(&segment.CorruptionError{Path: path, Start: found.End, End: found.ResumeAt,
			FirstOffset: found.Next, NextOffset: found.ResumeOffset, Err: found.Bad})
		found.End, found.Next = found.LastEnd, found.LastNext
	case found.Bad != nil && !last && !r.mayCut(found.Next): // good batches follow in the next segment: damage
		r.accept(f.base, found.Size, found.Next)
		return true, nil
	}
	return true, r.cut(f.base, path, found)
}

// mayCut says whether what follows a bad place at an offset may be taken off the log: it was appended and never synced,
// and nobody was promised that it would survive. Under SyncAlways good batches behind a bad place may have been
// acknowledged, and without a recovery point nothing is known.
func (r *recoverer) mayCut(off int64) bool {
	l := r.log
	return l.point.ok && off >= l.point.last.offset && !l.cfg.Sync.Always()
}

// cut ends a segment behind its last good batch.
func (r *recoverer) cut(base int64, path string, found segment.Found) error {
	if found.Size > found.End {
		f, err := r.log.fs.Open(path)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Truncate(found.End), f.Close()); err != nil {
			return err
		}
		if found.Bad != nil {
			r.report.Cut += found.Size - found.End
			r.log.cfg.Logger.Warn("torn end of the log cut off", "file", path, "pos", found.End, "bytes", found.Size-found.End,
				"next", found.Next, "err", found.Bad)
		}
	}
	r.accept(base, found.End, found.Next)
	return nil
}

func (r *recoverer) accept(base, end, next int64) {
	r.segs = append(r.segs, segment.OpenSealed(r.log.fs, r.log.dir, base, end, next))
	r.next = next
}

// copyAside keeps the bytes from the bad place on in a file of their own.
func (r *recoverer) copyAside(path string, found segment.Found) error {
	from, err := r.log.fs.OpenRead(path)
	if err != nil {
		return err
	}
	defer from.Close()
	name, err := r.freeName(path)
	if err != nil {
		return err
	}
	to, err := r.log.fs.Create(name)
	if err != nil {
		return err
	}
	buf := make([]byte, 1<<20)
	for pos := found.End; pos < found.Size && err == nil; pos += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), found.Size-pos)]
		if _, err = from.ReadAt(buf, pos); err == nil {
			_, err = to.WriteAt(buf, pos-found.End)
		}
	}
	if err == nil {
		err = to.Sync()
	}
	if err = errors.Join(err, to.Close()); err == nil {
		err = r.log.fs.SyncDir(r.log.dir)
	}
	r.noteAside(name)
	return err
}

// setAside renames the segments from index i on, which follow a bad place.
func (r *recoverer) setAside(i int) error {
	for _, f := range r.files[i:] {
		path := filepath.Join(r.log.dir, segment.Name(f.base))
		name, err := r.freeName(path)
		if err != nil {
			return err
		}
		if err := r.log.fs.Rename(path, name); err != nil {
			return err
		}
		if err := segment.RemoveIndex(r.log.fs, r.log.dir, f.base); err != nil {
			return err
		}
		r.noteAside(name)
	}
	if i < len(r.files) {
		return r.log.fs.SyncDir(r.log.dir)
	}
	return nil
}

// freeName returns a name beside path that isn't taken.
func (r *recoverer) freeName(path string) (string, error) {
	for n := 1; ; n++ {
		name := fmt.Sprintf("%s.%d%s", path, n, asideSuffix)
		_, err := r.log.fs.Stat(name)
		if errors.Is(err, fs.ErrNotExist) {
			return name, nil
		}
		if err != nil {
			return "", err
		}
	}
}

func (r *recoverer) noteAside(name string) {
	r.report.SetAside = append(r.report.SetAside, name)
	r.log.cfg.Logger.Warn("unsynced end of the log set aside: a power cut lost what was before it", "file", name)
}

func (r *recoverer) damaged(err *segment.CorruptionError) {
	r.report.Damage = append(r.report.Damage, err)
	r.log.cfg.Logger.Error("log is damaged", "err", err)
}

// finish publishes what was found. What was accepted is synced before the recovery point says so: a second crash must
// not lose it unnoticed.
func (r *recoverer) finish(p point) error {
	l := r.log
	last := r.segs[len(r.segs)-1]
	end := last.Next()
	if r.log.point.ok && end < p.offset { // synced records are gone: their offsets are not given out again
		r.damaged(&segment.CorruptionError{Path: last.Path(), Start: last.Size(), End: p.pos, FirstOffset: end,
			NextOffset: p.offset, Err: errors.New("synced batches are missing at the end")})
		end = p.offset
	}
	l.setSegmentsLocked(r.segs)
	l.start.Store(max(p.start, r.segs[0].Base()))
	l.end.Store(end)
	l.stable.Advance(end)
	l.synced.Store(end)
	l.onDisk = point{offset: end, base: last.Base(), pos: last.Size()}
	if r.changed {
		if err := r.sync(); err != nil {
			return err
		}
		l.mu.newNames = true
		if err := l.storePoint(l.start.Load()); err != nil {
			return err
		}
	}
	return l.dropBelowStart()
}

func (r *recoverer) sync() error {
	for _, s := range r.segs {
		if s.Base() < r.log.point.last.base {
			continue
		}
		f, err := r.log.fs.Open(s.Path())
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}
