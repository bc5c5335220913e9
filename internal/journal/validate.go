package journal

import (
	"fmt"
	"math"
	"unicode/utf8"
)

// validate checks what can be checked of an event without the state.
func (e Event) validate() error {
	switch b := e.body().(type) {
	case nil:
		return fmt.Errorf("%w: exactly one member must be set", ErrInvalid)
	case *TopicCreated:
		return first(validID(b.ID), validName("topic name", b.Name), validCount(b.Partitions))
	case *PartitionsAdded:
		return first(validID(b.ID), validCount(b.Partitions))
	case *TopicConfigured:
		return validID(b.ID)
	case *TopicDeleted:
		return validID(b.ID)
	case *TopicPurged:
		return validID(b.ID)
	case *PartitionChanged:
		return b.validate()
	case *OffsetsCommitted:
		return b.validate()
	case *OffsetsDeleted:
		if err := validName("group", b.Group); err != nil {
			return err
		}
		for _, p := range b.Partitions {
			if err := validID(p.TopicID); err != nil {
				return err
			}
		}
		return nil
	case *GroupDeleted:
		return validName("group", b.Group)
	default:
		panic(fmt.Sprintf("journal: event %T has no check", b))
	}
}

func (c *PartitionChanged) validate() error {
	if c.Epoch < 0 {
		return fmt.Errorf("%w: epoch %d", ErrInvalid, c.Epoch)
	}
	for _, name := range c.InSync {
		if err := validName("directory", name); err != nil {
			return err
		}
	}
	return first(validID(c.TopicID), validText("leader", c.Leader))
}

func (c *OffsetsCommitted) validate() error {
	if len(c.Offsets) == 0 {
		return fmt.Errorf("%w: group %q commits no offset", ErrInvalid, c.Group)
	}
	for _, o := range c.Offsets {
		if o.Next < 0 || o.Epoch < -1 {
			return fmt.Errorf("%w: group %q commits offset %d, epoch %d", ErrInvalid, c.Group, o.Next, o.Epoch)
		}
		if err := first(validID(o.TopicID), validText("metadata", o.Metadata)); err != nil {
			return err
		}
	}
	return validName("group", c.Group)
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func validID(id string) error {
	ok := len(id) == 32
	for i := 0; ok && i < len(id); i++ {
		ok = '0' <= id[i] && id[i] <= '9' || 'a' <= id[i] && id[i] <= 'f'
	}
	if !ok {
		return fmt.Errorf("%w: topic ID %q is not 32 hexadecimal digits", ErrInvalid, id)
	}
	return nil
}

func validCount(partitions int) error {
	if partitions < 1 || partitions > math.MaxInt32 {
		return fmt.Errorf("%w: %d partitions", ErrInvalid, partitions)
	}
	return nil
}

func validName(what, s string) error {
	if s == "" {
		return fmt.Errorf("%w: %s is empty", ErrInvalid, what)
	}
	return validText(what, s)
}

// validText refuses what JSON can't carry unchanged.
func validText(what, s string) error {
	if !utf8.ValidString(s) {
		return fmt.Errorf("%w: %s %q is not UTF-8", ErrInvalid, what, s)
	}
	return nil
}
