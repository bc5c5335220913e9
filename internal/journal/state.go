package journal

import (
	"encoding/json"
	"fmt"
	"time"
)

// State is the catalogue: what the events up to a point add up to. It is read inside [Journal.View] only, and never
// changed by a reader.
type State struct {
	Seq uint64 // number of the last call applied, counted from creation

	Topics  map[string]*Topic                       // live topics by ID
	Deleted map[string]*Topic                       // tombstones by ID: deleted, and folders not known to be gone
	Groups  map[string]map[TopicPartition]Committed // by name; a group with nothing committed isn't there

	names map[string]string // name → ID, of live topics and tombstones
}

// Topic is one topic's place in the catalogue. A tombstone has no settings and no partition states.
type Topic struct {
	ID         string
	Name       string
	Partitions int
	Config     json.RawMessage
	Created    time.Time
	States     map[int]PartitionState // of the partitions that ever had one; nil: none had
}

// Topic returns the live topic of that name.
func (s *State) Topic(name string) (*Topic, bool) {
	t, ok := s.Topics[s.names[name]]
	return t, ok
}

func newState() *State {
	return &State{
		Topics:  map[string]*Topic{},
		Deleted: map[string]*Topic{},
		Groups:  map[string]map[TopicPartition]Committed{},
		names:   map[string]string{},
	}
}

// apply makes the change. The caller has made sure with a draft that it fits.
func (s *State) apply(e Event) {
	switch b := e.body().(type) {
	case *TopicCreated:
		s.Topics[b.ID] = &Topic{ID: b.ID, Name: b.Name, Partitions: b.Partitions, Config: b.Config, Created: b.Time.UTC()}
		s.names[b.Name] = b.ID
	case *PartitionsAdded:
		s.Topics[b.ID].Partitions = b.Partitions
	case *TopicConfigured:
		s.Topics[b.ID].Config = b.Config
	case *TopicDeleted:
		s.deleteTopic(b.ID)
	case *TopicPurged:
		delete(s.names, s.Deleted[b.ID].Name)
		delete(s.Deleted, b.ID)
	case *PartitionChanged:
		t := s.Topics[b.TopicID]
		if t.States == nil {
			t.States = map[int]PartitionState{}
		}
		t.States[b.Partition] = b.PartitionState
	case *OffsetsCommitted:
		group := s.Groups[b.Group]
		if group == nil {
			group = map[TopicPartition]Committed{}
			s.Groups[b.Group] = group
		}
		for _, o := range b.Offsets {
			group[o.TopicPartition] = o.Committed
		}
	case *OffsetsDeleted:
		for _, p := range b.Partitions {
			s.forgetOffset(b.Group, p)
		}
	case *GroupDeleted:
		delete(s.Groups, b.Group)
	default:
		panic(fmt.Sprintf("journal: event %T can't be applied", b))
	}
}

func (s *State) deleteTopic(id string) {
	t := s.Topics[id]
	delete(s.Topics, id)
	s.Deleted[id] = &Topic{ID: id, Name: t.Name, Partitions: t.Partitions, Created: t.Created}
	for name, group := range s.Groups {
		for p := range group {
			if p.TopicID == id {
				s.forgetOffset(name, p)
			}
		}
	}
}

func (s *State) forgetOffset(group string, p TopicPartition) {
	offsets := s.Groups[group]
	delete(offsets, p)
	if len(offsets) == 0 {
		delete(s.Groups, group)
	}
}
