package journal

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/cespare/xxhash/v2"
)

const (
	frameMagic  = "OJ1\n" // the digit is the version of the format
	frameHeader = 4 + 8 + 8 + 8 + 1

	// maxPayload bounds the events of one call. The frames of a snapshot hold less than a call and its envelope.
	maxPayload = 16 << 20
	maxFrame   = frameHeader + maxPayload + 1<<10

	maxLengthBytes = 5 // of the uvarint before a frame
)

// Kind says what a frame is.
type Kind byte

const (
	// KindSnapshot is a part of the snapshot at the start of the file: events that rebuild the state.
	KindSnapshot Kind = 'S'
	// KindSnapshotEnd completes the snapshot.
	KindSnapshotEnd Kind = 'E'
	// KindCall holds the events of one call of Append or Write.
	KindCall Kind = 'C'
	// KindMark changes nothing: it is there for its synced position, which speaks for the frames before it.
	KindMark Kind = 'M'
)

func (k Kind) known() bool {
	return k == KindSnapshot || k == KindSnapshotEnd || k == KindCall || k == KindMark
}

// String names the kind as an operator would.
func (k Kind) String() string {
	switch k {
	case KindSnapshot:
		return "snapshot"
	case KindSnapshotEnd:
		return "snapshot end"
	case KindCall:
		return "call"
	case KindMark:
		return "mark"
	default:
		return fmt.Sprintf("kind %q", byte(k))
	}
}

// frame is one entry of the file. The byte diagram stands in the package comment.
type frame struct {
	kind    Kind
	seq     uint64
	synced  int64
	payload []byte
}

func (f frame) encode() []byte {
	b := make([]byte, frameHeader, frameHeader+len(f.payload))
	copy(b, frameMagic)
	binary.BigEndian.PutUint64(b[12:], f.seq)
	binary.BigEndian.PutUint64(b[20:], uint64(f.synced))
	b[28] = byte(f.kind)
	b = append(b, f.payload...)
	binary.BigEndian.PutUint64(b[4:], xxhash.Sum64(b[12:]))
	return b
}

// entrySize is what a frame takes in the file, its length included.
func entrySize(frame []byte) int64 {
	var b [binary.MaxVarintLen64]byte
	return int64(binary.PutUvarint(b[:], uint64(len(frame))) + len(frame))
}

// badFrame says why the bytes at some position are no frame. It isn't an I/O error, which says nothing about the bytes.
type badFrame string

func (b badFrame) Error() string { return string(b) }

// window reads a file through one buffer.
type window struct {
	r    io.ReaderAt
	size int64
	off  int64 // of buf
	buf  []byte
}

const windowBytes = 256 << 10

// bytes returns n bytes at pos, which lie within the file, until the next call.
func (w *window) bytes(pos int64, n int) ([]byte, error) {
	if pos < w.off || pos+int64(n) > w.off+int64(len(w.buf)) {
		want := int(min(max(int64(n), windowBytes), w.size-pos))
		if cap(w.buf) < want {
			w.buf = make([]byte, want)
		}
		w.off, w.buf = pos, w.buf[:want]
		if got, err := w.r.ReadAt(w.buf, pos); got < want {
			w.buf = w.buf[:0]
			if err == io.EOF || err == nil {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return w.buf[pos-w.off:][:n], nil
}

// frameAt decodes the entry at pos and returns the position after it; a badFrame error when there is none. The payload
// is good until the next read.
func (w *window) frameAt(pos int64) (f frame, end int64, err error) {
	head, err := w.bytes(pos, int(min(maxLengthBytes+frameHeader, w.size-pos)))
	if err != nil {
		return f, 0, err
	}
	length, n := binary.Uvarint(head)
	if n <= 0 || n > maxLengthBytes || n > 1 && head[n-1] == 0 {
		return f, 0, badFrame("no frame length")
	}
	if length < frameHeader || length > maxFrame {
		return f, 0, badFrame(fmt.Sprintf("frame length %d", length))
	}
	end = pos + int64(n) + int64(length)
	if end > w.size {
		return f, 0, badFrame(fmt.Sprintf("frame of %d bytes is cut off", length))
	}
	if string(head[n:n+4]) != frameMagic {
		return f, 0, badFrame(fmt.Sprintf("frame begins with %q", head[n:n+4]))
	}
	b, err := w.bytes(pos+int64(n), int(length))
	if err != nil {
		return f, 0, err
	}
	if xxhash.Sum64(b[12:]) != binary.BigEndian.Uint64(b[4:]) {
		return f, 0, badFrame("wrong checksum")
	}
	return frame{
		kind:    Kind(b[28]),
		seq:     binary.BigEndian.Uint64(b[12:]),
		synced:  int64(binary.BigEndian.Uint64(b[20:])),
		payload: b[frameHeader:],
	}, end, nil
}
