package log

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/segment"
)

// Errors that a caller handles.
var (
	// ErrClosed is returned by everything after Close.
	ErrClosed = segment.ErrClosed

	// ErrOffsetOutOfRange is matched by every *OffsetError.
	ErrOffsetOutOfRange = errors.New("offset out of range")

	// ErrRecordTooLarge says that a record is beyond Config.MaxRecordBytes, or a batch beyond what a segment can hold.
	// Nothing of the batch was stored.
	ErrRecordTooLarge = errors.New("record too large")

	// ErrNoSpace says that the disk is full, or would be fuller than Config.MinFree allows. Nothing was stored, reading
	// goes on, and appending again once there is space.
	ErrNoSpace = vfs.ErrNoSpace

	// ErrFailed says that a write or a sync failed earlier. What was acknowledged stays readable; appends are refused
	// with the first cause until the log is opened again.
	ErrFailed = errors.New("log failed and takes no appends until it is opened again")

	// ErrCorrupt is matched by every *segment.CorruptionError.
	ErrCorrupt = segment.ErrCorrupt
)

// OffsetError says that an offset lies outside of what the log holds. It matches ErrOffsetOutOfRange.
type OffsetError struct {
	Asked      int64
	Start, End int64 // offsets that are there: Start up to but not including End
}

func (e *OffsetError) Error() string {
	return fmt.Sprintf("offset %d is out of range: the log holds %d up to %d", e.Asked, e.Start, e.End)
}

// Is makes errors.Is(err, ErrOffsetOutOfRange) true.
func (e *OffsetError) Is(target error) bool { return target == ErrOffsetOutOfRange }

// SyncPolicy says when appended records are forced to the disk, and so what an acknowledgement survives. Each policy
// survives a killed process. The zero value is SyncAlways.
type SyncPolicy struct {
	never    bool
	interval time.Duration
}

var (
	// SyncAlways: a record is on the disk before it is acknowledged or read. Callers that wait at the same time share
	// one sync.
	SyncAlways = SyncPolicy{}
	// SyncNever: the kernel decides. A power cut loses what it hadn't written.
	SyncNever = SyncPolicy{never: true}
)

// SyncInterval forces records to the disk every d: a power cut loses what was acknowledged in the last d. A d of zero or
// less is SyncAlways.
func SyncInterval(d time.Duration) SyncPolicy { return SyncPolicy{interval: max(d, 0)} }

// Always reports whether the policy is SyncAlways.
func (p SyncPolicy) Always() bool { return !p.never && p.interval == 0 }

// Interval returns the d of SyncInterval, 0 for the others.
func (p SyncPolicy) Interval() time.Duration { return p.interval }

func (p SyncPolicy) String() string {
	switch {
	case p.never:
		return "never"
	case p.interval > 0:
		return "every " + p.interval.String()
	}
	return "always"
}

// Config has the settings of a log. The zero value is usable.
type Config struct {
	// SegmentBytes is the size at which a new segment begins, up to segment.MaxBytes; 0: 128 MiB. A batch that is larger
	// gets a segment of its own.
	SegmentBytes int64
	// SegmentAge is the age, by the local clock, at which a segment that holds records is rolled; 0: 7 days.
	SegmentAge time.Duration
	// RetentionBytes: the oldest segments go as long as at least so many bytes remain without them; 0: no limit. The
	// active segment always stays.
	RetentionBytes int64
	// RetentionAge: segments whose newest record is older go; 0: no limit. A record that claims to be from the future
	// counts as written when its segment was sealed.
	RetentionAge time.Duration
	// MaxRecordBytes is the most that key, value and headers of one record may have together; 0: 8 MiB.
	MaxRecordBytes int
	// LogAppendTime gives each record the time of its append, by the local clock, instead of its own.
	LogAppendTime bool
	// MaxTimestampAhead is how far a record's time may be ahead of the local clock; 0 or less: any time is taken.
	MaxTimestampAhead time.Duration
	// MinFree is how many bytes of the disk appends leave free; 0: none.
	MinFree int64
	// Sync says when records are forced to the disk.
	Sync SyncPolicy
	// Logger gets what an operator should know: cut tails, damage, failures. Nil: silent.
	Logger *slog.Logger
}

// Defaults of Config.
const (
	DefaultSegmentBytes   = 128 << 20
	DefaultSegmentAge     = 7 * 24 * time.Hour
	DefaultMaxRecordBytes = 8 << 20
)

// MaxBatchBytes is the most that a batch may have, compressed or not.
const MaxBatchBytes = segment.MaxBytes / 2

// leastDecompressed is what a batch may have once decompressed, however small the records are kept.
const leastDecompressed = 64 << 20

// decompressed is the most that a batch may have once decompressed: larger ones are stored as they are, and not read if
// they come from elsewhere. Only for batches beyond 64 MiB does it matter that MaxRecordBytes was another when they were
// stored.
func (c Config) decompressed() int {
	return min(max(leastDecompressed, 2*c.MaxRecordBytes), MaxBatchBytes)
}

func (c Config) withDefaults() Config {
	if c.SegmentBytes <= 0 {
		c.SegmentBytes = DefaultSegmentBytes
	}
	c.SegmentBytes = min(c.SegmentBytes, segment.MaxBytes)
	if c.SegmentAge <= 0 {
		c.SegmentAge = DefaultSegmentAge
	}
	if c.MaxRecordBytes <= 0 {
		c.MaxRecordBytes = DefaultMaxRecordBytes
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}
