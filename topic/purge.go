package topic

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ottlalog/ottla/internal/journal"
)

// A deleted topic is a tombstone in the journal until its folders are gone, and so long nothing can take its name.

// purgeInterval is how often it is tried to remove what couldn't be removed before.
const purgeInterval = 10 * time.Second

// keepPurging has a goroutine of its own: removing may take long, and no sync should wait for it.
func (s *Set) keepPurging(ctx context.Context) {
	ticker := time.NewTicker(purgeInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if len(s.tombstones()) == 0 {
			continue
		}
		if s.begin(ctx) != nil {
			return
		}
		s.purgeAll(ctx)
		<-s.turn
	}
}

func (s *Set) tombstones() (topics []journal.Topic) {
	s.journal.View(func(st *journal.State) {
		for _, t := range st.Deleted {
			topics = append(topics, *t)
		}
	})
	return topics
}

// purgeAll purges what it can. The turn is held, or nobody has the set yet.
func (s *Set) purgeAll(ctx context.Context) {
	for _, t := range s.tombstones() {
		if ctx.Err() != nil {
			return
		}
		if err := s.purge(t); err != nil {
			s.notPurged(t.Name, err)
		}
	}
}

func (s *Set) notPurged(name string, err error) {
	s.opts.Logger.Error("files of a deleted topic are not removed, which will be tried again", "topic", name, "err", err)
}

// purge removes the folders of a deleted topic and then the memory of it.
func (s *Set) purge(t journal.Topic) error {
	for i := range t.Partitions {
		if err := s.fs.RemoveAll(s.folder(t.Name, i)); err != nil {
			return err
		}
	}
	if err := s.fs.SyncDir(s.dir); err != nil {
		return err
	}
	return s.journal.Append(journal.Event{TopicPurged: &journal.TopicPurged{ID: t.ID}})
}

// vacate makes sure that the folders of a new topic will be its own: it purges a deleted topic of that name, and refuses a
// name that a file system without upper and lower case takes for another topic's.
func (s *Set) vacate(name string) error {
	for _, t := range s.tombstones() {
		if !strings.EqualFold(t.Name, name) {
			continue
		}
		if err := s.purge(t); err != nil {
			return fmt.Errorf("files of the deleted topic %q are still there: %w", t.Name, err)
		}
	}
	if _, err := s.fs.Stat(s.folder(name, 0)); err != nil {
		return nil // makeFolders will see what is wrong
	}
	for other := range *s.topics.Load() {
		if strings.EqualFold(other, name) {
			return fmt.Errorf("%w: %q, and the file system doesn't tell them apart", ErrTopicExists, other)
		}
	}
	return nil
}
