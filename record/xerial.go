package record

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/klauspost/compress/snappy"
)

// Snappy's own format is a block that says how long it is, uncompressed. Kafka's clients frame such blocks as the Java
// library of Xerial does; some write one bare block. Both are read, frames are written.
//
//	82 S N A P P Y 00, version int32, least compatible version int32, then blocks: length int32, that many bytes
const (
	xerialMagic   = "\x82SNAPPY\x00"
	xerialVersion = 1
	xerialHeader  = len(xerialMagic) + 8
	xerialBlock   = 32 << 10 // uncompressed bytes in a block that we write
)

var (
	errXerial = errors.New("malformed framing")
	errSnappy = errors.New("a block says that it holds more than it can")
)

func appendXerial(dst, plain []byte) []byte {
	dst = append(dst, xerialMagic...)
	dst = binary.BigEndian.AppendUint32(dst, xerialVersion)
	dst = binary.BigEndian.AppendUint32(dst, xerialVersion)
	for len(plain) > 0 {
		block := plain[:min(xerialBlock, len(plain))]
		plain = plain[len(block):]
		at := len(dst) + 4
		dst = slices.Grow(dst, 4+snappy.MaxEncodedLen(len(block)))
		n := len(snappy.Encode(dst[at:cap(dst)], block))
		dst = binary.BigEndian.AppendUint32(dst, uint32(n))
		dst = dst[:at+n]
	}
	return dst
}

// unsnappy appends what src holds, in either form, to dst.
func unsnappy(dst, src []byte, limit int) ([]byte, error) {
	if len(src) < xerialHeader || string(src[:len(xerialMagic)]) != xerialMagic {
		return unsnappyBlock(dst, src, limit)
	}
	if v := int32(binary.BigEndian.Uint32(src[len(xerialMagic):])); v < xerialVersion {
		return dst, errXerial
	}
	src = src[xerialHeader:]
	for len(src) > 0 {
		if len(src) < 4 {
			return dst, errXerial
		}
		n := binary.BigEndian.Uint32(src)
		src = src[4:]
		if uint64(n) > uint64(len(src)) {
			return dst, errXerial
		}
		var err error
		if dst, err = unsnappyBlock(dst, src[:n], limit); err != nil {
			return dst, err
		}
		src = src[n:]
	}
	return dst, nil
}

func unsnappyBlock(dst, block []byte, limit int) ([]byte, error) {
	n, err := snappy.DecodedLen(block)
	if err != nil {
		return dst, err
	}
	if n/22 > len(block) { // three bytes give 64 at most: so memory isn't taken on a claim alone
		return dst, errSnappy
	}
	if dst, err = reserve(dst, n, limit); err != nil {
		return dst, err
	}
	end := len(dst) + n
	_, err = snappy.Decode(dst[len(dst):end:end], block)
	return dst[:end], err
}
