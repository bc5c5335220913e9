package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/record"
)

// Stretch is one piece of a segment's file: a good batch, or bytes that are none although a good batch follows them.
type Stretch struct {
	From, To Place
	// Batch is good until the visit returns; only where Err is nil.
	Batch record.Batch
	// Err is what is wrong with the bytes from From.Pos to To.Pos.
	Err error
}

// Walk visits what stands in the file of batches at path, from the place of a batch on, in order. What follows the last
// good batch isn't visited: see Found. It changes nothing, and an error of visit ends it and is returned.
//
// The file may be written to meanwhile. A batch that is bad at first sight is therefore looked at again after what stands
// behind it has been seen: by then its writer is done with it, or it is damaged. What is appended beyond the length that
// the file had at first isn't walked over.
func Walk(fsys vfs.FS, path string, from Place, visit func(Stretch) error) (found Found, err error) {
	return walk(fsys, path, from, math.MaxInt64, visit)
}

func walk(fsys vfs.FS, path string, from Place, limit int64, visit func(Stretch) error) (found Found, err error) {
	f, err := fsys.OpenRead(path)
	if err != nil {
		return Found{}, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return Found{}, err
	}
	from.Pos = min(from.Pos, size)
	w := walker{path: path, file: f, sc: newScanner(f, size, limit, from), visit: visit}
	for more := true; more && err == nil; {
		more, err = w.step()
	}
	if err != nil {
		return Found{}, err
	}
	w.found.Size = w.sc.size
	return w.found, nil
}

type walker struct {
	path  string
	file  vfs.File
	sc    *scanner
	visit func(Stretch) error
	found Found
}

// step visits the next stretch and says whether there may be more.
func (w *walker) step() (more bool, err error) {
	from := w.sc.at
	batch, err := w.sc.next()
	if err == nil {
		return true, w.good(from, batch)
	}
	if err != io.EOF && !isDamage(err) {
		return w.shrunk(err)
	}
	bad := err
	follows, err := w.sc.resync()
	to := w.sc.at
	if err != nil {
		return w.shrunk(err)
	}
	var rest Found
	if !follows {
		rest = Found{End: from, Tail: damageOf(bad)}
		if err := w.sc.tail(&rest); err != nil {
			return w.shrunk(err)
		}
	}
	w.sc = newScanner(w.file, w.sc.size, w.sc.limit, from) // with nothing read yet
	if batch, err = w.sc.next(); err == nil {
		return true, w.good(from, batch)
	}
	if !follows {
		w.found.End, w.found.Tail, w.found.TailEnd = rest.End, rest.Tail, rest.TailEnd
		return false, nil
	}
	if bad == io.EOF {
		bad = fmt.Errorf("%w: zeros", record.ErrCorrupt)
	}
	w.found.Holes = append(w.found.Holes, Hole{Start: from, End: to, Err: bad})
	w.sc.at = to
	return true, w.visit(Stretch{From: from, To: to, Err: bad})
}

func damageOf(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

func (w *walker) good(from Place, batch record.Batch) error {
	w.found.Good = true
	return w.visit(Stretch{From: from, To: w.sc.at, Batch: batch})
}

// shrunk goes on after a failed read if the reason is that the file was cut to the length of its batches meanwhile.
func (w *walker) shrunk(cause error) (more bool, err error) {
	if errors.Is(cause, io.ErrUnexpectedEOF) {
		size, err := w.file.Size()
		if err != nil {
			return false, err
		}
		if size < w.sc.size {
			w.sc = newScanner(w.file, size, w.sc.limit, w.sc.at)
			return true, nil
		}
	}
	return false, fmt.Errorf("%s: %w", w.path, cause)
}

// Index is the content of an index file.
type Index struct {
	Base    int64 // offset at which the segment begins
	End     int64 // length of the batches that it covers
	MaxTime int64 // largest timestamp in them, ms; math.MinInt64 when there is none
	// SealedAt is when the segment was sealed, ms; 0: not known.
	SealedAt int64
	Entries  []IndexEntry

	tail uint64
}

// IndexEntry says where a batch begins.
type IndexEntry struct {
	Place
	// MaxTime is the largest timestamp of all records before it, ms; math.MinInt64 when there are none.
	MaxTime int64
}

// ReadIndex reads an index file. An error that matches ErrCorrupt says that it isn't what was written.
func ReadIndex(fsys vfs.FS, path string) (x Index, err error) {
	f, err := fsys.OpenRead(path)
	if err != nil {
		return Index{}, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return Index{}, err
	}
	if most := int64(indexHeaderSize + 8 + (MaxBytes/indexInterval+1)*indexEntrySize); size < indexHeaderSize || size > most {
		return Index{}, fmt.Errorf("%s: %w: no index has %d bytes", path, ErrCorrupt, size)
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return Index{}, fmt.Errorf("%s: %w", path, err)
	}
	le := binary.LittleEndian
	c := covered{int64(le.Uint64(b[8:])), int64(le.Uint64(b[16:])), le.Uint64(b[24:])}
	p, err := decodeIndex(b, c)
	if err != nil {
		return Index{}, fmt.Errorf("%s: %w: magic, version, length or a checksum is wrong", path, ErrCorrupt)
	}
	x = Index{Base: c.base, End: c.end, MaxTime: p.maxTime, SealedAt: p.sealedAt, tail: c.tail}
	for _, e := range p.entries {
		x.Entries = append(x.Entries, IndexEntry{Place{int64(e.pos), c.base + int64(e.offset)}, e.maxTime})
	}
	return x, nil
}

// Of says whether the index was made of the first End bytes of the segment that begins at its base offset in the folder
// dir: by the last bytes that it covers.
func (x Index) Of(fsys vfs.FS, dir string) (ok bool, err error) {
	s := OpenSealed(fsys, dir, x.Base, x.End, x.Base)
	if info, err := fsys.Stat(s.path); err != nil || x.End < 0 || x.End > info.Size() {
		return false, err
	}
	v, err := s.Acquire()
	if err != nil {
		return false, err
	}
	c, err := v.cover(x.End)
	return c == covered{x.Base, x.End, x.tail}, errors.Join(err, v.Release())
}
