package record

import (
	"encoding/binary"
	"math"
)

// HeaderSize is the number of bytes before a batch's records.
const HeaderSize = 61

// MaxBatchSize is the largest size of a batch that the format can express.
const MaxBatchSize = math.MaxInt32

// What stands in a field that says nothing.
const (
	NoLeaderEpoch   = -1
	NoTimestamp     = -1
	NoProducerID    = -1
	NoProducerEpoch = -1
	NoSequence      = -1
)

// Where the fields stand: see the package's documentation.
const (
	posBaseOffset      = 0
	posLength          = 8
	posLeaderEpoch     = 12
	posMagic           = 16
	posCRC             = 17
	posAttributes      = 21
	posLastOffsetDelta = 23
	posBaseTimestamp   = 27
	posMaxTimestamp    = 35
	posProducerID      = 43
	posProducerEpoch   = 51
	posBaseSequence    = 53
	posCount           = 57

	lengthEnd = posLength + 4 // Length counts from here
	magic     = 2
)

// BatchHeader holds the fields before a batch's records.
type BatchHeader struct {
	BaseOffset      int64  // offset of the first record, even if compaction removed it
	Length          int32  // bytes after this field
	LeaderEpoch     int32  // reign in which the batch was appended
	CRC             uint32 // CRC-32C from the attributes to the end
	Attributes      Attributes
	LastOffsetDelta int32 // offset of the last record, counted from BaseOffset
	BaseTimestamp   int64 // what the records' times are counted from, ms
	MaxTimestamp    int64 // the latest of the records' times, ms
	ProducerID      int64
	ProducerEpoch   int16
	BaseSequence    int32 // sequence number of the first record
	Count           int32 // records held; only Validate or reading them all proves it, so never allocate by it alone
}

// HeaderAt returns the header of a batch from no known producer. Layout.Put fills in what else is needed.
func HeaderAt(baseOffset int64, leaderEpoch int32) BatchHeader {
	return BatchHeader{
		BaseOffset:    baseOffset,
		LeaderEpoch:   leaderEpoch,
		ProducerID:    NoProducerID,
		ProducerEpoch: NoProducerEpoch,
		BaseSequence:  NoSequence,
	}
}

// Size returns the bytes of the whole batch, header included.
func (h BatchHeader) Size() int { return lengthEnd + int(h.Length) }

// LastOffset returns the last offset that the batch takes.
func (h BatchHeader) LastOffset() int64 { return h.BaseOffset + int64(h.LastOffsetDelta) }

// NextOffset returns the first offset after the batch.
func (h BatchHeader) NextOffset() int64 { return h.LastOffset() + 1 }

// LastSequence returns the sequence number of the last record. The numbers go on at 0 after 2147483647.
func (h BatchHeader) LastSequence() int32 {
	if h.BaseSequence < 0 {
		return NoSequence
	}
	return int32((uint32(h.BaseSequence) + uint32(h.LastOffsetDelta)) & math.MaxInt32)
}

