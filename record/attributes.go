package record

import "strconv"

// Codec is how the records of a batch are compressed: bits 0 to 2 of its attributes.
type Codec int8

// The codecs. The numbers are frozen.
const (
	CodecNone Codec = iota
	CodecGzip
	CodecSnappy
	CodecLZ4
	CodecZstd
)

// String returns the codec's name.
func (c Codec) String() string {
	switch c {
	case CodecNone:
		return "none"
	case CodecGzip:
		return "gzip"
	case CodecSnappy:
		return "snappy"
	case CodecLZ4:
		return "lz4"
	case CodecZstd:
		return "zstd"
	}
	return "codec " + strconv.Itoa(int(c))
}

// Attributes are a batch's flags. Bits without a meaning are kept and otherwise ignored.
type Attributes int16

// The attributes' bits. The numbers are frozen.
const (
	codecBits Attributes = 1<<3 - 1

	// FlagLogAppendTime: every record's time is the batch's MaxTimestamp.
	FlagLogAppendTime Attributes = 1 << 3
	// FlagTransactional: the batch belongs to its producer's open transaction.
	FlagTransactional Attributes = 1 << 4
	// FlagControl: the record is a marker (commit, abort), and none of the user's.
	FlagControl Attributes = 1 << 5
	// FlagDeleteHorizon: BaseTimestamp is also the time from which compaction may drop the batch's delete markers.
	FlagDeleteHorizon Attributes = 1 << 6
)

// Codec returns how the records are compressed.
func (a Attributes) Codec() Codec { return Codec(a & codecBits) }

// LogAppendTime reports whether the records carry the time of their append instead of their producer's.
func (a Attributes) LogAppendTime() bool { return a&FlagLogAppendTime != 0 }

// Transactional reports whether the batch belongs to a transaction.
func (a Attributes) Transactional() bool { return a&FlagTransactional != 0 }

// Control reports whether the batch holds a marker instead of a user's records.
func (a Attributes) Control() bool { return a&FlagControl != 0 }

// HasDeleteHorizon reports whether BaseTimestamp is also the batch's delete horizon.
func (a Attributes) HasDeleteHorizon() bool { return a&FlagDeleteHorizon != 0 }
