package segment

import (
	"errors"
	"fmt"

	"github.com/ottlalog/ottla/record"
)

var (
	// ErrFull says that a batch doesn't fit into what is left of the segment: the log goes on in a new one.
	ErrFull = errors.New("segment full")

	// ErrRemoved is returned by Acquire after the segment has been removed.
	ErrRemoved = errors.New("segment removed")

	// ErrClosed is returned by Acquire after Close.
	ErrClosed = errors.New("closed")

	// ErrCorrupt is matched by every *CorruptionError.
	ErrCorrupt = record.ErrCorrupt
)

// CorruptionError says that bytes which were stored and synced are not what they were. Everything before and after
// the range is unaffected.
type CorruptionError struct {
	// Path is the damaged file.
	Path string
	// Start and End bound the damaged bytes: the next good batch begins at End, or the file ends there.
	Start, End int64
	// FirstOffset and NextOffset bound the offsets that can't be read. NextOffset is the base offset of the next good
	// batch, or of the next segment.
	FirstOffset, NextOffset int64
	// Err is what failed.
	Err error
}

func (e *CorruptionError) Error() string {
	return fmt.Sprintf("%s: bytes %d to %d are damaged, offsets %d to %d can't be read: %v",
		e.Path, e.Start, e.End, e.FirstOffset, e.NextOffset-1, e.Err)
}

// Unwrap returns the cause.
func (e *CorruptionError) Unwrap() error { return e.Err }

// Is makes errors.Is(err, ErrCorrupt) true.
func (e *CorruptionError) Is(target error) bool { return target == ErrCorrupt }
