// Quickstart: open a directory, send records, read them in a group.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/ottlalog/ottla"
)

func main() {
	if err := run(context.Background(), "data"); err != nil {
		slog.Error("quickstart", "err", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string) error {
	b, err := ottla.Open(dir, ottla.Options{})
	if err != nil {
		return err
	}
	defer b.Close()

	_, err = b.CreateTopic(ctx, "orders", ottla.TopicConfig{Partitions: 3})
	if err != nil && !errors.Is(err, ottla.ErrTopicExists) {
		return err
	}
	p, err := b.NewProducer(ottla.ProducerConfig{})
	if err != nil {
		return err
	}
	for _, drink := range []string{"espresso", "cortado", "tea"} {
		at, err := p.Send(ctx, "orders", ottla.Record{Key: []byte("customer-7"), Value: []byte(drink)})
		if err != nil {
			return err
		}
		fmt.Printf("sent %s to partition %d at offset %d\n", drink, at.Partition, at.Offset)
	}

	m, err := b.Group("billing").Join(ctx, ottla.MemberConfig{Topics: []string{"orders"}})
	if err != nil {
		return err
	}
	recs, err := m.Poll(ctx)
	if err != nil {
		return err
	}
	for _, rec := range recs {
		fmt.Printf("billing %s for %s\n", rec.Key, rec.Value)
	}
	return m.Close() // commits what was handed out: the next run bills the next orders only
}
