package topic

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/ottlalog/ottla/internal/journal"
	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/segment"
)

// Errors that a caller handles.
var (
	// ErrTopicExists says that the name is taken.
	ErrTopicExists = errors.New("topic exists")
	// ErrUnknownTopic says that there is no topic of that name, or that it has been deleted.
	ErrUnknownTopic = errors.New("unknown topic")
	// ErrInvalidTopic says that a name or a configuration isn't allowed; the text says all that is wrong with it.
	ErrInvalidTopic = errors.New("invalid topic")
	// ErrNotEnoughReplicas says that a topic asks for more replicas than there are directories.
	ErrNotEnoughReplicas = errors.New("not enough replicas")
	// ErrOutcomeUnknown says that the catalogue's journal failed, and that a change that isn't made here may be found made by
	// an Open after a crash. It can be tried again. It lasts until the journal is healed, which is tried all the time.
	ErrOutcomeUnknown = journal.ErrOutcomeUnknown
)

// MaxPartitions is the most partitions of one topic.
const MaxPartitions = 100_000

// Config has the settings of a topic. They are kept with the topic, defaults included: opening it later with other
// defaults changes nothing.
type Config struct {
	// Partitions is how many partitions the topic has; 0: 1.
	Partitions int `json:"-"`
	// Replicas is in how many directories each partition is kept; 0: in all, at most 3. As long as there is one directory
	// only, it is 1.
	Replicas int `json:"replicas"`
	// MinInSync is how many replicas must be in sync for a record to be accepted; 0: 1.
	MinInSync int `json:"minInSync"`

	// SegmentBytes is the size at which a new segment begins, 4 KiB to 2 GiB; 0: 128 MiB.
	SegmentBytes int64 `json:"segmentBytes"`
	// SegmentAge is the age at which one does; 0: 7 days.
	SegmentAge time.Duration `json:"segmentAge"`
	// RetentionBytes: the oldest segments of a partition go as long as at least so many bytes remain; 0: keep all.
	RetentionBytes int64 `json:"retentionBytes,omitempty"`
	// RetentionAge: segments whose newest record is older go; 0: keep all.
	RetentionAge time.Duration `json:"retentionAge,omitempty"`
	// MaxRecordBytes is the most that key, value and headers of one record may have together; 0: 8 MiB.
	MaxRecordBytes int `json:"maxRecordBytes"`
	// Compression is how batches are stored, unless their producer says otherwise; 0: None.
	Compression Compression `json:"compression,omitempty"`

	// Timestamps says whose time records have; 0: CreateTime.
	Timestamps Timestamps `json:"timestamps,omitempty"`
	// MaxTimestampAhead is how far a record's own time may be ahead of the broker's clock: one that is further is refused,
	// with a *log.TimestampError. 0 or less: any time is taken.
	MaxTimestampAhead time.Duration `json:"maxTimestampAhead,omitempty"`
}

// withDefaults returns the settings as they are kept, or an error that names everything that is wrong.
func (c Config) withDefaults(directories int) (Config, error) {
	var wrong []string
	check := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	check(c.Partitions >= 0 && c.Partitions <= MaxPartitions, "Partitions is %d, not 1 to %d", c.Partitions, MaxPartitions)
	check(c.Replicas >= 0, "Replicas is %d", c.Replicas)
	check(c.MinInSync >= 0, "MinInSync is %d", c.MinInSync)
	check(c.SegmentBytes == 0 || c.SegmentBytes >= 4096 && c.SegmentBytes <= segment.MaxBytes,
		"SegmentBytes is %d, not 4096 to %d", c.SegmentBytes, segment.MaxBytes)
	check(c.SegmentAge >= 0, "SegmentAge is %v", c.SegmentAge)
	check(c.RetentionBytes >= 0, "RetentionBytes is %d", c.RetentionBytes)
	check(c.RetentionAge >= 0, "RetentionAge is %v", c.RetentionAge)
	check(c.MaxRecordBytes >= 0 && c.MaxRecordBytes <= segment.MaxBytes/4,
		"MaxRecordBytes is %d, not 0 to %d", c.MaxRecordBytes, segment.MaxBytes/4)
	check(c.Timestamps.valid(), "Timestamps is none of the constants: %v", c.Timestamps)
	check(c.Compression.valid(), "Compression is none of the constants: %v", c.Compression)

	c.Partitions = orDefault(c.Partitions, 1)
	c.Replicas = orDefault(c.Replicas, min(directories, 3))
	c.MinInSync = orDefault(c.MinInSync, 1)
	c.SegmentBytes = orDefault(c.SegmentBytes, log.DefaultSegmentBytes)
	c.SegmentAge = orDefault(c.SegmentAge, log.DefaultSegmentAge)
	c.MaxRecordBytes = orDefault(c.MaxRecordBytes, log.DefaultMaxRecordBytes)
	c.Compression = orDefault(c.Compression, None)
	c.MaxTimestampAhead = max(c.MaxTimestampAhead, 0)
	check(c.MinInSync <= c.Replicas, "MinInSync is %d of %d replicas", c.MinInSync, c.Replicas)
	if len(wrong) > 0 {
		return c, fmt.Errorf("%w: %s", ErrInvalidTopic, strings.Join(wrong, "; "))
	}
	if c.Replicas > directories {
		return c, fmt.Errorf("%w: %d asked for, and %d directories", ErrNotEnoughReplicas, c.Replicas, directories)
	}
	return c, nil
}

func orDefault[T int | int64 | time.Duration | Compression](v, def T) T {
	if v == 0 {
		return def
	}
	return v
}

// CheckName returns an error that matches ErrInvalidTopic unless the name is 1 to 249 of the characters A-Z a-z 0-9 . _ -
// and not "." or "..": Kafka's rule, by which a partition's folder has a legal name too.
func CheckName(name string) error {
	const longest = 249
	if name == "" || len(name) > longest || name == "." || name == ".." {
		return fmt.Errorf("%w: name %q isn't 1 to %d characters, or is only dots", ErrInvalidTopic, clip(name), longest)
	}
	for _, r := range name {
		legal := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-'
		if !legal {
			return fmt.Errorf("%w: name %q: %q isn't one of A-Z a-z 0-9 . _ -", ErrInvalidTopic, clip(name), r)
		}
	}
	return nil
}

func clip(name string) string {
	if len(name) > 300 {
		return name[:300] + "…"
	}
	return name
}

// Options are what a Set's owner decides for all topics.
type Options struct {
	Sync    log.SyncPolicy
	MinFree int64
	Logger  *slog.Logger // nil: silent
}

func (o Options) logConfig(c Config) log.Config {
	return log.Config{
		SegmentBytes:      c.SegmentBytes,
		SegmentAge:        c.SegmentAge,
		RetentionBytes:    c.RetentionBytes,
		RetentionAge:      c.RetentionAge,
		MaxRecordBytes:    c.MaxRecordBytes,
		LogAppendTime:     c.Timestamps == LogAppendTime,
		MaxTimestampAhead: c.MaxTimestampAhead,
		MinFree:           o.MinFree,
		Sync:              o.Sync,
		Logger:            o.Logger,
	}
}
