package log

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"math"
	"path/filepath"

	"github.com/cespare/xxhash/v2"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/record"
)

// point is the content of the file recovery-point: what need not be looked at again after a crash. It may be older than
// the log, and then costs a longer scan; it is never ahead of what was synced.
type point struct {
	start  int64 // log start offset
	offset int64 // every record below it is on the disk
	base   int64 // the segment in which offset stands or will stand,
	pos    int64 // and its byte there
	cut    bool  // a truncation to offset has begun: whatever is behind it goes
}

// from returns the point with a log start.
func (p point) from(start int64) point {
	p.start = start
	return p
}

// cutting returns the point as the intent to truncate to it.
func (p point) cutting() point {
	p.cut = true
	return p
}

// The file has two slots, a page each, written in turn and synced: a crash while one is written leaves the other.
// Little-endian:
//
//	 0 4 magic "OTRP"
//	 4 4 version, 1
//	 8 8 sequence number: the larger of two good slots counts
//	16 8 log start offset
//	24 8 recovery point: offset
//	32 8 base offset of its segment
//	40 8 byte in that segment; the largest int64 when it isn't known
//	48 8 flags: 1 a truncation has begun
//	56 8 xxh64 of bytes 0 to 55
const (
	pointFile    = "recovery-point"
	pointMagic   = "OTRP"
	pointVersion = 1
	pointSize    = 64
	pointSlot    = vfs.PageSize

	flagCut  = 1
	unplaced = math.MaxInt64
)

// checkpoint reads and writes the recovery point of a log.
type checkpoint struct {
	fs   vfs.FS
	dir  string
	seq  uint64 // of the last good slot
	last point
	ok   bool // a good slot was read or written

	unreadable bool // no slot is good, and there was more than a first one whose storing failed
}

func (c *checkpoint) path() string { return filepath.Join(c.dir, pointFile) }

// load reads the file. A missing file or one without a good slot leaves ok false: the log itself is then scanned whole.
// An error is about reading: it says nothing about the content.
func (c *checkpoint) load() error {
	f, err := c.fs.OpenRead(c.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	b := make([]byte, min(size, 2*pointSlot))
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return err
	}
	for slot := range int64(2) {
		at := slot * pointSlot
		if at+pointSize > int64(len(b)) {
			break
		}
		if seq, p, ok := decodePoint(b[at : at+pointSize]); ok && (!c.ok || seq > c.seq) {
			c.seq, c.last, c.ok = seq, p, true
		}
	}
	c.unreadable = !c.ok && !record.IsZero(b[:min(len(b), pointSlot)]) // the first goes to the second slot
	return nil
}

// store makes p durable. The file's name is durable after a sync of the folder. After a failure the point before is in
// force, and storing can be tried again: it rewrites the whole slot.
func (c *checkpoint) store(p point) (err error) {
	if c.ok && p == c.last {
		return nil
	}
	f, err := c.fs.Open(c.path())
	if errors.Is(err, fs.ErrNotExist) {
		f, err = c.fs.Create(c.path())
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if !c.ok { // both slots have their blocks from the first: a disk that is full later doesn't matter
		if err := f.Allocate(0, 2*pointSlot); err != nil {
			return err
		}
	}
	seq := c.seq + 1
	if _, err := f.WriteAt(encodePoint(seq, p), int64(seq%2)*pointSlot); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	c.seq, c.last, c.ok = seq, p, true
	return nil
}

func encodePoint(seq uint64, p point) []byte {
	b := make([]byte, 0, pointSize)
	b = append(b, pointMagic...)
	le := binary.LittleEndian
	b = le.AppendUint32(b, pointVersion)
	b = le.AppendUint64(b, seq)
	for _, v := range []int64{p.start, p.offset, p.base, p.pos} {
		b = le.AppendUint64(b, uint64(v))
	}
	flags := uint64(0)
	if p.cut {
		flags = flagCut
	}
	b = le.AppendUint64(b, flags)
	return le.AppendUint64(b, xxhash.Sum64(b))
}

func decodePoint(b []byte) (seq uint64, p point, ok bool) {
	le := binary.LittleEndian
	if string(b[:4]) != pointMagic || le.Uint32(b[4:]) != pointVersion || le.Uint64(b[56:]) != xxhash.Sum64(b[:56]) {
		return 0, point{}, false
	}
	p = point{
		start:  int64(le.Uint64(b[16:])),
		offset: int64(le.Uint64(b[24:])),
		base:   int64(le.Uint64(b[32:])),
		pos:    int64(le.Uint64(b[40:])),
		cut:    le.Uint64(b[48:])&flagCut != 0,
	}
	ok = p.start >= 0 && p.start <= p.offset && p.offset <= maxOffset && p.base >= 0 && p.base <= p.offset &&
		(p.pos > 0 || p.pos == 0 && p.base == p.offset)
	return le.Uint64(b[8:]), p, ok
}
