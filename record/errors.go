package record

import (
	"errors"
	"fmt"
)

// What reading can meet.
var (
	// ErrIncomplete says that the bytes end before the batch does: more are needed. It isn't damage.
	ErrIncomplete = errors.New("record: incomplete batch")

	// ErrCorrupt says that the bytes are no valid batch. The error that carries it is a *FormatError.
	ErrCorrupt = errors.New("record: corrupt batch")

	// ErrMagic says that the batch is of a format other than version 2. It is also an ErrCorrupt, since the magic byte
	// stands outside the checksum and so can't tell another version from damage.
	ErrMagic = fmt.Errorf("%w: unsupported magic", ErrCorrupt)

	// ErrCompressed says that the records of a compressed batch were to be read without Decompress.
	ErrCompressed = errors.New("record: batch is compressed")

	// ErrSize says that the batch is sound as far as its checksum reaches, but that it would be larger than allowed once
	// decompressed. The error that carries it is a *SizeError.
	ErrSize = errors.New("record: batch too large to be decompressed")
)

// What planning can meet. The error names the record.
var (
	// ErrEmpty says that there is nothing to write.
	ErrEmpty = errors.New("record: no records")

	// ErrTooLarge says that a record, or the batch, has more bytes than its 32-bit length can say.
	ErrTooLarge = errors.New("record: larger than 2 GiB")

	// ErrTime says that a record's time can't be told in 64 bits of milliseconds.
	ErrTime = errors.New("record: time out of range")

	// ErrOffset says that a record's offset lies outside the batch that it is to be kept in, or not above the record
	// before it.
	ErrOffset = errors.New("record: offset out of place")
)

// Stage is the step of reading that failed. The steps come in the order of the constants.
type Stage string

// The stages.
const (
	StageBatchHeader Stage = "batch header" // magic and length, which find the batch's end
	StageCRC         Stage = "crc"          // the checksum
	StageHeader      Stage = "header"       // fields that the checksum vouches for but that make no sense
	StageRecords     Stage = "records"      // the records, read one by one
)

// FormatError says where in a batch the bytes break the format, and how. It matches ErrCorrupt.
type FormatError struct {
	Stage Stage
	Pos   int    // bytes from the start of the batch, of the decompressed one where that is read
	What  string // what is wrong
	Value int64  // the value found there
	Err   error  // ErrCorrupt or ErrMagic
}

// Error implements error.
func (e *FormatError) Error() string {
	return fmt.Sprintf("%v: %s, byte %d: %s (%d)", e.Err, e.Stage, e.Pos, e.What, e.Value)
}

// Unwrap returns ErrCorrupt or ErrMagic.
func (e *FormatError) Unwrap() error { return e.Err }

// SizeError says that a batch would have more than Limit bytes once decompressed. It matches ErrSize.
type SizeError struct {
	Codec Codec
	Limit int
}

// Error implements error.
func (e *SizeError) Error() string {
	return fmt.Sprintf("%v: more than %d bytes of %v", ErrSize, e.Limit, e.Codec)
}

// Unwrap returns ErrSize.
func (e *SizeError) Unwrap() error { return ErrSize }

func corrupt(s Stage, pos int, what string, value int64) error {
	return &FormatError{Stage: s, Pos: pos, What: what, Value: value, Err: ErrCorrupt}
}
