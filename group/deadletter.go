package group

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ottlalog/ottla/record"
	"github.com/ottlalog/ottla/topic"
)

// Headers that a record in a dead-letter topic has behind those of the original. Numbers are decimal digits.
const (
	HeaderGroup     = "ottla.group"     // the group that couldn't handle it
	HeaderError     = "ottla.error"     // the last error's text, at most 4 KiB of it
	HeaderAttempts  = "ottla.attempts"  // how often it was tried
	HeaderTopic     = "ottla.topic"     // where the original stands:
	HeaderPartition = "ottla.partition" // its topic, partition
	HeaderOffset    = "ottla.offset"    // and offset
)

// deadLetters is where a Run puts records that keep failing.
type deadLetters struct {
	topic    string
	group    string
	producer *topic.Producer
}

// openDeadLetters returns nil for no topic.
func (g *Group) openDeadLetters(name string) (*deadLetters, error) {
	if name == "" {
		return nil, nil
	}
	if _, err := g.set.topics.Topic(name); err != nil {
		return nil, fmt.Errorf("dead-letter topic: %w", err)
	}
	p, err := g.set.topics.NewProducer(topic.ProducerConfig{})
	if err != nil {
		return nil, err
	}
	return &deadLetters{topic: name, group: g.name, producer: p}, nil
}

func (d *deadLetters) close() {
	if d != nil {
		_ = d.producer.Close() // nothing is buffered
	}
}

// send stores a record with why and where it failed. Its time is now: what kept the original may be over.
func (d *deadLetters) send(ctx context.Context, rec record.Record, cause error, attempts int) error {
	headers := slices.Clone(rec.Headers)
	add := func(key, value string) { headers = append(headers, record.Header{Key: key, Value: []byte(value)}) }
	add(HeaderGroup, d.group)
	add(HeaderError, clip(cause.Error(), 4<<10))
	add(HeaderAttempts, strconv.Itoa(attempts))
	add(HeaderTopic, rec.Topic)
	add(HeaderPartition, strconv.Itoa(rec.Partition))
	add(HeaderOffset, strconv.FormatInt(rec.Offset, 10))
	_, err := d.producer.Send(ctx, d.topic, record.Record{Key: rec.Key, Value: rec.Value, Headers: headers})
	if err != nil {
		return fmt.Errorf("dead-letter topic: %w", err)
	}
	return nil
}

// clip returns at most n bytes of a text, whole characters.
func clip(text string, n int) string {
	if len(text) > n {
		text = text[:n]
	}
	return strings.ToValidUTF8(text, "")
}
