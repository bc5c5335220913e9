package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
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
//	24  8  largest timestamp, ms; the smallest int64 when there is none
//	32  8  when the segment was sealed, ms
//	40  4  number of entries
//	44  4  zero
//	48  8  xxh64 of bytes 0 to 47
//	56 16  an entry: offset from the base (4), position (4), largest timestamp before it (8)
//	 …  8  xxh64 of the entries
const (
	indexMagic      = "OTIX"
	indexVersion    = 1
	indexHeaderSize = 56
	indexEntrySize  = 16
)

var errIndex = errors.New("index doesn't belong to the segment or is damaged")

func encodeIndex(base, end int64, p *part) []byte {
	b := make([]byte, indexHeaderSize, indexHeaderSize+len(p.entries)*indexEntrySize+8)
	le := binary.LittleEndian
	copy(b, indexMagic)
	le.PutUint32(b[4:], indexVersion)
	le.PutUint64(b[8:], uint64(base))
	le.PutUint64(b[16:], uint64(end))
	le.PutUint64(b[24:], uint64(p.maxTime))
	le.PutUint64(b[32:], uint64(p.sealedAt))
	le.PutUint32(b[40:], uint32(len(p.entries)))
	le.PutUint64(b[48:], xxhash.Sum64(b[:48]))
	for _, e := range p.entries {
		b = le.AppendUint32(b, e.offset)
		b = le.AppendUint32(b, e.pos)
		b = le.AppendUint64(b, uint64(e.maxTime))
	}
	return le.AppendUint64(b, xxhash.Sum64(b[indexHeaderSize:]))
}

func decodeIndex(b []byte, base, end int64) (*part, error) {
	le := binary.LittleEndian
	switch {
	case len(b) < indexHeaderSize+8,
		string(b[:4]) != indexMagic,
		le.Uint32(b[4:]) != indexVersion,
		le.Uint64(b[48:]) != xxhash.Sum64(b[:48]),
		int64(le.Uint64(b[8:])) != base,
		int64(le.Uint64(b[16:])) != end,
		int64(len(b)) != indexHeaderSize+int64(le.Uint32(b[40:]))*indexEntrySize+8:
		return nil, errIndex
	}
	body := b[indexHeaderSize : len(b)-8]
	if le.Uint64(b[len(b)-8:]) != xxhash.Sum64(body) {
		return nil, errIndex
	}
	p := &part{
		maxTime:  int64(le.Uint64(b[24:])),
		sealedAt: int64(le.Uint64(b[32:])),
		entries:  make([]entry, 0, len(body)/indexEntrySize),
	}
	for ; len(body) > 0; body = body[indexEntrySize:] {
		p.entries = append(p.entries, entry{le.Uint32(body), le.Uint32(body[4:]), int64(le.Uint64(body[8:]))})
	}
	return p, nil
}

func readIndex(fs vfs.FS, path string, base, end int64) (*part, error) {
	f, err := fs.OpenRead(path)
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
	return decodeIndex(b, base, end)
}

// writeIndex stores the index of everything published, synced.
func (s *Segment) writeIndex() error {
	p, err := s.whole()
	if err != nil {
		return err
	}
	return s.storeIndex(p)
}

func (s *Segment) storeIndex(p *part) error {
	p.sealedAt = time.Now().UnixMilli()
	path := s.indexPath()
	if err := removeIfThere(s.fs, path); err != nil {
		return err
	}
	f, err := s.fs.Create(path)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(encodeIndex(s.base, s.end.Load(), p), 0)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// buildIndex makes the index of the first end bytes by walking over the batches, and stores it if they are the whole of
// a sealed segment. Damaged stretches have no entries.
func (s *Segment) buildIndex(end int64) (*part, error) {
	v, err := s.Acquire()
	if err != nil {
		return nil, err
	}
	defer v.Release()
	x := index{}
	x.init(0)
	sc := newScanner(io.NewSectionReader(readerAt{v}, 0, end), end, 0, s.base)
	for {
		pos := sc.pos
		b, err := sc.next()
		if err == nil {
			x.add(b.Header().BaseOffset-s.base, pos, b.Header().MaxTimestamp)
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
	p := &part{entries: *x.live.Load(), maxTime: x.liveMax.Load(), sealedAt: time.Now().UnixMilli()}
	if s.w == nil {
		_ = s.storeIndex(p) // derived: who can't store it now builds it again next time
	}
	return p, nil
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

// offsetSpan is how many offsets a segment can hold: its index has 32 bits for them.
const offsetSpan = math.MaxUint32
