package ottla

import (
	"time"

	"github.com/ottlalog/ottla/group"
	"github.com/ottlalog/ottla/internal/directory"
	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/partition"
	"github.com/ottlalog/ottla/record"
	"github.com/ottlalog/ottla/segment"
	"github.com/ottlalog/ottla/topic"
)

// What the packages below define and users name.
type (
	// Record is one entry of a partition.
	Record = record.Record
	// Header is an application's note on a record.
	Header = record.Header

	// Topic is a named set of partitions.
	Topic = topic.Topic
	// TopicConfig has the settings of a topic.
	TopicConfig = topic.Config
	// Partition is one ordered sequence of records.
	Partition = partition.Partition
	// Reader reads a partition without a group.
	Reader = partition.Reader
	// Start says where reading begins: Earliest, Latest, At or AtTime.
	Start = partition.Start

	// Producer writes records to topics.
	Producer = topic.Producer
	// ProducerConfig has the settings of a producer.
	ProducerConfig = topic.ProducerConfig
	// Result says where a record was stored.
	Result = topic.Result
	// Partitioner chooses partitions: ByKey, Murmur2Key, StickyBatch, RoundRobin, Weighted, Explicit, PartitionBy, or one's own.
	Partitioner = topic.Partitioner
	// Place is what a Partitioner makes for a topic.
	Place = topic.Place
	// Compression says how batches are stored: None, Gzip, Snappy, Lz4 or Zstd.
	Compression = topic.Compression
	// Timestamps says whose time records have: CreateTime or LogAppendTime.
	Timestamps = topic.Timestamps

	// ConsumerGroup shares topics among its members.
	ConsumerGroup = group.Group
	// Member is one consumer of a group.
	Member = group.Member
	// MemberConfig has the settings of a member.
	MemberConfig = group.MemberConfig
	// RunConfig has the settings of ConsumerGroup.Run.
	RunConfig = group.RunConfig
	// ResetPolicy says where a member goes on whose position is out of range: ResetEarliest, ResetLatest or ResetNone.
	ResetPolicy = group.ResetPolicy
	// GroupDescription is what ConsumerGroup.Describe knows of a group.
	GroupDescription = group.Description
	// GroupState is what a group is doing: GroupEmpty, GroupStable or GroupRebalancing.
	GroupState = group.State
	// OffsetReset says what ConsumerGroup.ResetOffsets shall do.
	OffsetReset = group.OffsetReset
	// OffsetChange is a committed offset that ResetOffsets changes.
	OffsetChange = group.OffsetChange
	// TopicPartition names a partition.
	TopicPartition = group.TopicPartition
	// Assignor decides which member reads which partition: Sticky, Range, RoundRobinAssignor, or one's own.
	Assignor = group.Assignor

	// SyncPolicy says when records are forced to the disk.
	SyncPolicy = log.SyncPolicy
)

// Errors with something to read (errors.As).
type (
	// SendError tells what became of records whose send failed.
	SendError = partition.SendError
	// OffsetError names the offset asked for and the range that is there.
	OffsetError = log.OffsetError
	// TimestampError names the record and the time that is too far in the future.
	TimestampError = log.TimestampError
	// CorruptionError names the damaged file, bytes and offsets.
	CorruptionError = segment.CorruptionError
	// PanicError is a panic of a handler given to ConsumerGroup.Run.
	PanicError = group.PanicError
)

// Outcomes of a SendError.
const (
	NotStored = partition.NotStored
	Unknown   = partition.Unknown
)

