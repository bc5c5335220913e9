package topic

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ottlalog/ottla/internal/journal"
	"github.com/ottlalog/ottla/internal/notify"
	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/partition"
)

// Set has all topics of a broker. All methods are safe for concurrent use.
type Set struct {
	fs      vfs.FS
	dir     string
	journal *journal.Journal
	opts    Options

	topics  atomic.Pointer[map[string]*Topic] // by name; replaced as a whole by who has the turn
	changes notify.Offset                     // how often topics changed
	turn    chan struct{}                     // held while topics are created, grown, deleted or closed
	closed  atomic.Bool
	doubt   atomic.Bool // the journal may hold a change that isn't made here

	stop context.CancelFunc // ends maintain and keepPurging,
	done sync.WaitGroup     // which are waited for
}

// Open opens every topic that the journal knows, under dir. A partition that can't be served doesn't fail it: see
// partition.Open. The journal stays the caller's to close, after the set.
func Open(fsys vfs.FS, dir string, j *journal.Journal, opts Options) (*Set, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Set{fs: fsys, dir: dir, journal: j, opts: opts, turn: make(chan struct{}, 1)}
	s.topics.Store(&map[string]*Topic{})
	s.purgeAll(context.Background())
	topics := map[string]*Topic{}
	for _, k := range s.known() {
		t, err := s.openTopic(k)
		if err != nil {
			s.closeAll(topics)
			return nil, err
		}
		topics[t.name] = t
	}
	s.topics.Store(&topics)
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.done.Go(func() { s.maintain(ctx) })
	s.done.Go(func() { s.keepPurging(ctx) })
	return s, nil
}

// known copies what the journal says of topics.
func (s *Set) known() (topics []journal.Topic) {
	s.journal.View(func(st *journal.State) {
		for _, t := range st.Topics {
			topics = append(topics, *t)
		}
	})
	return topics
}

// openTopic opens a topic's partitions, several at a time.
func (s *Set) openTopic(k journal.Topic) (*Topic, error) {
	t := &Topic{name: k.Name, id: k.ID}
	if err := json.Unmarshal(k.Config, &t.config); err != nil {
		return nil, fmt.Errorf("topic %q: settings in the journal: %w", k.Name, err)
	}
	ps, err := s.openPartitions(t, 0, k.Partitions)
	if err != nil {
		return nil, err
	}
	t.partitions.Store(&ps)
	return t, nil
}

// openPartitions opens the partitions from..to-1 of a topic.
func (s *Set) openPartitions(t *Topic, from, to int) ([]*partition.Partition, error) {
	ps := make([]*partition.Partition, to-from)
	errs := make([]error, len(ps))
	eachOf(len(ps), func(i int) {
		ps[i], errs[i] = partition.Open(s.fs, partition.Config{
			Topic:  t.name,
			Number: from + i,
			Dir:    s.folder(t.name, from+i),
			Codec:  t.config.Compression.codec(None),
			Log:    s.opts.logConfig(t.config),
		})
	})
	if err := errors.Join(errs...); err != nil {
		closeNew(ps)
		return nil, err
	}
	for _, p := range ps {
		if err := p.Err(); err != nil {
			s.opts.Logger.Error("partition is unavailable", "err", err)
		}
	}
	return ps, nil
}

// makePartitions makes and opens new partitions. It comes before the journal is told of them, so that nothing is left that
// can fail once the journal has them; if it isn't told, what was made is empty folders.
func (s *Set) makePartitions(t *Topic, from, to int) ([]*partition.Partition, error) {
	if err := s.makeFolders(t.name, from, to); err != nil {
		return nil, err
	}
	ps, err := s.openPartitions(t, from, to)
	if err != nil {
		return nil, err
	}
	for _, p := range ps {
		if err := p.Err(); err != nil {
			closeNew(ps)
			return nil, err
		}
	}
	return ps, nil
}

// closeNew closes partitions in which nothing was stored.
func closeNew(ps []*partition.Partition) {
	for _, p := range ps {
		if p != nil {
			_ = p.Close()
		}
	}
}

// eachOf calls do for 0 to n-1, some at a time: work that waits for the disk.
func eachOf(n int, do func(i int)) {
	const atOnce = 16
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(n, atOnce) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				do(int(i))
			}
		})
	}
	wg.Wait()
}

// Topic returns the topic of a name, ErrUnknownTopic when there is none.
func (s *Set) Topic(name string) (*Topic, error) {
	if t, ok := (*s.topics.Load())[name]; ok {
		return t, nil
	}
	if s.closed.Load() {
		return nil, log.ErrClosed
	}
	if err := CheckName(name); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%w: %q", ErrUnknownTopic, name)
}

// Topics returns all topics, by name.
func (s *Set) Topics() []*Topic {
	topics := *s.topics.Load()
	list := make([]*Topic, 0, len(topics))
	for _, name := range slices.Sorted(maps.Keys(topics)) {
		list = append(list, topics[name])
	}
	return list
}

// Changes counts how often topics were created, grown or deleted; who depends on them waits for the next change. It is
// closed with the set.
func (s *Set) Changes() *notify.Offset { return &s.changes }

// begin takes the turn for a change.
func (s *Set) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if s.closed.Load() {
		<-s.turn
		return log.ErrClosed
	}
	return nil
}

// publish makes a changed catalogue visible. The turn is held.
func (s *Set) publish(change func(map[string]*Topic)) {
	topics := maps.Clone(*s.topics.Load())
	change(topics)
	s.topics.Store(&topics)
	s.changes.Advance(s.changes.Load() + 1)
}

