package log

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"time"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/segment"
)

// asideSuffix marks what recovery has set aside. Nothing reads or removes it.
const asideSuffix = ".aside"

// recoverer finds the end of a log that has segments. It looks at everything first, then decides, and only then changes
// files: each change can be made again after a crash.
type recoverer struct {
	log    *Log
	files  []segmentFile
	segs   []*segment.Segment
	report Recovery
	unread bool // of the last segment no batch was read
}

func (r *recoverer) run() error {
	l := r.log
	k := known{point: l.point.last, ok: l.point.ok, always: l.cfg.Sync.Always()}
	if k.cut {
		if err := r.finishTruncation(k); err != nil {
			return err
		}
	}
	first := r.firstToScan(k)
	pieces, err := r.inspect(first, k)
	if err != nil {
		return err
	}
	begin := pieces[0].base
	if missing := k.ok && k.start < r.files[0].base; missing && first == 0 {
		begin = k.start
	} else if missing {
		r.damaged(missingBefore(r.files[0].path, k.start, r.files[0].base))
	}
	plan, err := decide(pieces, begin, k)
	if err != nil {
		return err
	}
	if first == 0 && !slices.ContainsFunc(plan.verdicts, verdict.kept) {
		if err := l.checkFresh(); err != nil {
			return err
		}
	}
	for i, f := range r.files[:first] { // below the recovery point, and so sealed
		r.segs = append(r.segs, segment.OpenSealed(l.fs, l.dir, f.base, f.size, r.files[i+1].base))
	}
	if err := r.carryOut(pieces, plan); err != nil {
		return err
	}
	return r.finish(plan, k)
}

// firstToScan returns the index of the segment that holds the recovery point: all before it is on the disk.
func (r *recoverer) firstToScan(k known) int {
	if !k.ok {
		return 0
	}
	i := len(r.files) - 1
	for i > 0 && r.files[i].base > k.base {
		i--
	}
	return i
}

// finishTruncation carries out a truncation that a crash has interrupted.
func (r *recoverer) finishTruncation(k known) error {
	if err := r.checkTruncation(k); err != nil {
		return err
	}
	n := len(r.files)
	for ; n > 0 && r.files[n-1].base > k.base; n-- {
		f := r.files[n-1]
		if err := errors.Join(segment.RemoveIndex(r.log.fs, f.path), r.log.fs.Remove(f.path)); err != nil {
			return err
		}
	}
	r.files = r.files[:n]
	if n > 0 && r.files[n-1].base == k.base && r.files[n-1].size > k.pos {
		if err := cutFile(r.log.fs, r.files[n-1].path, k.pos); err != nil {
			return err
		}
		r.files[n-1].size = k.pos
	}
	return r.log.fs.SyncDir(r.log.dir)
}

// checkTruncation makes sure that a batch ends where the log is to be cut: an order to cut is not to be taken from a file that
// belongs to other batches.
func (r *recoverer) checkTruncation(k known) error {
	i := slices.IndexFunc(r.files, func(f segmentFile) bool { return f.base == k.base })
	if i < 0 || k.pos == 0 || k.pos > r.files[i].size {
		return nil
	}
	f, fits := r.files[i], false
	_, err := segment.Walk(r.log.fs, f.path, segment.Place{Offset: f.base}, func(s segment.Stretch) error {
		fits = fits || s.To == segment.Place{Pos: k.pos, Offset: k.offset}
		return nil
	})
	if err == nil && !fits {
		err = &segment.CorruptionError{Path: r.log.point.path(), FirstOffset: k.offset, NextOffset: k.offset,
			Err: fmt.Errorf("%w: a truncation to byte %d of %s was begun, and no batch ends there", ErrCorrupt, k.pos, f.path)}
	}
	return err
}

// inspect reads the segments at and above the recovery point. A log that was closed in peace ends exactly there.
func (r *recoverer) inspect(first int, k known) ([]piece, error) {
	var pieces []piece
	for i := first; i < len(r.files); i++ {
		f := r.files[i]
		from := segment.Place{Offset: f.base}
		if k.ok && f.base == k.base && k.pos <= f.size {
			from = segment.Place{Pos: k.pos, Offset: k.offset}
		}
		if from.Pos > 0 && from.Pos == f.size && i == len(r.files)-1 {
			found := segment.Found{Size: f.size, Good: true, End: from, TailEnd: f.size}
			r.unread = true
			return append(pieces, piece{f.path, f.base, found}), nil
		}
		limit := int64(math.MaxInt64)
		if i+1 < len(r.files) {
			limit = r.files[i+1].base
		}
		found, err := segment.Inspect(r.log.fs, f.path, from, limit)
		if err != nil {
			return nil, err
		}
		r.report.Scanned += found.Size - from.Pos
		if from.Pos > 0 && suspicious(found, from) {
			if found, err = segment.Inspect(r.log.fs, f.path, segment.Place{Offset: f.base}, limit); err != nil {
				return nil, err
			}
			r.report.Scanned += found.Size
		}
		r.unread = from.Pos > 0 && found.End == from
		pieces = append(pieces, piece{f.path, f.base, found})
	}
	return pieces, nil
}

// suspicious says whether a walk met something bad at its very start: the recovery point may be of another copy of the
// file, and not where a batch begins.
func suspicious(found segment.Found, from segment.Place) bool {
	return len(found.Holes) > 0 && found.Holes[0].Start == from || found.End == from && found.Tail != nil
}

