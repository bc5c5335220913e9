package topic

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/partition"
	"github.com/ottlalog/ottla/record"
)

// Topic is a named set of partitions. All methods are safe for concurrent use. A Topic that has been deleted stays a value
// whose partitions return ErrUnknownTopic; a topic created later under the same name is another one, with another ID.
type Topic struct {
	name   string
	id     string
	config Config // without Partitions

	partitions atomic.Pointer[[]*partition.Partition] // grows; replaced as a whole
	deleted    atomic.Bool
}

// Name returns the topic's name.
func (t *Topic) Name() string { return t.name }

// ID returns what tells the topic from others that had or will have its name: 32 hexadecimal digits.
func (t *Topic) ID() string { return t.id }

// Config returns the topic's settings.
func (t *Topic) Config() Config {
	c := t.config
	c.Partitions = t.Partitions()
	return c
}

// Partitions returns how many partitions there are.
func (t *Topic) Partitions() int { return len(*t.partitions.Load()) }

// Partition returns the partition of a number from 0. For a number that the topic doesn't have, it returns a partition
// whose every method fails with partition.ErrUnknownPartition.
func (t *Topic) Partition(number int) *partition.Partition {
	if p := t.at(number); p != nil {
		return p
	}
	return partition.Unavailable(t.name, number, t.unknown(number))
}

func (t *Topic) at(number int) *partition.Partition {
	ps := *t.partitions.Load()
	if number < 0 || number >= len(ps) {
		return nil
	}
	return ps[number]
}

// check refuses a record that no partition of the topic would take, so that it doesn't cost the batch that it would be in.
func (t *Topic) check(rec *record.Record) error {
	if n := log.ContentBytes(rec); n > t.config.MaxRecordBytes {
		return fmt.Errorf("topic %q: %w: %d bytes of at most %d", t.name, log.ErrRecordTooLarge, n, t.config.MaxRecordBytes)
	}
	if _, err := record.Plan([]record.Record{*rec}, 0); err != nil {
		return err
	}
	if t.config.MaxTimestampAhead > 0 {
		if err := (Options{}).logConfig(t.config).CheckTimes(time.Now().UnixMilli(), *rec); err != nil {
			return fmt.Errorf("topic %q: %w", t.name, err)
		}
	}
	return nil
}

func (t *Topic) unknown(number int) error {
	return fmt.Errorf("topic %q: %w %d: it has 0 to %d", t.name, partition.ErrUnknownPartition, number, t.Partitions()-1)
}
