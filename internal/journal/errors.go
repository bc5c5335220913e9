package journal

import (
	"errors"
	"fmt"
)

// Errors of opening.
var (
	// ErrCorrupt is matched by every [*CorruptionError].
	ErrCorrupt = errors.New("journal: corrupt")

	// ErrVersion says that the journal holds something intact that this version doesn't know: a newer one wrote it.
	ErrVersion = errors.New("journal: written by a newer version")
)

// Errors of writing.
var (
	// ErrClosed is returned by every method that writes after Close.
	ErrClosed = errors.New("journal: closed")

	// ErrOutcomeUnknown says that a write failed and that its events may or may not be there after the next Open.
	// A failed write whose error doesn't match it left nothing behind.
	ErrOutcomeUnknown = errors.New("journal: outcome unknown")
)

// Errors of events that don't fit the state. Nothing of the call is written.
var (
	// ErrInvalid says that an event is malformed, or goes back in epoch or partition count.
	ErrInvalid = errors.New("journal: invalid event")

	// ErrUnknownTopic says that no live topic has the event's ID.
	ErrUnknownTopic = errors.New("journal: unknown topic")

	// ErrUnknownPartition says that the topic has no such partition.
	ErrUnknownPartition = errors.New("journal: unknown partition")

	// ErrTopicExists says that the ID or the name is taken, if only by a deleted topic that isn't purged yet.
	ErrTopicExists = errors.New("journal: topic exists")
)

// CorruptionError says where a journal is damaged. Nothing was changed.
type CorruptionError struct {
	File string // the damaged file or folder
	Pos  int64  // byte position in it
	What string // what is wrong there
}

func (e *CorruptionError) Error() string {
	return fmt.Sprintf("journal: %s: damaged at byte %d: %s", e.File, e.Pos, e.What)
}

// Is matches ErrCorrupt.
func (e *CorruptionError) Is(target error) bool { return target == ErrCorrupt }
