package partition

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/ottlalog/ottla/internal/notify"
	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/record"
	"github.com/ottlalog/ottla/segment"
)

// Errors that a caller handles.
var (
	// ErrNoLeader says that no replica of the partition can be read or written; the error's text has the cause.
	ErrNoLeader = errors.New("partition has no leader")

	// ErrUnknownPartition says that the topic has no partition of that number.
	ErrUnknownPartition = errors.New("unknown partition")
)

// Partition is one ordered, immutable, growing sequence of records. All methods are safe for concurrent use.
type Partition struct {
	topic  string
	number int

	leader *log.Log // nil: unavailable
	cause  error    // why
	epoch  atomic.Int32
	always bool               // the leader acknowledges after a sync
	header record.BatchHeader // of batches whose producer decides nothing

	// hw is the high watermark. It is closed with the error that readers get when the partition ends.
	hw notify.Offset
}

// Config describes a partition to open.
type Config struct {
	Topic  string
	Number int
	// Dir is the leader's folder.
	Dir string
	// Epoch is the leader's reign, stamped into each batch.
	Epoch int32
	// Codec is what Append compresses batches with.
	Codec record.Codec
	Log   log.Config
}

// Open opens a partition. Where its data is missing, damaged beyond reading, or can't be accessed, the partition is
// returned all the same, unavailable: see Err. An error is about a shortage (open files, memory, space), which says nothing
// about the partition.
func Open(fsys vfs.FS, cfg Config) (*Partition, error) {
	l, err := log.Open(fsys, cfg.Dir, cfg.Log)
	if err != nil {
		err = fmt.Errorf("topic %q partition %d: %w", cfg.Topic, cfg.Number, err)
		if errors.Is(err, vfs.ErrShortage) || errors.Is(err, log.ErrNoSpace) {
			return nil, err
		}
		return Unavailable(cfg.Topic, cfg.Number, fmt.Errorf("%w: %w", ErrNoLeader, err)), nil
	}
	p := &Partition{topic: cfg.Topic, number: cfg.Number, leader: l, always: cfg.Log.Sync.Always()}
	p.epoch.Store(cfg.Epoch)
	p.header = record.HeaderAt(0, cfg.Epoch)
	p.header.Attributes = record.Attributes(cfg.Codec)
	p.advance()
	return p, nil
}

// Unavailable returns a partition whose every method says why it can't be used.
func Unavailable(topic string, number int, cause error) *Partition {
	p := &Partition{topic: topic, number: number, cause: cause}
	p.hw.Close(cause)
	return p
}

// Topic returns the name of the partition's topic.
func (p *Partition) Topic() string { return p.topic }

// Number returns the partition's number in its topic, from 0.
func (p *Partition) Number() int { return p.number }

// Epoch returns the number of the leader's reign.
func (p *Partition) Epoch() int32 { return p.epoch.Load() }

// Err returns why the partition can't be written: it is unavailable, closed, deleted, or its log has failed. Nil when all is
// well.
func (p *Partition) Err() error {
	if err := p.ended(); err != nil {
		return err
	}
	return p.leader.Err()
}

// ended returns why the partition can't be used at all.
func (p *Partition) ended() error {
	if p.leader == nil {
		return p.cause
	}
	return p.hw.Err()
}

// StartOffset returns the first offset that is still held.
func (p *Partition) StartOffset() int64 {
	if p.leader == nil {
		return 0
	}
	return p.leader.Start()
}

// HighWatermark returns the offset below which records can be read: all below it is stored as promised.
func (p *Partition) HighWatermark() int64 { return p.hw.Load() }

// EndOffset returns the next offset to be assigned: at least the high watermark.
func (p *Partition) EndOffset() int64 {
	if p.leader == nil {
		return 0
	}
	return p.leader.End()
}

// Size returns the bytes of the batches that are held.
func (p *Partition) Size() int64 {
	if p.leader == nil {
		return 0
	}
	return p.leader.Size()
}

// Recovery tells what opening the leader's log found.
func (p *Partition) Recovery() log.Recovery {
	if p.leader == nil {
		return log.Recovery{}
	}
	return p.leader.Recovery()
}

// Damage returns the damaged ranges of the leader's log that are known so far: see log.Log.Damage.
func (p *Partition) Damage() []*segment.CorruptionError {
	if p.leader == nil {
		return nil
	}
	return p.leader.Damage()
}

// OffsetForTime returns the offset of the earliest record whose timestamp is at or after when, or the high watermark when
// there is none: the place of the next record.
func (p *Partition) OffsetForTime(when time.Time) (int64, error) {
	if err := p.ended(); err != nil {
		return 0, err
	}
	hw := p.hw.Load()
	offset, _, ok, err := p.leader.OffsetForTime(record.Millis(when, math.MinInt64), hw)
	if err != nil {
		return 0, p.wrap(err)
	}
	if !ok {
		return hw, nil
	}
	return offset, nil
}

// DeleteBefore moves the start offset up to offset, durably; what is below it can't be read any more. An offset beyond the
// high watermark is a *log.OffsetError, one at or below the start changes nothing.
func (p *Partition) DeleteBefore(ctx context.Context, offset int64) error {
	if err := p.ended(); err != nil {
		return err
	}
	return p.wrap(p.leader.DeleteBefore(ctx, offset))
}

// Watch wakes the channel once the high watermark is above an offset, or the partition ends; see [notify.Offset.Watch].
func (p *Partition) Watch(above int64, wake chan<- struct{}) *notify.Watch {
	return p.hw.Watch(above, wake)
}

// Tick does what is due; see [log.Log.Tick].
func (p *Partition) Tick(ctx context.Context, now time.Time) error {
	if p.ended() != nil {
		return nil
	}
	return p.wrap(p.leader.Tick(ctx, now))
}

// Sync makes all that has been appended durable.
func (p *Partition) Sync(ctx context.Context) error {
	if err := p.ended(); err != nil {
		return err
	}
	return p.wrap(p.leader.Sync(ctx, p.leader.End()))
}

// Dirty says whether records have been appended and not yet synced.
func (p *Partition) Dirty() bool { return p.leader != nil && p.leader.Dirty() }

// Close makes everything durable and gives files and memory back. Whoever waits gets log.ErrClosed. Closing twice is
// harmless.
func (p *Partition) Close() error { return p.End(log.ErrClosed) }

// End closes the partition and gives cause to whoever waits and to all later calls.
func (p *Partition) End(cause error) error {
	if p.leader == nil {
		return nil
	}
	p.hw.Close(cause)
	return p.wrap(p.leader.Close())
}

// wrap names the partition in an error of its log. A context's error stays what it is.
func (p *Partition) wrap(err error) error {
	if err == nil || err == context.Canceled || err == context.DeadlineExceeded {
		return err
	}
	if errors.Is(err, log.ErrClosed) {
		if end := p.hw.Err(); end != nil {
			return end
		}
		return err
	}
	return fmt.Errorf("topic %q partition %d: %w", p.topic, p.number, err)
}