// ParseHeader reads the header of the batch that b begins with. It checks the magic and the length, so that Size can be
// trusted to be at least HeaderSize, but neither the checksum nor what that covers: until Parse has seen the whole
// batch, the fields are hearsay. b need not hold more than the header.
func ParseHeader(b []byte) (BatchHeader, error) {
	if len(b) <= posMagic {
		return BatchHeader{}, ErrIncomplete
	}
	if m := int8(b[posMagic]); m != magic {
		return BatchHeader{}, &FormatError{StageBatchHeader, posMagic, "magic is not 2", int64(m), ErrMagic}
	}
	length := int32(binary.BigEndian.Uint32(b[posLength:]))
	if length < HeaderSize-lengthEnd || length > MaxBatchSize-lengthEnd {
		return BatchHeader{}, corrupt(StageBatchHeader, posLength, "impossible length", int64(length))
	}
	if len(b) < HeaderSize {
		return BatchHeader{}, ErrIncomplete
	}
	b = b[:HeaderSize]
	return BatchHeader{
		BaseOffset:      int64(binary.BigEndian.Uint64(b[posBaseOffset:])),
		Length:          length,
		LeaderEpoch:     int32(binary.BigEndian.Uint32(b[posLeaderEpoch:])),
		CRC:             binary.BigEndian.Uint32(b[posCRC:]),
		Attributes:      Attributes(binary.BigEndian.Uint16(b[posAttributes:])),
		LastOffsetDelta: int32(binary.BigEndian.Uint32(b[posLastOffsetDelta:])),
		BaseTimestamp:   int64(binary.BigEndian.Uint64(b[posBaseTimestamp:])),
		MaxTimestamp:    int64(binary.BigEndian.Uint64(b[posMaxTimestamp:])),
		ProducerID:      int64(binary.BigEndian.Uint64(b[posProducerID:])),
		ProducerEpoch:   int16(binary.BigEndian.Uint16(b[posProducerEpoch:])),
		BaseSequence:    int32(binary.BigEndian.Uint32(b[posBaseSequence:])),
		Count:           int32(binary.BigEndian.Uint32(b[posCount:])),
	}, nil
}

// put writes the header at b[:HeaderSize], all but the checksum.
func (h *BatchHeader) put(b []byte) {
	b = b[:HeaderSize]
	binary.BigEndian.PutUint64(b[posBaseOffset:], uint64(h.BaseOffset))
	binary.BigEndian.PutUint32(b[posLength:], uint32(h.Length))
	binary.BigEndian.PutUint32(b[posLeaderEpoch:], uint32(h.LeaderEpoch))
	b[posMagic] = magic
	binary.BigEndian.PutUint16(b[posAttributes:], uint16(h.Attributes))
	binary.BigEndian.PutUint32(b[posLastOffsetDelta:], uint32(h.LastOffsetDelta))
	binary.BigEndian.PutUint64(b[posBaseTimestamp:], uint64(h.BaseTimestamp))
	binary.BigEndian.PutUint64(b[posMaxTimestamp:], uint64(h.MaxTimestamp))
	binary.BigEndian.PutUint64(b[posProducerID:], uint64(h.ProducerID))
	binary.BigEndian.PutUint16(b[posProducerEpoch:], uint16(h.ProducerEpoch))
	binary.BigEndian.PutUint32(b[posBaseSequence:], uint32(h.BaseSequence))
	binary.BigEndian.PutUint32(b[posCount:], uint32(h.Count))
}

// check looks for values that no writer leaves, whatever the checksum says. What it lets pass keeps offsets
// non-negative and NextOffset above BaseOffset.
func (h *BatchHeader) check() error {
	switch {
	case h.Attributes.Codec() > CodecZstd:
		return corrupt(StageHeader, posAttributes, "unknown codec", int64(h.Attributes.Codec()))
	case h.LastOffsetDelta < 0:
		return corrupt(StageHeader, posLastOffsetDelta, "negative last offset delta", int64(h.LastOffsetDelta))
	case h.BaseOffset < 0 || h.BaseOffset >= math.MaxInt64-int64(h.LastOffsetDelta):
		return corrupt(StageHeader, posBaseOffset, "base offset out of range", h.BaseOffset)
	case h.Count < 0:
		return corrupt(StageHeader, posCount, "negative record count", int64(h.Count))
	}
	return nil
}

// SetBase rewrites base offset and leader epoch of the batch at b in place. Both stand outside the checksum, which
// therefore stays good.
func SetBase(b []byte, baseOffset int64, leaderEpoch int32) {
	b = b[:posMagic]
	binary.BigEndian.PutUint64(b[posBaseOffset:], uint64(baseOffset))
	binary.BigEndian.PutUint32(b[posLeaderEpoch:], uint32(leaderEpoch))
}

// IsZero reports whether b holds nothing but zeros, as space does that was reserved and never written. Zeros are never
// a batch: Parse refuses their magic.
func IsZero(b []byte) bool {
	for len(b) >= 8 {
		if binary.NativeEndian.Uint64(b) != 0 {
			return false
		}
		b = b[8:]
	}
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
