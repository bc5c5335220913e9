package record

import "hash/crc32"

// Batch is a view of a batch's bytes whose header and checksum were found good. It is a small value that owns nothing:
// it is good for as long as the bytes that it was parsed from are there and unchanged. Any number of goroutines may
// read the same batch.
type Batch struct {
	header BatchHeader
	bytes  []byte
}

// Parse returns the batch that b begins with; b may go on behind it. It checks in this order: that there are enough
// bytes to tell, the magic, the length, that the batch is all there, its checksum, and its header's sense. The records
// are checked when they are read, or by Validate.
//
// The error is ErrIncomplete if b ends too early, or else a *FormatError.
func Parse(b []byte) (Batch, error) {
	h, err := ParseHeader(b)
	if err != nil {
		return Batch{}, err
	}
	if len(b) < h.Size() {
		return Batch{}, ErrIncomplete
	}
	b = b[:h.Size():h.Size()]
	if crc32.Checksum(b[posAttributes:], castagnoli) != h.CRC {
		return Batch{}, corrupt(StageCRC, posCRC, "checksum does not match", int64(h.CRC))
	}
	if err := h.check(); err != nil {
		return Batch{}, err
	}
	return Batch{header: h, bytes: b}, nil
}

// Header returns the batch's header.
func (b Batch) Header() BatchHeader { return b.header }

// Bytes returns the bytes of the whole batch: not a copy.
func (b Batch) Bytes() []byte { return b.bytes }

// Records returns an iterator over the batch's records. Of a compressed batch it has none, and ErrCompressed: Decompress
// comes first.
func (b Batch) Records() Iterator {
	it := Iterator{
		bytes:      b.bytes,
		pos:        HeaderSize,
		left:       b.header.Count,
		lastDelta:  int64(b.header.LastOffsetDelta),
		prevDelta:  -1,
		baseOffset: b.header.BaseOffset,
		baseTime:   b.header.BaseTimestamp,
		appendTime: b.header.MaxTimestamp,
		attributes: b.header.Attributes,
	}
	if b.header.Attributes.Codec() != CodecNone {
		it.stop(ErrCompressed)
	}
	return it
}

// Validate reads through all records and returns what Records would end with: nil if the batch is good in every part.
// Like Records it wants a batch that isn't compressed.
// It allocates nothing unless it finds fault.
func (b Batch) Validate() error {
	it := b.Records()
	var r Record
	for it.next(&r, nil) {
	}
	return it.err
}
