package ottla

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/ottlalog/ottla/group"
	"github.com/ottlalog/ottla/internal/directory"
	"github.com/ottlalog/ottla/internal/journal"
	"github.com/ottlalog/ottla/topic"
)

// Broker owns a directory, the topics in it and the groups that read them. All methods are safe for concurrent use.
type Broker struct {
	directory *directory.Directory
	journal   *journal.Journal
	report    journal.Report
	topics    *topic.Set
	groups    *group.Set
	closing   sync.Once
	closed    error
}

// Open opens the directory dir, making it if it isn't there. Only one broker has a directory open at a time: ErrLocked
// otherwise. What a crash left is repaired, without losing anything that was acknowledged; a partition whose data is
// missing or damaged beyond reading is unavailable (ErrNoLeader) and doesn't keep the others from opening: see Health.
//
// An error leaves everything as it was.
func Open(dir string, opts Options) (*Broker, error) {
	opts = opts.withDefaults()
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	d, err := directory.Claim(opts.fs, dir)
	if err != nil {
		return nil, fmt.Errorf("ottla: %w", err)
	}
	b := &Broker{directory: d}
	if err := b.open(dir, opts); err != nil {
		return nil, fmt.Errorf("ottla: %w", errors.Join(err, b.shut()))
	}
	return b, nil
}

func (b *Broker) open(dir string, opts Options) (err error) {
	if b.journal, b.report, err = openJournal(b.directory, dir, opts); err != nil {
		return err
	}
	b.topics, err = topic.Open(opts.fs, dir, b.journal, topic.Options{
		Sync:    opts.Sync,
		MinFree: opts.MinFreeBytes,
		Logger:  opts.Logger,
	})
	if err != nil {
		return err
	}
	b.groups, err = group.Open(b.journal, b.topics, group.Options{Sync: opts.Sync, Logger: opts.Logger})
	return err
}

// openJournal opens the journal, or finishes the making of a new directory: first the journal, last the file meta.
func openJournal(d *directory.Directory, dir string, opts Options) (*journal.Journal, journal.Report, error) {
	jopts := journal.Options{Logger: opts.Logger, Check: func(st *journal.State) error {
		return topic.CheckFolders(opts.fs, dir, st)
	}}
	j, report, err := journal.Open(opts.fs, dir, jopts)
	switch {
	case !d.New():
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%s: %w: the journal is missing", dir, ErrFormat)
		}
		return j, report, err
	case err == nil:
		if known := topicsIn(j); known > 0 {
			return nil, report, errors.Join(fmt.Errorf("%s: %w: the file meta is missing, and the journal knows %d topics",
				dir, ErrFormat, known), j.Close())
		}
	case errors.Is(err, fs.ErrNotExist):
		if j, err = journal.Create(opts.fs, dir, jopts); err != nil {
			return nil, report, err
		}
	default:
		return nil, report, err
	}
	if err := d.Create(); err != nil {
		return nil, report, errors.Join(err, j.Close())
	}
	return j, report, nil
}

func topicsIn(j *journal.Journal) (n int) {
	j.View(func(s *journal.State) { n = len(s.Topics) })
	return n
}

// Close ends the broker: whoever waits gets ErrClosed, everything is made durable, and no goroutine, file, mapping or lock
// is left. Members of groups commit nothing more: close them first for that. Closing twice is harmless.
func (b *Broker) Close() error {
	b.closing.Do(func() { b.closed = b.shut() })
	return b.closed
}

// shut closes what is open, from the top down.
func (b *Broker) shut() error {
	var errs []error
	if b.groups != nil {
		errs = append(errs, b.groups.Close())
	}
	if b.topics != nil {
		errs = append(errs, b.topics.Close())
	}
	if b.journal != nil {
		errs = append(errs, b.journal.Close())
	}
	return errors.Join(append(errs, b.directory.Release())...)
}

// CreateTopic makes a topic, durably: ErrTopicExists, ErrInvalidTopic.
func (b *Broker) CreateTopic(ctx context.Context, name string, cfg TopicConfig) (*Topic, error) {
	return b.topics.Create(ctx, name, cfg)
}

// Topic returns a topic, ErrUnknownTopic when there is none of that name.
func (b *Broker) Topic(name string) (*Topic, error) { return b.topics.Topic(name) }

// Topics returns all topics, by name.
func (b *Broker) Topics() []*Topic { return b.topics.Topics() }

// DeleteTopic removes a topic with its records and what groups have committed in it. Files that can't be removed now don't
// bring it back: that is logged and tried again.
func (b *Broker) DeleteTopic(ctx context.Context, name string) error {
	return b.topics.Delete(ctx, name)
}

// AddPartitions raises the number of a topic's partitions to total.
func (b *Broker) AddPartitions(ctx context.Context, name string, total int) (*Topic, error) {
	return b.topics.AddPartitions(ctx, name, total)
}

// NewProducer returns a producer, to be closed before the broker if SendAsync is used.
func (b *Broker) NewProducer(cfg ProducerConfig) (*Producer, error) { return b.topics.NewProducer(cfg) }

// Groups returns the consumer groups that have members or have committed something, by name.
func (b *Broker) Groups() []*ConsumerGroup { return b.groups.Groups() }

// Group returns the consumer group of a name. Groups need not be created: one exists while it has members or has
// committed something.
func (b *Broker) Group(name string) *ConsumerGroup { return b.groups.Group(name) }