// Errors to handle (errors.Is).
var (
	// ErrClosed is returned by everything after Close of the broker, or of what is used.
	ErrClosed = log.ErrClosed
	// ErrLocked is returned by Open for a directory that is open already, in this process or another; it names the holder.
	ErrLocked = directory.ErrLocked
	// ErrFormat is returned by Open for a directory of another format version, or one whose files don't fit together.
	ErrFormat = directory.ErrFormat
	// ErrNoSpace says that the disk is full; nothing of the record was stored, and reading goes on.
	ErrNoSpace = log.ErrNoSpace

	// ErrTopicExists, ErrUnknownTopic and ErrInvalidTopic are about names and settings of topics.
	ErrTopicExists  = topic.ErrTopicExists
	ErrUnknownTopic = topic.ErrUnknownTopic
	ErrInvalidTopic = topic.ErrInvalidTopic
	// ErrNotEnoughReplicas says that a topic wants more replicas than there are directories.
	ErrNotEnoughReplicas = topic.ErrNotEnoughReplicas
	// ErrOutcomeUnknown says that a change of the catalogue failed and isn't made here, but may be found made after a crash.
	ErrOutcomeUnknown = topic.ErrOutcomeUnknown
	// ErrUnknownPartition says that the topic has no partition of that number.
	ErrUnknownPartition = partition.ErrUnknownPartition
	// ErrNoLeader says that a partition's data is missing, damaged or not accessible: that partition can't be used.
	ErrNoLeader = partition.ErrNoLeader

	// ErrRecordTooLarge says that a record is beyond TopicConfig.MaxRecordBytes; nothing of its batch was stored.
	ErrRecordTooLarge = log.ErrRecordTooLarge
	// ErrTimestamp is matched by TimestampError.
	ErrTimestamp = log.ErrTimestamp
	// ErrOffsetOutOfRange is matched by OffsetError.
	ErrOffsetOutOfRange = log.ErrOffsetOutOfRange
	// ErrFailed says that a write or sync failed: the partition takes no more records until the broker is opened again.
	ErrFailed = log.ErrFailed
	// ErrCorrupt is matched by CorruptionError.
	ErrCorrupt = log.ErrCorrupt
	// ErrFenced says that a member doesn't own, or no longer owns, the partition that it wants to commit.
	ErrFenced = group.ErrFenced
	// ErrGroupNotEmpty and ErrUnknownGroup are about administering groups.
	ErrGroupNotEmpty = group.ErrGroupNotEmpty
	ErrUnknownGroup  = group.ErrUnknownGroup
)

// Compressions; see Compression.
const (
	None   = topic.None
	Gzip   = topic.Gzip
	Snappy = topic.Snappy
	Lz4    = topic.Lz4
	Zstd   = topic.Zstd
)

// Whose time records have; see Timestamps.
const (
	CreateTime    = topic.CreateTime
	LogAppendTime = topic.LogAppendTime
)

// Sync policies; see SyncPolicy.
var (
	SyncAlways = log.SyncAlways
	SyncNever  = log.SyncNever
)

// SyncInterval forces records to the disk every d.
func SyncInterval(d time.Duration) SyncPolicy { return log.SyncInterval(d) }

// Starts; see Start.
var (
	Earliest = partition.Earliest
	Latest   = partition.Latest
)

// States of groups; see GroupState.
const (
	GroupEmpty       = group.Empty
	GroupStable      = group.Stable
	GroupRebalancing = group.Rebalancing
)

// Reset policies; see ResetPolicy.
const (
	ResetEarliest = group.ResetEarliest
	ResetLatest   = group.ResetLatest
	ResetNone     = group.ResetNone
)

// Headers of records in a dead-letter topic, behind those of the original; see RunConfig.DeadLetter. Numbers are decimal digits.
const (
	HeaderGroup     = group.HeaderGroup
	HeaderError     = group.HeaderError
	HeaderAttempts  = group.HeaderAttempts
	HeaderTopic     = group.HeaderTopic
	HeaderPartition = group.HeaderPartition
	HeaderOffset    = group.HeaderOffset
)

// At starts with the record at an offset.
func At(offset int64) Start { return partition.At(offset) }

// AtTime starts with the earliest record at or after a time.
func AtTime(when time.Time) Start { return partition.AtTime(when) }

// ByKey places records by their keys, and those without in turn: the default.
func ByKey() Partitioner { return topic.ByKey() }

// Murmur2Key places records where Kafka's own client does: by their keys, and those without in runs.
func Murmur2Key() Partitioner { return topic.Murmur2Key() }

// StickyBatch places records by their keys, and those without in runs, so that each partition gets larger batches.
func StickyBatch() Partitioner { return topic.StickyBatch() }

// RoundRobin places records in turn.
func RoundRobin() Partitioner { return topic.RoundRobin() }

// Explicit places each record where its field Partition says.
func Explicit() Partitioner { return topic.Explicit() }

// Weighted places records in proportion to weights, one for each partition.
func Weighted(weights ...int) (Partitioner, error) { return topic.Weighted(weights...) }

// PartitionBy places records by a function.
func PartitionBy(place func(topic string, r *Record, partitions int) int) Partitioner {
	return topic.PartitionBy(place)
}

// Sticky balances partitions and moves as few as possible: the default.
func Sticky() Assignor { return group.Sticky() }

// Range gives each member a run of each topic's partitions, as Kafka's range assignor does.
func Range() Assignor { return group.Range() }

// RoundRobinAssignor deals all partitions out in turn, as Kafka's does.
func RoundRobinAssignor() Assignor { return group.RoundRobin() }
