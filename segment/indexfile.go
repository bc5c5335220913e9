package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/record"
)

// The index file of a sealed segment, little-endian. It is derived: whatever is wrong with it, it is rebuilt from the
// batches.
//
//	 0  4  magic "OTIX"
//	 4  4  version, 1
//	 8  8  base offset of the segment
//	16  8  length of the batches that it covers
//	24  8  xxh64 of their last 4 KiB: an index of other batches of the same length isn't believed
//	32  8  largest timestamp, ms; the smallest int64 when there is none
//	40  8  when the segment was sealed, ms
//	48  4  number of entries
//	52  4  zero
//	56  8  xxh64 of bytes 0 to 55
//	64 16  an entry: offset from the base (4), position (4), largest timestamp before it (8)
//	 …  8  xxh64 of the entries
const (
	indexMagic      = "OTIX"
	indexVersion    = 1
	indexHeaderSize = 64
	indexEntrySize  = 16
	indexTailSize   = 4096
)

var errIndex = errors.New("index doesn't belong to the segment or is damaged")

// covered says which batches an index is of.
type covered struct {
	base, end int64
	tail      uint64 // hash of the last bytes
}

// cover describes the first end bytes of what v shows.
func (v View) cover(end int64) (covered, error) {
	b := make([]byte, min(end, indexTailSize))
	if n, err := v.ReadAt(b, end-int64(len(b))); err != nil || n < len(b) {
		return covered{}, errors.Join(err, fmt.Errorf("%s: %d bytes of %d read", v.seg.path, n, len(b)))
	}
	return covered{v.seg.base, end, xxhash.Sum64(b)}, nil
}

func encodeIndex(c covered, p *part) []byte {
	b := make([]byte, indexHeaderSize, indexHeaderSize+len(p.entries)*indexEntrySize+8)
	le := binary.LittleEndian
	copy(b, indexMagic)
	le.PutUint32(b[4:], indexVersion)
	le.PutUint64(b[8:], uint64(c.base))
	le.PutUint64(b[16:], uint64(c.end))
	le.PutUint64(b[24:], c.tail)
	le.PutUint64(b[32:], uint64(p.maxTime))
	le.PutUint64(b[40:], uint64(p.sealedAt))
	le.PutUint32(b[48:], uint32(len(p.entries)))
	le.PutUint64(b[56:], xxhash.Sum64(b[:56]))
	for _, e := range p.entries {
		b = le.AppendUint32(b, e.offset)
		b = le.AppendUint32(b, e.pos)
		b = le.AppendUint64(b, uint64(e.maxTime))
	}
	return le.AppendUint64(b, xxhash.Sum64(b[indexHeaderSize:]))
}

func decodeIndex(b []byte, c covered) (*part, error) {
	le := binary.LittleEndian
	switch {
	case len(b) < indexHeaderSize+8,
		string(b[:4]) != indexMagic,
		le.Uint32(b[4:]) != indexVersion,
		le.Uint64(b[56:]) != xxhash.Sum64(b[:56]),
		c != covered{int64(le.Uint64(b[8:])), int64(le.Uint64(b[16:])), le.Uint64(b[24:])},
		int64(len(b)) != indexHeaderSize+int64(le.Uint32(b[48:]))*indexEntrySize+8:
		return nil, errIndex
	}
	body := b[indexHeaderSize : len(b)-8]
	if le.Uint64(b[len(b)-8:]) != xxhash.Sum64(body) {
		return nil, errIndex
	}
	p := &part{
		maxTime:  int64(le.Uint64(b[32:])),
		sealedAt: int64(le.Uint64(b[40:])),
		entries:  make([]entry, 0, len(body)/indexEntrySize),
	}
	for ; len(body) > 0; body = body[indexEntrySize:] {
		p.entries = append(p.entries, entry{le.Uint32(body), le.Uint32(body[4:]), int64(le.Uint64(body[8:]))})
	}
	return p, nil
}

// readIndex returns what the index file says of the first end bytes.
func (s *Segment) readIndex(v View, end int64) (*part, error) {
	path := indexPath(s.path)
	f, err := s.fs.OpenRead(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if most := indexHeaderSize + 8 + (end/indexInterval+1)*indexEntrySize; size > most {
		return nil, fmt.Errorf("%s: %w: %d bytes where at most %d are possible", path, errIndex, size, most)
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	c, err := v.cover(end)
	if err != nil {
		return nil, err
	}
	return decodeIndex(b, c)
}

// storeIndex writes the index file of the first end bytes, synced.
func (s *Segment) storeIndex(v View, end int64, p *part) error {
	c, err := v.cover(end)
	if err != nil {
		return err
	}
	path := indexPath(s.path)
	if err := removeIfThere(s.fs, path); err != nil {
		return err
	}
	f, err := s.fs.Create(path)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(encodeIndex(c, p), 0)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// RemoveIndex removes the index file of a segment whose batches are moved away or cut.
func RemoveIndex(fs vfs.FS, path string) error { return removeIfThere(fs, indexPath(path)) }

// buildIndex makes the index of the first end bytes by walking over the batches. Damaged stretches have no entries.
func (s *Segment) buildIndex(v View, end int64) (*part, error) {
	x := newIndex(0)
	sc := newScanner(io.NewSectionReader(readerAt{v}, 0, end), end, s.Next(), Place{0, s.base})
	for {
		at := sc.at
		b, err := sc.next()
		if err == nil {
			x.add(b.Header().BaseOffset-s.base, at.Pos, b.Header().MaxTimestamp)
			continue
		}
		if !isDamage(err) && err != io.EOF {
			return nil, err
		}
		if found, err := sc.resync(); err != nil {
			return nil, err
		} else if !found {
			break
		}
	}
	return &part{entries: x.live.load(), maxTime: x.latest.Load(), sealedAt: time.Now().UnixMilli()}, nil
}

// readerAt is a View as an io.ReaderAt.
type readerAt struct{ View }

func (r readerAt) ReadAt(dst []byte, pos int64) (int, error) {
	n, err := r.View.ReadAt(dst, pos)
	if err == nil && n < len(dst) {
		err = io.EOF
	}
	return n, err
}

// isDamage says whether an error is about the bytes, not about reading them.
func isDamage(err error) bool {
	return errors.Is(err, record.ErrCorrupt) || errors.Is(err, record.ErrIncomplete)
}
