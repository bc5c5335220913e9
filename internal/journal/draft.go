package journal

import (
	"fmt"
	"maps"
)

// draft judges calls before they are written: it answers for the state as it will be after the calls judged so far,
// which may still fail to reach the disk, and leaves the state alone. It keeps only what later events can stumble over.
type draft struct {
	state  *State
	topics map[string]outline       // by ID, where the calls changed them
	names  map[string]string        // name → ID, where the calls changed them; "": free again
	epochs map[TopicPartition]int32 // where the calls changed them
}

// outline is what a topic's fate hangs on.
type outline struct {
	name       string
	partitions int
	stage      stage
}

type stage int

const (
	unknown stage = iota
	live
	deleted
)

// admit judges one call: either all its events fit, in their order, or the draft is as before.
func (d *draft) admit(events []Event) error {
	topics, names, epochs := maps.Clone(d.topics), maps.Clone(d.names), maps.Clone(d.epochs)
	for _, e := range events {
		if err := d.add(e); err != nil {
			d.topics, d.names, d.epochs = topics, names, epochs
			return err
		}
	}
	return nil
}

func (d *draft) add(e Event) error {
	switch b := e.body().(type) {
	case *TopicCreated:
		return d.create(b)
	case *PartitionsAdded:
		t, err := d.live(b.ID)
		if err != nil {
			return err
		}
		if b.Partitions <= t.partitions {
			return fmt.Errorf("%w: topic %q has %d partitions, not fewer than %d", ErrInvalid, t.name, t.partitions, b.Partitions)
		}
		t.partitions = b.Partitions
		d.setTopic(b.ID, t)
		return nil
	case *TopicConfigured:
		_, err := d.live(b.ID)
		return err
	case *TopicDeleted:
		t, err := d.live(b.ID)
		if err != nil {
			return err
		}
		t.stage = deleted
		d.setTopic(b.ID, t)
		return nil
	case *TopicPurged:
		t := d.topic(b.ID)
		if t.stage != deleted {
			return fmt.Errorf("%w: no deleted topic %s", ErrUnknownTopic, b.ID)
		}
		d.setName(t.name, "")
		d.setTopic(b.ID, outline{})
		return nil
	case *PartitionChanged:
		return d.change(b)
	case *OffsetsCommitted:
		for _, o := range b.Offsets {
			if err := d.partition(o.TopicPartition); err != nil {
				return err
			}
		}
		return nil
	case *OffsetsDeleted, *GroupDeleted:
		return nil
	default:
		return fmt.Errorf("%w: %T", ErrInvalid, b)
	}
}

func (d *draft) create(b *TopicCreated) error {
	if d.topic(b.ID).stage != unknown {
		return fmt.Errorf("%w: ID %s", ErrTopicExists, b.ID)
	}
	holder, changed := d.names[b.Name]
	if !changed {
		holder = d.state.names[b.Name]
	}
	if holder != "" {
		return fmt.Errorf("%w: %q", ErrTopicExists, b.Name)
	}
	d.setTopic(b.ID, outline{name: b.Name, partitions: b.Partitions, stage: live})
	d.setName(b.Name, b.ID)
	return nil
}

func (d *draft) change(b *PartitionChanged) error {
	if err := d.partition(b.TopicPartition); err != nil {
		return err
	}
	epoch, changed := d.epochs[b.TopicPartition]
	if t := d.state.Topics[b.TopicID]; !changed && t != nil {
		epoch = t.States[b.Partition].Epoch
	}
	if b.Epoch < epoch {
		return fmt.Errorf("%w: topic %s, partition %d: epoch %d after %d", ErrInvalid, b.TopicID, b.Partition, b.Epoch, epoch)
	}
	if d.epochs == nil {
		d.epochs = map[TopicPartition]int32{}
	}
	d.epochs[b.TopicPartition] = b.Epoch
	return nil
}

// topic is the zero outline for a topic that isn't known.
func (d *draft) topic(id string) outline {
	if t, changed := d.topics[id]; changed {
		return t
	}
	if t := d.state.Topics[id]; t != nil {
		return outline{name: t.Name, partitions: t.Partitions, stage: live}
	}
	if t := d.state.Deleted[id]; t != nil {
		return outline{name: t.Name, partitions: t.Partitions, stage: deleted}
	}
	return outline{}
}

func (d *draft) live(id string) (outline, error) {
	t := d.topic(id)
	if t.stage != live {
		return t, fmt.Errorf("%w: %s", ErrUnknownTopic, id)
	}
	return t, nil
}

func (d *draft) partition(p TopicPartition) error {
	t, err := d.live(p.TopicID)
	if err != nil {
		return err
	}
	if p.Partition < 0 || p.Partition >= t.partitions {
		return fmt.Errorf("%w: topic %q, partition %d of %d", ErrUnknownPartition, t.name, p.Partition, t.partitions)
	}
	return nil
}

func (d *draft) setTopic(id string, t outline) {
	if d.topics == nil {
		d.topics = map[string]outline{}
	}
	d.topics[id] = t
}

func (d *draft) setName(name, id string) {
	if d.names == nil {
		d.names = map[string]string{}
	}
	d.names[name] = id
}
