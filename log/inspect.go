package log

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/record"
	"github.com/ottlalog/ottla/segment"
)

// Folder is what stands in a log's folder. A folder that a log is open in shows some state of late.
type Folder struct {
	Dir      string
	Segments []SegmentFile // in order
	Point    PointFile
	Aside    []string // files that a recovery or a repair has set aside
	Others   []string // files that don't belong to the log
}

// SegmentFile is a segment's file of batches. What it holds isn't known.
type SegmentFile struct {
	Path string
	Base int64
	Size int64 // length of the file, with space reserved for appends
}

// Look lists the folder of a log without changing anything. The recovery point is read first: what it vouches for must be
// found in the segments listed, unless they were removed meanwhile.
func Look(fsys vfs.FS, dir string) (Folder, error) {
	folder := Folder{Dir: dir}
	var err error
	folder.Point, err = ReadPointFile(fsys, filepath.Join(dir, pointFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Folder{}, err
	}
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return Folder{}, err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		base, isSegment := segment.ParseName(e.Name())
		switch {
		case isSegment && !e.IsDir():
			info, err := fsys.Stat(path)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return Folder{}, err
			}
			folder.Segments = append(folder.Segments, SegmentFile{path, base, info.Size()})
		case strings.HasSuffix(e.Name(), asideSuffix):
			folder.Aside = append(folder.Aside, path)
		case e.Name() != pointFile && !isIndexName(e.Name()):
			folder.Others = append(folder.Others, path)
		}
	}
	return folder, nil
}

func isIndexName(name string) bool {
	name, ok := strings.CutSuffix(name, ".index")
	_, isSegment := segment.ParseName(name + ".log")
	return ok && isSegment
}

// RecoveryPoint says what need not be looked at again after a crash.
type RecoveryPoint struct {
	Start   int64 // log start offset
	Offset  int64 // every record below it was on the disk
	Base    int64 // base offset of the segment in which that stands or will stand,
	Pos     int64 // and its byte there
	Cutting bool  // a truncation to Offset has begun
}

// Placed says whether the point names the byte at which its offset stands.
func (p RecoveryPoint) Placed() bool { return p.Pos != unplaced }

// Unplaced returns the point without its byte, true of its segment before and after that is rewritten: a recovery looks
// for the offset in the whole segment.
func (p RecoveryPoint) Unplaced() RecoveryPoint {
	p.Pos = unplaced
	return p
}

// StorePoint makes p durably the recovery point of a log that nobody has open. The point before stays in force until then.
func StorePoint(fsys vfs.FS, dir string, p RecoveryPoint) error {
	c := checkpoint{fs: fsys, dir: dir}
	if err := c.load(); err != nil {
		return err
	}
	return c.store(point{start: p.Start, offset: p.Offset, base: p.Base, pos: p.Pos, cut: p.Cutting})
}

// PointName is the name of the file with the recovery point in a log's folder.
const PointName = pointFile

// PointSlot is one of the two places in the file recovery-point that are written in turn.
type PointSlot struct {
	Pos   int64 // where it begins in the file
	End   int64 // and where it ends
	Seq   uint64
	Point RecoveryPoint // only where Err is nil, as Seq
	Blank bool          // never written; Err says so too
	Err   error
}

// PointFile is the file recovery-point. The zero value is a missing file.
type PointFile struct {
	Size  int64
	Slots []PointSlot // those that the file is long enough for
	Stray int64       // position of the first byte outside of the slots that isn't zero; 0: there is none
}

// InForce returns the recovery point that counts, and whether there is one.
func (f PointFile) InForce() (p RecoveryPoint, ok bool) {
	seq := uint64(0)
	for _, s := range f.Slots {
		if s.Err == nil && (!ok || s.Seq > seq) {
			seq, p, ok = s.Seq, s.Point, true
		}
	}
	return p, ok
}

// ReadPointFile reads a file recovery-point without changing anything.
func ReadPointFile(fsys vfs.FS, path string) (p PointFile, err error) {
	f, err := fsys.OpenRead(path)
	if err != nil {
		return PointFile{}, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return PointFile{}, err
	}
	b := make([]byte, min(size, 2*pointSlot))
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return PointFile{}, err
	}
	p.Size = size
	for at := 0; at+pointSize <= len(b); at += pointSlot {
		p.Slots = append(p.Slots, readSlot(b[at:at+pointSize], int64(at)))
		rest := b[at+pointSize : min(at+pointSlot, len(b))]
		for i := 0; i < len(rest) && p.Stray == 0; i++ {
			if rest[i] != 0 {
				p.Stray = int64(at + pointSize + i)
			}
		}
	}
	return p, nil
}

func readSlot(b []byte, pos int64) PointSlot {
	s := PointSlot{Pos: pos, End: pos + pointSize, Blank: record.IsZero(b)}
	seq, p, ok := decodePoint(b)
	switch {
	case ok:
		s.Seq = seq
		s.Point = RecoveryPoint{Start: p.start, Offset: p.offset, Base: p.base, Pos: p.pos, Cutting: p.cut}
	case s.Blank:
		s.Err = errors.New("never written")
	case string(b[:4]) == pointMagic && binary.LittleEndian.Uint32(b[4:]) != pointVersion:
		s.Err = fmt.Errorf("%w: damaged, or of version %d", ErrCorrupt, binary.LittleEndian.Uint32(b[4:]))
	default:
		s.Err = fmt.Errorf("%w: magic or checksum is wrong", ErrCorrupt)
	}
	return s
}
