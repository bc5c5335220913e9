package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"

	"github.com/ottlalog/ottla/internal/vfs"
)

// Options of a journal. The zero value is ready for use.
type Options struct {
	// Logger hears of torn tails, of failures and of healing. Default: none.
	Logger *slog.Logger

	// SnapshotBytes is the size of the file beyond which a new generation replaces it, unless the state alone takes more
	// than a quarter of that. Default: 4 MiB.
	SnapshotBytes int64

	// Check says whether what Open has read fits what else is there. Its error is Open's, before anything is changed.
	Check func(*State) error
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.SnapshotBytes <= 0 {
		o.SnapshotBytes = 4 << 20
	}
	return o
}

// Create makes a journal in dir and opens it: fs.ErrExist where there is one. A creation that was cut short or
// failed left nothing that counts as a journal and can be repeated, or it left an empty one that opens.
func Create(fsys vfs.FS, dir string, opts Options) (*Journal, error) {
	if err := fsys.MkdirAll(filepath.Join(dir, folderName)); err != nil {
		return nil, err
	}
	l, err := list(fsys, dir)
	if err == nil {
		return nil, fmt.Errorf("journal: %s: %w", l.folder, fs.ErrExist)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := fsys.SyncDir(dir); err != nil {
		return nil, err
	}
	j := newJournal(fsys, opts, l, newState())
	j.next = 1
	if err := j.replace(); err != nil {
		return nil, err
	}
	return j, nil
}

// Open opens the journal in dir: an error that matches fs.ErrNotExist where none was created, ErrCorrupt where it is
// damaged, ErrVersion where a newer version wrote it; nothing is changed then. What a crash left behind the last
// event that was acknowledged as durable is cut off or accepted, and the report says so.
//
// The caller has made sure, by a lock on dir, that the journal is open only once.
func Open(fsys vfs.FS, dir string, opts Options) (*Journal, Report, error) {
	l, err := list(fsys, dir)
	if err != nil {
		return nil, Report{}, err
	}
	gen := l.path(l.newest())
	state := newState()
	s, err := scanGeneration(fsys, gen, state.replay)
	if err == nil {
		err = checkStrangers(fsys, gen)
	}
	var misfit *misfitError
	if errors.As(err, &misfit) {
		err = s.damage(misfit.pos, "%v", misfit.err)
	}
	if err == nil && opts.Check != nil {
		err = opts.Check(state)
	}
	if err != nil {
		return nil, s.report(), err
	}
	j := newJournal(fsys, opts, l, state)
	report, err := j.repair(l, s)
	if err != nil {
		return nil, report, err
	}
	j.gen, err = openGeneration(fsys, gen, s.entries, s.pos, s.base)
	if err != nil {
		return nil, report, err
	}
	j.gen.unmarked = s.kind == KindCall
	j.removeOld(l)
	return j, report, nil
}

// misfitError says that an intact frame doesn't fit the state.
type misfitError struct {
	pos int64
	err error
}

func (e *misfitError) Error() string { return e.err.Error() }

// replay applies what a frame holds.
func (s *State) replay(e Entry) error {
	s.Seq = e.Seq
	for _, ev := range e.Events {
		d := draft{state: s}
		if err := first(ev.validate(), d.add(ev)); err != nil {
			return &misfitError{e.Pos, err}
		}
		s.apply(ev)
	}
	return nil
}

// repair cuts a torn tail, and makes durable all that the journal will rely on: a process that was killed may have
// written it and not synced it, and the power may fail next.
func (j *Journal) repair(l listing, s scanner) (Report, error) {
	r := s.report()
	f, err := j.fs.Open(s.file)
	if err != nil {
		return r, err
	}
	defer f.Close()
	if r.CutFrames > 0 {
		aside := l.cutName(l.newest())
		if err := copyTail(j.fs, f, r.CutPos, r.CutBytes, aside); err != nil {
			return r, fmt.Errorf("journal: set a tail aside: %w", err)
		}
		if err := j.fs.SyncDir(l.folder); err != nil {
			return r, err
		}
		r.SetAside = aside
	}
	if r.CutBytes > 0 {
		if err := f.Truncate(r.CutPos); err != nil {
			return r, err
		}
		j.opts.Logger.Warn("journal: torn tail cut off", "file", r.File, "pos", r.CutPos, "bytes", r.CutBytes,
			"frames", r.CutFrames, "set_aside", r.SetAside)
	}
	if err := f.Sync(); err != nil {
		return r, err
	}
	return r, j.fs.SyncDir(l.folder)
}

// copyTail copies n bytes at pos to a new file and makes its content durable.
func copyTail(fsys vfs.FS, from vfs.File, pos, n int64, name string) (err error) {
	to, err := fsys.Create(name)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, to.Close()); err != nil {
			_ = fsys.Remove(name)
		}
	}()
	buf := make([]byte, min(n, windowBytes))
	for off := int64(0); off < n; off += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), n-off)]
		if got, err := from.ReadAt(buf, pos+off); got < len(buf) {
			return err
		}
		if _, err := to.WriteAt(buf, off); err != nil {
			return err
		}
	}
	return to.Sync()
}
