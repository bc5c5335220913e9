package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Event is one change of the catalogue: exactly one member is set.
//
// The JSON of the events is a format on disk: members and fields are added, never renamed and never given another
// meaning. A reader that meets a name it doesn't know refuses the journal with [ErrVersion].
type Event struct {
	TopicCreated     *TopicCreated     `json:"topicCreated,omitempty"`
	PartitionsAdded  *PartitionsAdded  `json:"partitionsAdded,omitempty"`
	TopicConfigured  *TopicConfigured  `json:"topicConfigured,omitempty"`
	TopicDeleted     *TopicDeleted     `json:"topicDeleted,omitempty"`
	TopicPurged      *TopicPurged      `json:"topicPurged,omitempty"`
	PartitionChanged *PartitionChanged `json:"partitionChanged,omitempty"`
	OffsetsCommitted *OffsetsCommitted `json:"offsetsCommitted,omitempty"`
	OffsetsDeleted   *OffsetsDeleted   `json:"offsetsDeleted,omitempty"`
	GroupDeleted     *GroupDeleted     `json:"groupDeleted,omitempty"`
}

// TopicCreated adds a topic.
type TopicCreated struct {
	ID         string          `json:"id"` // 32 lower-case hexadecimal digits, never used twice
	Name       string          `json:"name"`
	Partitions int             `json:"partitions"`
	Config     json.RawMessage `json:"config,omitempty"` // settings, opaque here
	Time       time.Time       `json:"time"`
}

// PartitionsAdded raises a topic's partition count.
type PartitionsAdded struct {
	ID         string `json:"id"`
	Partitions int    `json:"partitions"` // the new total
}

// TopicConfigured replaces a topic's settings.
type TopicConfigured struct {
	ID     string          `json:"id"`
	Config json.RawMessage `json:"config,omitempty"`
}

// TopicDeleted turns a topic into a tombstone, which lasts until TopicPurged, and drops what groups committed for it.
type TopicDeleted struct {
	ID string `json:"id"`
}

// TopicPurged forgets a deleted topic: its folders are gone.
type TopicPurged struct {
	ID string `json:"id"`
}

// PartitionChanged sets who leads a partition and who is in sync. The epoch never falls.
type PartitionChanged struct {
	TopicPartition
	PartitionState
}

// OffsetsCommitted sets committed offsets of a group; offsets of other partitions stay.
type OffsetsCommitted struct {
	Group   string   `json:"group"`
	Offsets []Offset `json:"offsets"`
}

// OffsetsDeleted removes committed offsets of a group. What isn't there needs no removing: it is no error.
type OffsetsDeleted struct {
	Group      string           `json:"group"`
	Partitions []TopicPartition `json:"partitions"`
}

// GroupDeleted removes all committed offsets of a group. An unknown group is no error.
type GroupDeleted struct {
	Group string `json:"group"`
}

// TopicPartition names a partition by its topic's ID, so that a topic recreated under an old name inherits nothing.
type TopicPartition struct {
	TopicID   string `json:"topic"`
	Partition int    `json:"partition"`
}

// PartitionState is a partition's reign.
type PartitionState struct {
	Epoch  int32    `json:"epoch"`
	Leader string   `json:"leader,omitempty"` // directory ID; empty: none
	InSync []string `json:"inSync,omitempty"` // directory IDs
}

// Offset is one committed offset.
type Offset struct {
	TopicPartition
	Committed
}

// Committed is what a group committed for one partition.
type Committed struct {
	Next     int64  `json:"next"`  // the next offset to read
	Epoch    int32  `json:"epoch"` // leader epoch of the record before it; −1: not known
	Metadata string `json:"metadata,omitempty"`
}

// body returns the one member that is set, nil when none or several are.
func (e Event) body() any {
	var body any
	n := 0
	set := func(b any, isSet bool) {
		if isSet {
			body, n = b, n+1
		}
	}
	set(e.TopicCreated, e.TopicCreated != nil)
	set(e.PartitionsAdded, e.PartitionsAdded != nil)
	set(e.TopicConfigured, e.TopicConfigured != nil)
	set(e.TopicDeleted, e.TopicDeleted != nil)
	set(e.TopicPurged, e.TopicPurged != nil)
	set(e.PartitionChanged, e.PartitionChanged != nil)
	set(e.OffsetsCommitted, e.OffsetsCommitted != nil)
	set(e.OffsetsDeleted, e.OffsetsDeleted != nil)
	set(e.GroupDeleted, e.GroupDeleted != nil)
	if n != 1 {
		return nil
	}
	return body
}

// prepare checks events as far as that needs no state, and encodes them. The state is only ever given what was decoded
// from the encoded form: memory then can't differ from what a replay finds, and shares nothing with the caller.
func prepare(events []Event) (payload []byte, decoded []Event, err error) {
	for _, e := range events {
		if err := e.validate(); err != nil {
			return nil, nil, err
		}
	}
	if payload, err = json.Marshal(events); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if len(payload) > maxPayload {
		return nil, nil, fmt.Errorf("%w: %d bytes in one call, at most %d", ErrInvalid, len(payload), maxPayload)
	}
	if decoded, err = decodeEvents(payload); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return payload, decoded, nil
}

// decodeEvents decodes a payload, refusing every name and event that it doesn't know.
func decodeEvents(payload []byte) ([]Event, error) {
	var events []Event
	if err := decodeStrict(payload, &events); err != nil {
		return nil, err
	}
	if len(events) == 0 {
		return nil, errors.New("no event")
	}
	for i, e := range events {
		if e.body() == nil {
			return nil, fmt.Errorf("event %d is none that is known", i)
		}
	}
	return events, nil
}

func decodeStrict(payload []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(payload))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return err
	}
	if d.InputOffset() != int64(len(payload)) {
		return errors.New("bytes after the JSON value")
	}
	return nil
}