// carryOut does what was decided.
func (r *recoverer) carryOut(pieces []piece, p plan) error {
	for _, d := range p.damage {
		r.damaged(d)
	}
	for i := len(pieces) - 1; i >= 0; i-- { // from the end: a crash in between leaves no new hole
		pc, v := &pieces[i], p.verdicts[i]
		var err error
		switch {
		case v.keep && v.bytes < pc.Size:
			err = r.cut(pc, v)
		case !v.keep && v.aside:
			err = r.setAside(pc)
		case !v.keep:
			r.report.Cut += pc.TailEnd
			err = errors.Join(segment.RemoveIndex(r.log.fs, pc.path), r.log.fs.Remove(pc.path))
		}
		if err == nil && !v.keep {
			err = r.log.fs.SyncDir(r.log.dir)
		}
		if err != nil {
			return err
		}
	}
	for i, v := range p.verdicts {
		if v.keep {
			r.segs = append(r.segs, segment.OpenSealed(r.log.fs, r.log.dir, pieces[i].base, v.bytes, v.next))
		}
	}
	return nil
}

// cut ends a segment behind its last good batch.
func (r *recoverer) cut(pc *piece, v verdict) error {
	if pc.TailEnd > v.bytes && v.aside {
		if err := r.copyAside(pc, v.bytes); err != nil {
			return err
		}
	} else if pc.TailEnd > v.bytes {
		r.report.Cut += pc.TailEnd - v.bytes
		r.log.cfg.Logger.Warn("torn end of the log cut off", "file", pc.path, "pos", v.bytes, "bytes", pc.TailEnd-v.bytes,
			"next", v.next, "err", pc.Tail)
	}
	return cutFile(r.log.fs, pc.path, v.bytes)
}

// setAside renames a whole segment.
func (r *recoverer) setAside(pc *piece) error {
	name, err := AsideName(r.log.fs, pc.path)
	if err != nil {
		return err
	}
	if err := r.log.fs.Rename(pc.path, name); err != nil {
		return err
	}
	r.noteAside(name)
	return segment.RemoveIndex(r.log.fs, pc.path)
}

// copyAside keeps the bytes from a bad place on in a file of their own.
func (r *recoverer) copyAside(pc *piece, start int64) error {
	name, err := AsideName(r.log.fs, pc.path)
	if err != nil {
		return err
	}
	from, err := r.log.fs.OpenRead(pc.path)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := r.log.fs.Create(name)
	if err != nil {
		return err
	}
	buf := make([]byte, min(1<<20, pc.TailEnd-start))
	for pos := start; pos < pc.TailEnd && err == nil; pos += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), pc.TailEnd-pos)]
		if _, err = from.ReadAt(buf, pos); err == nil {
			_, err = to.WriteAt(buf, pos-start)
		}
	}
	if err == nil {
		err = to.Sync()
	}
	if err = errors.Join(err, to.Close()); err != nil {
		return errors.Join(err, r.log.fs.Remove(name))
	}
	r.noteAside(name)
	return r.log.fs.SyncDir(r.log.dir)
}

// AsideName returns a name, not yet taken, for what is set aside of the file at path.
func AsideName(fsys vfs.FS, path string) (string, error) {
	for n := 1; ; n++ {
		name := fmt.Sprintf("%s.%d%s", path, n, asideSuffix)
		_, err := fsys.Stat(name)
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
	r.log.cfg.Logger.Warn("end of the log set aside: what was before it is lost", "file", name)
}

func (r *recoverer) damaged(err *segment.CorruptionError) {
	r.report.Damage = append(r.report.Damage, err)
	r.log.damages.add(err)
	r.log.cfg.Logger.Error("log is damaged", "err", err)
}

// finish publishes what was found. What was read is synced before the recovery point moves over it: a second crash must
// not lose it unnoticed.
func (r *recoverer) finish(p plan, k known) error {
	l := r.log
	l.recovery = r.report
	l.mu.newNames = true  // whether they were synced isn't known
	if len(r.segs) == 0 { // not even the first one's name was on the disk
		return nil
	}
	last := r.segs[len(r.segs)-1]
	l.setSegmentsLocked(r.segs)
	l.mu.unread = r.unread
	l.start.Store(r.segs[0].Base())
	if k.ok {
		l.start.Store(k.start)
	}
	l.end.Store(p.end)
	l.stable.Advance(p.end)
	l.synced.Store(p.end)
	l.onDisk = point{offset: p.end, base: last.Base(), pos: last.Size()}
	if p.end != last.Next() { // a new segment will begin there
		l.onDisk.base, l.onDisk.pos = p.end, 0
	}
	if r.report.Scanned > 0 || k.cut {
		if err := r.sync(k); err != nil {
			return err
		}
		if err := l.storePoint(l.start.Load()); err != nil {
			return err
		}
		l.pointT = time.Time{}
	}
	if err := l.dropBelowStart(); err != nil {
		l.cfg.Logger.Warn("a segment below the log start is still there", "dir", l.dir, "err", err)
	}
	return nil
}

func (r *recoverer) sync(k known) error {
	for _, s := range r.segs {
		if k.ok && s.Base() < k.base {
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
