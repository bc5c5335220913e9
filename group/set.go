package group

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ottlalog/ottla/internal/journal"
	"github.com/ottlalog/ottla/topic"
)

// Set has all groups of a broker. All methods are safe for concurrent use.
type Set struct {
	journal *journal.Journal
	topics  *topic.Set
	opts    Options
	joins   atomic.Int64 // numbers members' ids

	mu struct {
		sync.Mutex
		groups map[string]*coordinator // those with members
		closed bool
	}

	stop context.CancelFunc // ends watchTopics,
	done sync.WaitGroup     // which is waited for
}

// Open returns the groups whose offsets are in the journal and whose topics are in topics. It is to be closed before both.
func Open(j *journal.Journal, topics *topic.Set, opts Options) (*Set, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Set{journal: j, topics: topics, opts: opts}
	s.mu.groups = make(map[string]*coordinator)
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.done.Go(func() { s.watchTopics(ctx) })
	return s, nil
}

// Group returns the group of a name. Groups need not be created: one exists while it has members or has committed
// something. A name that isn't allowed is an error of what is done with the group: ErrInvalidGroup.
func (s *Set) Group(name string) *Group { return &Group{set: s, name: name} }

// Groups returns the groups that have members or have committed something, by name.
func (s *Set) Groups() []*Group {
	names := s.List()
	groups := make([]*Group, len(names))
	for i, name := range names {
		groups[i] = s.Group(name)
	}
	return groups
}

// List returns the names of the groups that have members or have committed something, sorted.
func (s *Set) List() []string {
	names := make(map[string]bool)
	s.journal.View(func(st *journal.State) {
		for name := range st.Groups {
			names[name] = true
		}
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.mu.groups {
		names[name] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// Close ends all members: whoever waits gets log.ErrClosed, and nothing more is committed. It doesn't wait for handlers and
// callbacks of the user's. Closing twice is harmless.
func (s *Set) Close() error {
	s.mu.Lock()
	s.mu.closed = true
	groups := slices.Collect(maps.Values(s.mu.groups))
	s.mu.Unlock()
	s.stop()
	s.done.Wait()
	for _, c := range groups {
		c.shut()
	}
	return nil
}

// watchTopics tells the groups of each change of the topics.
func (s *Set) watchTopics(ctx context.Context) {
	changes := s.topics.Changes()
	for seen := changes.Load(); changes.Wait(ctx, seen) == nil; {
		seen = changes.Load()
		s.mu.Lock()
		groups := slices.Collect(maps.Values(s.mu.groups))
		s.mu.Unlock()
		for _, c := range groups {
			c.refresh()
		}
	}
}

// acquire returns the coordinator of a group for so many users, to be put back by each.
func (s *Set) acquire(name string, users int) (*coordinator, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return nil, errClosed
	}
	c := s.mu.groups[name]
	if c == nil {
		c = newCoordinator(s, name)
		s.mu.groups[name] = c
	}
	c.mu.Lock()
	c.users += users
	c.mu.Unlock()
	return c, nil
}

// forget drops a coordinator that nobody uses: it knows nothing that isn't in the journal.
func (s *Set) forget(c *coordinator) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users == 0 && !c.table.pinned() && s.mu.groups[c.name] == c {
		c.stopLocked()
		delete(s.mu.groups, c.name)
	}
}

// newID makes the id of one stay in a group.
func (s *Set) newID(instance string) string {
	if instance == "" {
		instance = "member"
	}
	return fmt.Sprintf("%s-%d", instance, s.joins.Add(1))
}
