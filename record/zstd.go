package record

import (
	"errors"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// zstdEncoder is used by all goroutines, some at a time, and has no goroutine of its own. A batch seldom has more than its
// window of 1 MiB, and what an encoder keeps grows with that.
var zstdEncoder = sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderCRC(false), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
	must(err)
	return e
})

// zstdDecoder is used in the same way. It takes as much memory as a stream needs.
var zstdDecoder = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil)
	must(err)
	return d
})

// zstdWindow is the window up to which decoders should take streams, says the format's specification.
const zstdWindow = 8 << 20

// unzstd appends what src holds to dst.
func unzstd(dst, src []byte, limit int) ([]byte, error) {
	d, most := zstdDecoder(), limit-len(dst)
	if zstdBound(src) > int64(most) { // a bomb, or nearly: a decoder with the limit built in, which goes for the window too
		var err error
		d, err = zstd.NewReader(nil, zstd.WithDecoderMaxMemory(uint64(max(most, zstdWindow))), zstd.WithDecoderConcurrency(1))
		must(err)
	}
	room := dst[len(dst):max(min(cap(dst), limit), len(dst))]
	out, err := d.DecodeAll(src, room[:0:len(room)])
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded), errors.Is(err, zstd.ErrWindowSizeExceeded), len(out) > most:
		return dst, errLimit
	case err != nil || len(out) == 0:
		return dst, err
	case len(room) > 0 && &out[0] == &room[0]:
		return dst[:len(dst)+len(out)], nil
	}
	if dst, err = reserve(dst, len(out), limit); err != nil { // out didn't fit where it should be
		return dst, err
	}
	return append(dst, out...), nil
}

// zstdBound returns a number of bytes that src can't exceed when it is decompressed: from what the frames say and from their
// blocks, each of which has so many, repeats one byte so many times, or is compressed and has 128 KiB at most. For
// damaged frames the bound holds up to the damage.
func zstdBound(src []byte) (bound int64) {
	skip := func(n int) bool {
		ok := n <= len(src)
		src = src[min(n, len(src)):]
		return ok
	}
	for len(src) > 0 {
		var h zstd.Header
		if h.Decode(src) != nil || !skip(h.HeaderSize) {
			return bound
		}
		if h.Skippable {
			if uint64(h.SkippableSize) > uint64(len(src)) {
				return bound
			}
			skip(int(h.SkippableSize))
			continue
		}
		content, whole := int64(0), true
		for last := false; !last && whole && len(src) >= 3; {
			block := int(src[0]) | int(src[1])<<8 | int(src[2])<<16
			last = block&1 != 0
			size := block >> 3
			skip(3)
			switch block >> 1 & 3 {
			case 0: // raw
				content += int64(size)
				whole = skip(size)
			case 1: // one byte, repeated
				content += int64(size)
				whole = skip(1)
			default:
				content += 128 << 10
				whole = skip(size)
			}
		}
		if h.HasFCS {
			content = int64(min(uint64(content), h.FrameContentSize))
		}
		bound += content
		if h.HasCheckSum {
			skip(4)
		}
	}
	return bound
}
