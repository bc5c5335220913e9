package journal

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
)

// snapshotChunk is about how many payload bytes one frame of a snapshot holds.
const snapshotChunk = 64 << 10

// events yields what rebuilds the state from nothing: each event fits after those before it, and equal states yield
// equal events.
func (s *State) events() iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for _, id := range slices.Sorted(maps.Keys(s.Deleted)) {
			if !s.Deleted[id].events(yield) || !yield(Event{TopicDeleted: &TopicDeleted{ID: id}}) {
				return
			}
		}
		for _, id := range slices.Sorted(maps.Keys(s.Topics)) {
			if !s.Topics[id].events(yield) {
				return
			}
		}
		for _, name := range slices.Sorted(maps.Keys(s.Groups)) {
			if !groupEvents(name, s.Groups[name], yield) {
				return
			}
		}
	}
}

func (t *Topic) events(yield func(Event) bool) bool {
	if !yield(Event{TopicCreated: &TopicCreated{
		ID: t.ID, Name: t.Name, Partitions: t.Partitions, Config: t.Config, Time: t.Created,
	}}) {
		return false
	}
	for _, p := range slices.Sorted(maps.Keys(t.States)) {
		if !yield(Event{PartitionChanged: &PartitionChanged{TopicPartition{t.ID, p}, t.States[p]}}) {
			return false
		}
	}
	return true
}

// groupEvents splits a group's offsets over as many events as keep each one small, so that its frame has room for it.
func groupEvents(name string, group map[TopicPartition]Committed, yield func(Event) bool) bool {
	var offsets []Offset
	bytes := 0
	flush := func() bool {
		if len(offsets) == 0 {
			return true
		}
		e := Event{OffsetsCommitted: &OffsetsCommitted{Group: name, Offsets: offsets}}
		offsets, bytes = nil, 0
		return yield(e)
	}
	for _, p := range slices.SortedFunc(maps.Keys(group), compareTopicPartitions) {
		if bytes > 0 && bytes+len(group[p].Metadata) > snapshotChunk/2 && !flush() {
			return false
		}
		offsets = append(offsets, Offset{p, group[p]})
		bytes += len(group[p].Metadata) + 100
	}
	return flush()
}

func compareTopicPartitions(a, b TopicPartition) int {
	return cmp.Or(cmp.Compare(a.TopicID, b.TopicID), cmp.Compare(a.Partition, b.Partition))
}

// snapshotEnd is the payload of the frame that completes a snapshot.
type snapshotEnd struct {
	Frames int `json:"frames"` // how many snapshot frames came before
}

// snapshotFrames encodes the state.
func snapshotFrames(s *State) ([][]byte, error) {
	var frames [][]byte
	var payload []byte
	flush := func() {
		if len(payload) > 0 {
			f := frame{kind: KindSnapshot, seq: s.Seq, payload: append(payload, ']')}
			frames, payload = append(frames, f.encode()), nil
		}
	}
	for e := range s.events() {
		b, err := json.Marshal(e)
		if err != nil {
			return nil, fmt.Errorf("journal: snapshot: %w", err)
		}
		if len(payload) > 0 && len(payload)+len(b) > snapshotChunk {
			flush()
		}
		sep := byte(',')
		if len(payload) == 0 {
			sep = '['
		}
		payload = append(append(payload, sep), b...)
	}
	flush()
	end, err := json.Marshal(snapshotEnd{Frames: len(frames)})
	if err != nil {
		return nil, fmt.Errorf("journal: snapshot: %w", err)
	}
	f := frame{kind: KindSnapshotEnd, seq: s.Seq, payload: end}
	return append(frames, f.encode()), nil
}
