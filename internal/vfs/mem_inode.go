package vfs

import (
	"bytes"
	"errors"
	"time"
)

// errOutgrown says what this file system can't do and a real one can.
var errOutgrown = errors.New("vfs.Mem can't map more of a file than an earlier mapping that is still in use")

// inode is a file's content, guarded by the Mem that it belongs to.
//
//	0                 length              len(mem)            the rest, while mapped
//	|    content      |       zeros          |     spill: content beyond the mappings    |
//
// Cached content is mem, which mappings share and which therefore stays where it is while there are any; what is written
// beyond it meanwhile is in spill.
type inode struct {
	mem    []byte
	spill  []byte
	length int64
	mapped int // mappings that share mem
	links  int // names
	blocks blockSet
	mtime  time.Time
	disk   diskState
}

func newInode() *inode {
	return &inode{mtime: time.Now(), disk: diskState{lengths: []int64{0}}}
}

// eachPart calls fn for the parts of the cached content that make up [off, off+n).
func (ino *inode) eachPart(off, n int64, fn func(part []byte)) {
	inMem := int64(len(ino.mem))
	if off < inMem {
		k := min(n, inMem-off)
		fn(ino.mem[off : off+k])
		off, n = off+k, n-k
	}
	if n > 0 {
		fn(ino.spill[off-inMem : off-inMem+n])
	}
}

func (ino *inode) read(p []byte, off int64) {
	ino.eachPart(off, int64(len(p)), func(part []byte) {
		copy(p, part)
		p = p[len(part):]
	})
}

func (ino *inode) write(p []byte, off int64) {
	ino.setLength(max(ino.length, off+int64(len(p))))
	ino.eachPart(off, int64(len(p)), func(part []byte) {
		copy(part, p)
		p = p[len(part):]
	})
	ino.mtime = time.Now()
}

// setLength makes the file longer or shorter, not durable yet. Beyond the end all is zero, so that growth has nothing to
// write.
func (ino *inode) setLength(n int64) {
	old := ino.length
	if n == old {
		return
	}
	if n > old {
		ino.assertZeroBeyond(n)
		ino.ensure(n)
	} else {
		ino.eachPart(n, old-n, func(part []byte) { clear(part) })
	}
	ino.length = n
	ino.mtime = time.Now()
	ino.disk.lengthChanged(n)
}

// ensure makes room for n bytes of content.
func (ino *inode) ensure(n int64) {
	have := int64(len(ino.mem))
	switch {
	case n <= have:
	case ino.mapped == 0:
		ino.mem = resize(ino.mem, roundUp(n))
	default:
		ino.spill = resize(ino.spill, max(int64(len(ino.spill)), n-have))
	}
}

// share returns the first size bytes of the cached content, which from now on stay in place.
func (ino *inode) share(size int64) ([]byte, error) {
	if ino.mapped == 0 {
		ino.ensure(max(size, ino.length))
	}
	if size > int64(len(ino.mem)) {
		return nil, errOutgrown
	}
	ino.mapped++
	return ino.mem[:size:size], nil
}

// unshare ends one mapping. The last one leaves its memory to whoever still, wrongly, uses it.
func (ino *inode) unshare() {
	ino.assertZeroBeyond(ino.length + watched)
	ino.mapped--
	if ino.mapped > 0 {
		return
	}
	content := make([]byte, roundUp(ino.length))
	ino.read(content[:ino.length], 0)
	left := ino.mem
	ino.mem, ino.spill = content, nil
	left = left[:min(int64(len(left)), roundUp(ino.length))]
	for len(left) > 0 {
		left = left[copy(left, rubbish):]
	}
}

// detach gives the inode memory of its own, and whoever has it mapped keeps the old.
func (ino *inode) detach() {
	content := make([]byte, roundUp(ino.length))
	ino.peek(content[:ino.length], 0)
	ino.mem, ino.spill, ino.mapped = content, nil, 0
}

// assertZeroBeyond panics if something was stored between the end of the file and position to.
func (ino *inode) assertZeroBeyond(to int64) {
	if ino.mapped == 0 {
		return
	}
	if to = min(to, int64(len(ino.mem))); to > ino.length && !isZero(ino.mem[ino.length:to]) {
		panic("vfs.Mem: store beyond the end of the file: a memory fault, or lost, on a real disk")
	}
}

// peek is read as the kernel does it, beside stores that are under way.
func (ino *inode) peek(p []byte, off int64) {
	ino.eachPart(off, int64(len(p)), func(part []byte) {
		copyUnseen(p, part)
		p = p[len(part):]
	})
}

// copyUnseen is copy without the race detector, to which copy itself would report even from here.
//
//go:norace
func copyUnseen(to, from []byte) {
	const chunk = 64
	n := min(len(to), len(from))
	to, from = to[:n], from[:n]
	for len(from) >= chunk {
		*(*[chunk]byte)(to) = *(*[chunk]byte)(from)
		to, from = to[chunk:], from[chunk:]
	}
	for len(from) > 0 {
		to[0] = from[0]
		to, from = to[1:], from[1:]
	}
}

var (
	zeroPage [PageSize]byte
	rubbish  = bytes.Repeat([]byte{0xDB}, PageSize) // in memory that was unmapped
)

// watched is how far beyond the end of a file a stray store is looked for.
const watched = 1 << 20

// isZero looks without the race detector.
//
//go:norace
func isZero(b []byte) bool {
	for len(b) > PageSize {
		if !bytes.Equal(b[:PageSize], zeroPage[:]) {
			return false
		}
		b = b[PageSize:]
	}
	return bytes.Equal(b, zeroPage[:len(b)])
}

// resize returns b with n bytes, new ones zero. Whatever is beyond the length of such a slice is zero; so large memory
// that no one stores into is never touched.
func resize(b []byte, n int64) []byte {
	switch {
	case n <= int64(len(b)):
		clear(b[n:])
	case n > int64(cap(b)):
		grown := make([]byte, n, max(n, 2*int64(len(b))))
		copy(grown, b)
		b = grown
	}
	return b[:n]
}

func roundUp(n int64) int64 { return (n + PageSize - 1) / PageSize * PageSize }

// blockSet tells which pages of a file have blocks on the disk.
type blockSet []bool

// lacks returns how many bytes of blocks [off, off+n) is short of.
func (s blockSet) lacks(off, n int64) (bytes int64) {
	for p := off / PageSize; p*PageSize < off+n; p++ {
		if p >= int64(len(s)) || !s[p] {
			bytes += PageSize
		}
	}
	return bytes
}

func (s *blockSet) take(off, n int64) {
	last := (off + n - 1) / PageSize
	if more := last + 1 - int64(len(*s)); more > 0 {
		*s = append(*s, make([]bool, more)...)
	}
	for p := off / PageSize; p <= last; p++ {
		(*s)[p] = true
	}
}

// free gives up the blocks of all pages beyond the first size bytes, and returns how many bytes that is.
func (s *blockSet) free(size int64) (bytes int64) {
	first := roundUp(size) / PageSize
	for p := first; p < int64(len(*s)); p++ {
		if (*s)[p] {
			bytes += PageSize
		}
	}
	if first < int64(len(*s)) {
		*s = (*s)[:first]
	}
	return bytes
}

func (s blockSet) bytes() (n int64) {
	for _, has := range s {
		if has {
			n += PageSize
		}
	}
	return n
}
