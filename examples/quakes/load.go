package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/ottlalog/ottla"
)

// Topics of the example.
const (
	events    = "events"    // the input, keyed
	counted   = "counted"   // what the tally group has counted: one record for each event
	strongest = "strongest" // the strongest so far, whenever a stronger one was found
)

// event is what the example looks at in a line of input.
type event struct {
	key   string
	mag   *float64
	when  time.Time
	place string
}

func parse(line []byte, key string) (event, error) {
	var fields map[string]any
	if err := json.Unmarshal(line, &fields); err != nil {
		return event{}, err
	}
	e := event{key: "(none)"}
	if k, ok := fields[key]; ok && k != nil {
		e.key = fmt.Sprint(k)
	}
	if m, ok := fields["mag"].(float64); ok {
		e.mag = &m
	}
	if ms, ok := fields["time"].(float64); ok {
		e.when = time.UnixMilli(int64(ms))
	}
	e.place, _ = fields["place"].(string)
	return e, nil
}

// load sends the lines of the input to the topic events and returns how many there were.
func load(ctx context.Context, b *ottla.Broker, in io.Reader, key string) (total int, err error) {
	for name, partitions := range map[string]int{events: 6, counted: 1, strongest: 1} {
		if _, err := b.CreateTopic(ctx, name, ottla.TopicConfig{Partitions: partitions}); err != nil {
			return 0, err
		}
	}
	p, err := b.NewProducer(ottla.ProducerConfig{})
	if err != nil {
		return 0, err
	}
	defer p.Close()
	bar := newBar("loading")
	defer bar.end()
	var batch []ottla.Record
	send := func() error {
		_, err := p.SendBatch(ctx, events, batch)
		total += len(batch)
		batch = batch[:0]
		bar.show(total)
		return err
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 8<<20)
	for n := 1; lines.Scan(); n++ {
		if len(lines.Bytes()) == 0 {
			continue
		}
		e, err := parse(lines.Bytes(), key)
		if err != nil {
			return total, fmt.Errorf("line %d: %w", n, err)
		}
		value := append([]byte(nil), lines.Bytes()...)
		batch = append(batch, ottla.Record{Key: []byte(e.key), Value: value, Time: e.when})
		if len(batch) == 100 {
			if err := send(); err != nil {
				return total, err
			}
		}
	}
	if err := lines.Err(); err != nil {
		return total, err
	}
	if err := send(); err != nil {
		return total, err
	}
	bar.end()
	fmt.Printf("loaded %d events into 6 partitions\n", total)
	return total, nil
}

// bar shows progress on a terminal, and nothing elsewhere.
type bar struct {
	what string
	on   bool
	last time.Time
}

func newBar(what string) *bar {
	info, err := os.Stderr.Stat()
	return &bar{what: what, on: err == nil && info.Mode()&os.ModeCharDevice != 0}
}

func (b *bar) show(n int) {
	if b.on && time.Since(b.last) > 50*time.Millisecond {
		b.last = time.Now()
		fmt.Fprintf(os.Stderr, "\r%s %d ", b.what, n)
	}
}

func (b *bar) end() {
	if b.on && !b.last.IsZero() {
		fmt.Fprint(os.Stderr, "\r\x1b[K")
		b.last = time.Time{}
	}
}
