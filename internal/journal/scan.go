package journal

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"

	"github.com/ottlalog/ottla/internal/vfs"
)

// Entry is one frame of a journal's file, as [Scan] shows it.
type Entry struct {
	Pos    int64 // where it begins in the file
	Kind   Kind
	Seq    uint64  // number of the call, counted from creation; of a snapshot or mark: of the last call that it covers
	Synced int64   // length of the file that was known to be on disk when it was written
	Events []Event // of a snapshot or call
}

// Report says what was found in a journal.
type Report struct {
	File    string // the file of the generation in force
	Entries int    // intact frames
	Seq     uint64 // number of the last call

	CutPos    int64  // where the torn tail begins, if CutBytes isn't zero
	CutBytes  int64  // its length: never acknowledged as durable, and cut off by Open
	CutFrames int    // intact frames in it, behind something broken
	SetAside  string // where Open copied it to, if there were any
}

// Scan reads the journal in dir without a lock and without changing anything, and calls visit for each frame. A journal
// that is being written to shows some state of late, with a frame half written as a torn tail maybe.
func Scan(fsys vfs.FS, dir string, visit func(Entry) error) (Report, error) {
	return scanNewest(fsys, dir, func() func(Entry) error { return visit })
}

// Read is Scan that returns what the frames add up to; with an error, what those before the bad place do.
func Read(fsys vfs.FS, dir string) (state *State, r Report, err error) {
	state = newState()
	r, err = scanNewest(fsys, dir, func() func(Entry) error {
		state = newState()
		return state.replay
	})
	var misfit *misfitError
	if errors.As(err, &misfit) {
		err = &CorruptionError{File: r.File, Pos: misfit.pos, What: misfit.err.Error()}
	}
	return state, r, err
}

// scanNewest scans the generation in force. Each attempt has a visitor of its own.
func scanNewest(fsys vfs.FS, dir string, visitor func() func(Entry) error) (Report, error) {
	const attempts = 5 // a snapshot may replace the file between two steps
	for n := 1; ; n++ {
		l, err := list(fsys, dir)
		if err != nil {
			return Report{}, err
		}
		s, err := scanGeneration(fsys, l.path(l.newest()), visitor())
		if s.entries == 0 && errors.Is(err, ErrCorrupt) && n < attempts {
			if now, err := list(fsys, dir); err == nil && now.newest() != l.newest() {
				continue
			}
		}
		return s.report(), err
	}
}

// scanner walks over a generation's file and knows in which order frames may stand.
type scanner struct {
	window
	file    string
	pos     int64 // end of the last good frame
	entries int
	seq     uint64
	kind    Kind  // of the last good frame
	frames  int   // of the snapshot so far
	base    int64 // end of the snapshot; 0 while in it

	cutFrames int
}

func (s *scanner) report() Report {
	r := Report{File: s.file, Entries: s.entries, Seq: s.seq, CutFrames: s.cutFrames}
	if s.pos < s.size {
		r.CutPos, r.CutBytes = s.pos, s.size-s.pos
	}
	return r
}

// scanGeneration reads the file in the folder gen. Without an error, s.pos is the end of what is good, and what is
// behind it a tail that may be cut.
func scanGeneration(fsys vfs.FS, gen string, visit func(Entry) error) (s scanner, err error) {
	s.file = fileIn(gen)
	f, err := fsys.OpenRead(s.file)
	if errors.Is(err, fs.ErrNotExist) {
		return s, s.damage(0, "the file is missing")
	}
	if err != nil {
		return s, err
	}
	defer f.Close()
	if s.size, err = f.Size(); err != nil {
		return s, err
	}
	s.r = f
	err = s.run(visit)
	s.window = window{size: s.size}
	return s, err
}

func (s *scanner) damage(pos int64, format string, args ...any) error {
	return &CorruptionError{File: s.file, Pos: pos, What: fmt.Sprintf(format, args...)}
}

func (s *scanner) run(visit func(Entry) error) error {
	for s.pos < s.size {
		f, end, err := s.frameAt(s.pos)
		if bad := badFrame(""); errors.As(err, &bad) {
			return s.judgeTail(bad)
		}
		if err != nil {
			return err
		}
		e, err := s.entry(f, end)
		if err != nil {
			return err
		}
		if err := visit(e); err != nil {
			return err
		}
		s.pos, s.seq, s.kind = end, f.seq, f.kind
		s.entries++
	}
	if s.base == 0 {
		return s.damage(s.pos, "the file ends within its snapshot")
	}
	return nil
}