// Create makes a topic. It is durable when Create returns, and after a crash it exists as a whole or not at all. After an
// error there is no such topic, and Create can be tried again; only where the error matches ErrOutcomeUnknown may a
// crash bring it to life, empty.
func (s *Set) Create(ctx context.Context, name string, cfg Config) (*Topic, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	cfg, err := cfg.withDefaults(1)
	if err != nil {
		return nil, fmt.Errorf("topic %q: %w", name, err)
	}
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer func() { <-s.turn }()
	if _, ok := (*s.topics.Load())[name]; ok {
		return nil, fmt.Errorf("%w: %q", ErrTopicExists, name)
	}
	if err := s.vacate(name); err != nil {
		return nil, fmt.Errorf("topic %q: %w", name, err)
	}
	settings, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	partitions := cfg.Partitions
	cfg.Partitions = 0
	t := &Topic{name: name, id: newID(), config: cfg}
	ps, err := s.makePartitions(t, 0, partitions)
	if err != nil {
		return nil, err
	}
	created := journal.TopicCreated{ID: t.id, Name: name, Partitions: partitions, Config: settings, Time: time.Now().UTC()}
	if err := s.journal.Append(journal.Event{TopicCreated: &created}); err != nil {
		closeNew(ps)
		return nil, s.journalError(name, err)
	}
	t.partitions.Store(&ps)
	s.publish(func(topics map[string]*Topic) { topics[name] = t })
	return t, nil
}

func newID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// makeFolders makes the folders of the partitions from..to-1, durably with one sync. One that is there already must be
// empty: a creation that a crash cut short leaves such, and anything else isn't ours to take over.
func (s *Set) makeFolders(name string, from, to int) error {
	if _, err := s.fs.Stat(s.dir); err != nil { // removed by somebody: it isn't to be made anew
		return err
	}
	for i := from; i < to; i++ {
		folder := s.folder(name, i)
		if err := s.fs.MkdirAll(folder); err != nil {
			return err
		}
		entries, err := s.fs.ReadDir(folder)
		if err != nil {
			return err
		}
		if len(entries) > 0 {
			return fmt.Errorf("topic %q: folder %s has content that belongs to no topic: move it away first", name, folder)
		}
	}
	return s.fs.SyncDir(s.dir)
}

// AddPartitions raises the number of a topic's partitions to total. The new ones are empty; a key may move to another
// partition. After an error the topic is as it was, with the same exception as for Create.
func (s *Set) AddPartitions(ctx context.Context, name string, total int) (*Topic, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer func() { <-s.turn }()
	t, err := s.Topic(name)
	if err != nil {
		return nil, err
	}
	have := t.Partitions()
	if total <= have || total > MaxPartitions {
		return nil, fmt.Errorf("%w: topic %q has %d partitions: the new total can't be %d", ErrInvalidTopic, name, have, total)
	}
	added, err := s.makePartitions(t, have, total)
	if err != nil {
		return nil, err
	}
	if err := s.journal.Append(journal.Event{PartitionsAdded: &journal.PartitionsAdded{ID: t.id, Partitions: total}}); err != nil {
		closeNew(added)
		return nil, s.journalError(name, err)
	}
	all := append(slices.Clone(*t.partitions.Load()), added...)
	t.partitions.Store(&all)
	s.publish(func(map[string]*Topic) {})
	return t, nil
}

// Delete removes a topic, its records and what groups have committed in it. Whoever reads or writes it gets
// ErrUnknownTopic. After a crash it is gone as a whole or there as a whole. After an error it goes on; only where the error
// matches ErrOutcomeUnknown may a crash complete the deletion.
//
// Files that can't be removed now don't bring the topic back: that is logged and tried again from time to time, and at the
// next Open.
func (s *Set) Delete(ctx context.Context, name string) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer func() { <-s.turn }()
	t, err := s.Topic(name)
	if err != nil {
		return err
	}
	if err := s.journal.Append(journal.Event{TopicDeleted: &journal.TopicDeleted{ID: t.id}}); err != nil {
		return s.journalError(name, err)
	}
	t.deleted.Store(true)
	s.publish(func(topics map[string]*Topic) { delete(topics, name) })
	gone := fmt.Errorf("%w: %q was deleted", ErrUnknownTopic, name)
	ps := *t.partitions.Load()
	eachOf(len(ps), func(i int) {
		if err := ps[i].End(gone); err != nil { // its records go anyway
			s.opts.Logger.Warn("closing a deleted partition", "err", err)
		}
	})
	if err := s.purge(journal.Topic{ID: t.id, Name: t.name, Partitions: len(ps)}); err != nil {
		s.notPurged(name, err)
	}
	return nil
}

// journalError is the error of a change that the journal didn't take. What it may hold nevertheless it drops when it heals:
// see tick.
func (s *Set) journalError(name string, err error) error {
	if errors.Is(err, journal.ErrOutcomeUnknown) {
		s.doubt.Store(true)
	}
	return fmt.Errorf("topic %q: %w", name, err)
}

// Close closes all partitions and makes everything durable. Closing twice is harmless.
func (s *Set) Close() error {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	if s.closed.Swap(true) {
		return nil
	}
	s.stop()
	s.done.Wait()
	s.changes.Close(log.ErrClosed)
	topics := *s.topics.Load()
	s.topics.Store(&map[string]*Topic{})
	return s.closeAll(topics)
}

func (s *Set) closeAll(topics map[string]*Topic) error {
	var ps []*partition.Partition
	for _, t := range topics {
		ps = append(ps, *t.partitions.Load()...)
	}
	errs := make([]error, len(ps))
	eachOf(len(ps), func(i int) { errs[i] = ps[i].Close() })
	return errors.Join(errs...)
}
