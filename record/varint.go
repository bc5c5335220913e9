package record

import "math/bits"

// Varints are zigzag-coded: the sign goes to bit 0, so that small numbers of either sign are short. Seven bits a byte,
// the low ones first; bit 7 says that another byte follows.
const (
	maxVarint32 = 5
	maxVarint64 = 10
)

func zigzag(v int64) uint64   { return uint64(v<<1) ^ uint64(v>>63) }
func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

// varintSize is the number of bytes that putVarint writes. The widths that nearly every field has come first: finding
// the top bit of a number is slow on the oldest processors that Go supports, and so on all of them.
func varintSize(v int64) int {
	switch u := zigzag(v); {
	case u < 1<<7:
		return 1
	case u < 1<<14:
		return 2
	default:
		// Nine sixty-fourths stand in for one seventh: exact for every width from 1 to 64.
		return (bits.Len64(u)*9 + 64) >> 6
	}
}

// putVarint writes v at b[i:] and returns the position after it.
func putVarint(b []byte, i int, v int64) int {
	u := zigzag(v)
	for u >= 0x80 {
		b[i] = byte(u) | 0x80
		u >>= 7
		i++
	}
	b[i] = byte(u)
	return i + 1
}

// varint reads the number at b[i:], of at most limit bytes, and returns it and the position after it, negative if there
// is none. Longer forms than needed are read as what they say. It is small enough to be inlined, and so it's the
// caller's to check that a number of maxVarint32 bytes, which have room for 35 bits, is within its range.
func varint(b []byte, i, limit int) (int64, int) {
	var u uint64
	for s := 0; i < len(b) && s < 7*limit; s += 7 {
		c := b[i]
		i++
		u |= uint64(c&0x7f) << (s & 63)
		if c < 0x80 {
			return unzigzag(u), i
		}
	}
	return 0, -1
}

// varint64 is varint for the numbers that may need 64 bits.
func varint64(b []byte, i int) (int64, int) {
	v, next := varint(b, i, maxVarint64)
	if next-i == maxVarint64 && b[next-1] > 1 {
		return 0, -1 // more than 64 bits
	}
	return v, next
}