// entry judges an intact frame by its place.
func (s *scanner) entry(f frame, end int64) (e Entry, err error) {
	e = Entry{Pos: s.pos, Kind: f.kind, Seq: f.seq, Synced: f.synced}
	if !f.kind.known() {
		return e, s.versionError(errors.New(f.kind.String()))
	}
	want := s.seq
	if f.kind == KindCall {
		want++
	} else if s.entries == 0 {
		want = f.seq
	}
	switch {
	case f.seq != want:
		return e, s.damage(s.pos, "sequence number %d where %d belongs", f.seq, want)
	case f.synced < 0 || f.synced > s.pos:
		return e, s.damage(s.pos, "synced position %d", f.synced)
	case (f.kind == KindSnapshot || f.kind == KindSnapshotEnd) != (s.base == 0):
		return e, s.damage(s.pos, "a frame of %v, out of place", f.kind)
	}
	switch f.kind {
	case KindSnapshot, KindCall:
		if e.Events, err = decodeEvents(f.payload); err != nil {
			return e, s.versionError(err)
		}
		if f.kind == KindSnapshot {
			s.frames++
		}
	case KindSnapshotEnd:
		var snap snapshotEnd
		if err := decodeStrict(f.payload, &snap); err != nil {
			return e, s.versionError(err)
		}
		if snap.Frames != s.frames {
			return e, s.damage(s.pos, "snapshot of %d frames, %d are here", snap.Frames, s.frames)
		}
		s.base = end
	}
	return e, nil
}

func (s *scanner) versionError(err error) error {
	return fmt.Errorf("%w: %s at byte %d: %w", ErrVersion, s.file, s.pos, err)
}

// judgeTail tells a tail that may be cut from damage, the frame at s.pos being bad: an intact frame behind it may
// witness that the place was on disk once.
func (s *scanner) judgeTail(bad badFrame) error {
	if s.base == 0 {
		if v, err := s.version(); err != nil || v != "" && v != frameMagic {
			return cmp.Or(err, fmt.Errorf("%w: %s: format %q", ErrVersion, s.file, v))
		}
		return s.damage(s.pos, "%v, within the snapshot", bad)
	}
	count, synced, err := s.framesAfter(s.pos)
	if err != nil {
		return err
	}
	if synced > s.pos {
		return s.damage(s.pos, "%v; an intact frame behind it says that the first %d bytes were on disk", bad, synced)
	}
	s.cutFrames = count
	return nil
}

// version returns the magic at the start of the file, empty if there is none of any version.
func (w *window) version() (string, error) {

	head, err := w.bytes(0, int(min(maxLengthBytes+4, w.size)))
	if err != nil {
		return "", err
	}
	for n := 1; n+4 <= len(head); n++ {
		if m := string(head[n : n+4]); m[:2] == frameMagic[:2] && m[3] == frameMagic[3] {
			return m, nil
		}
	}
	return "", nil
}

// framesAfter looks for intact frames beyond pos: how many, and the largest synced position that any of them states.
func (w *window) framesAfter(pos int64) (count int, synced int64, err error) {
	for off := pos; w.size-off >= frameHeader; {
		chunk, err := w.bytes(off, int(min(windowBytes/2, w.size-off)))
		if err != nil {
			return 0, 0, err
		}
		i := bytes.Index(chunk, []byte(frameMagic))
		if i < 0 {
			off += int64(len(chunk) - len(frameMagic) + 1)
			continue
		}
		f, end, err := w.frameAround(off+int64(i), pos)
		if bad := badFrame(""); errors.As(err, &bad) {
			off += int64(i) + 1
			continue
		}
		if err != nil {
			return 0, 0, err
		}
		off, count, synced = end, count+1, max(synced, f.synced)
	}
	return count, synced, nil
}

// frameAround decodes the frame whose magic is at pos: its length stands before it, in a few bytes beyond floor.
func (w *window) frameAround(pos, floor int64) (f frame, end int64, err error) {
	err = badFrame("no room for a length")
	for n := int64(1); n <= maxLengthBytes && pos-n > floor; n++ {
		f, end, err = w.frameAt(pos - n)
		if bad := badFrame(""); !errors.As(err, &bad) {
			return f, end, err
		}
	}
	return f, 0, err
}
