package record

import "time"

// Record is one entry of a partition.
//
// A nil Key or Value is null and differs from an empty one; both survive storage. Functions that take records neither
// change them nor keep their slices after they return. Functions that return records say how long the slices live.
type Record struct {
	// Topic, Partition and Offset say where the record stands. They are set on records that were read; a producer
	// ignores Offset, and Partition unless its partitioner is the explicit one.
	Topic     string
	Partition int
	Offset    int64

	// Time is the record's timestamp, kept in milliseconds since 1970. The zero time.Time stands for "now" in a record
	// to be written.
	Time time.Time

	Key     []byte
	Value   []byte
	Headers []Header
}

// Header is an application's own note on a record. Headers keep their order, and a key may occur more than once.
type Header struct {
	Key   string
	Value []byte
}
