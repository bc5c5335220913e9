package ottla_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/ottlalog/ottla"
)

// temporary opens a broker for an example; the returned function ends and removes it.
func temporary() (*ottla.Broker, func()) {
	dir, err := os.MkdirTemp("", "ottla-example-")
	if err != nil {
		panic(err)
	}
	b, err := ottla.Open(dir, ottla.Options{})
	if err != nil {
		panic(err)
	}
	return b, func() {
		if err := errors.Join(b.Close(), os.RemoveAll(dir)); err != nil {
			panic(err)
		}
	}
}

func Example() {
	ctx := context.Background()
	b, end := temporary() // ottla.Open("data", ottla.Options{})
	defer end()

	if _, err := b.CreateTopic(ctx, "orders", ottla.TopicConfig{Partitions: 6}); err != nil {
		fmt.Println(err)
		return
	}
	p, err := b.NewProducer(ottla.ProducerConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, drink := range []string{"espresso", "cortado", "tea"} {
		if _, err := p.Send(ctx, "orders", ottla.Record{Key: []byte("table 7"), Value: []byte(drink)}); err != nil {
			fmt.Println(err)
			return
		}
	}

	m, err := b.Group("kitchen").Join(ctx, ottla.MemberConfig{Topics: []string{"orders"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	for rec, err := range m.Records(ctx) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s: %s\n", rec.Key, rec.Value)
		if string(rec.Value) == "tea" {
			break
		}
	}
	// Output:
	// table 7: espresso
	// table 7: cortado
	// table 7: tea
}

func ExampleBroker_CreateTopic() {
	ctx := context.Background()
	b, end := temporary()
	defer end()

	t, err := b.CreateTopic(ctx, "orders", ottla.TopicConfig{Partitions: 3, RetentionAge: 30 * 24 * time.Hour})
	fmt.Println(t.Name(), t.Partitions(), err)
	_, err = b.CreateTopic(ctx, "orders", ottla.TopicConfig{})
	fmt.Println(errors.Is(err, ottla.ErrTopicExists))
	_, err = b.CreateTopic(ctx, "orders/2", ottla.TopicConfig{})
	fmt.Println(errors.Is(err, ottla.ErrInvalidTopic))
	// Output:
	// orders 3 <nil>
	// true
	// true
}

func ExampleProducer_SendBatch() {
	ctx := context.Background()
	b, end := temporary()
	defer end()
	b.CreateTopic(ctx, "orders", ottla.TopicConfig{Partitions: 2})

	p, _ := b.NewProducer(ottla.ProducerConfig{Partitioner: ottla.RoundRobin()})
	results, err := p.SendBatch(ctx, "orders", []ottla.Record{
		{Value: []byte("a")}, {Value: []byte("b")}, {Value: []byte("c")},
	})
	for _, r := range results {
		fmt.Println("partition", r.Partition, "offset", r.Offset)
	}
	fmt.Println(err)
	// Output:
	// partition 0 offset 0
	// partition 1 offset 0
	// partition 0 offset 1
	// <nil>
}

func ExampleProducer_SendAsync() {
	ctx := context.Background()
	b, end := temporary()
	defer end()
	b.CreateTopic(ctx, "orders", ottla.TopicConfig{})

	p, _ := b.NewProducer(ottla.ProducerConfig{})
	for _, v := range []string{"a", "b"} {
		p.SendAsync(ctx, "orders", ottla.Record{Value: []byte(v)}, func(res ottla.Result, err error) {
			fmt.Println(v, "at offset", res.Offset, err)
		})
	}
	if err := p.Flush(ctx); err != nil { // all callbacks have returned
		fmt.Println(err)
	}
	p.Close()
	// Output:
	// a at offset 0 <nil>
	// b at offset 1 <nil>
}

func ExampleConsumerGroup_Run() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	b, end := temporary()
	defer end()
	b.CreateTopic(ctx, "orders", ottla.TopicConfig{})
	p, _ := b.NewProducer(ottla.ProducerConfig{})
	p.Send(ctx, "orders", ottla.Record{Value: []byte("espresso")})
	p.Send(ctx, "orders", ottla.Record{Value: []byte("tea")})

	// Run joins, calls the handler for each record, and commits what it has handled.
	err := b.Group("billing").Run(ctx, ottla.MemberConfig{Topics: []string{"orders"}},
		func(_ context.Context, rec ottla.Record) error {
			fmt.Println("bill", string(rec.Value))
			if string(rec.Value) == "tea" {
				cancel()
			}
			return nil
		})
	fmt.Println(errors.Is(err, context.Canceled))
	// Output:
	// bill espresso
	// bill tea
	// true
}

func ExampleMember_Poll() {
	ctx := context.Background()
	b, end := temporary()
	defer end()
	b.CreateTopic(ctx, "orders", ottla.TopicConfig{})
	p, _ := b.NewProducer(ottla.ProducerConfig{})
	p.SendBatch(ctx, "orders", []ottla.Record{{Value: []byte("espresso")}, {Value: []byte("tea")}})

	m, _ := b.Group("billing").Join(ctx, ottla.MemberConfig{Topics: []string{"orders"}, Start: ottla.Earliest})
	recs, err := m.Poll(ctx) // waits for at least one record
	for _, rec := range recs {
		fmt.Println(rec.Topic, rec.Partition, rec.Offset, string(rec.Value))
	}
	fmt.Println(err, m.Commit(ctx), m.Close())
	// Output:
	// orders 0 0 espresso
	// orders 0 1 tea
	// <nil> <nil> <nil>
}

func ExamplePartition_NewReader() {
	ctx := context.Background()
	b, end := temporary()
	defer end()
	t, _ := b.CreateTopic(ctx, "orders", ottla.TopicConfig{})
	p, _ := b.NewProducer(ottla.ProducerConfig{})
	for _, v := range []string{"a", "b", "c"} {
		p.Send(ctx, "orders", ottla.Record{Value: []byte(v)})
	}

	pt := t.Partition(0)
	r, err := pt.NewReader(ottla.At(1))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	for rec, err := range r.Records(ctx) { // waits for more, so the loop is left by hand
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(rec.Offset, string(rec.Value))
		if rec.Offset+1 == pt.HighWatermark() {
			break
		}
	}
	_, err = pt.NewReader(ottla.At(9))
	fmt.Println(errors.Is(err, ottla.ErrOffsetOutOfRange))
	// Output:
	// 1 b
	// 2 c
	// true
}

func ExamplePartition_OffsetForTime() {
	ctx := context.Background()
	b, end := temporary()
	defer end()
	t, _ := b.CreateTopic(ctx, "orders", ottla.TopicConfig{})
	p, _ := b.NewProducer(ottla.ProducerConfig{})
	noon := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	for minute := range 5 {
		p.Send(ctx, "orders", ottla.Record{Time: noon.Add(time.Duration(minute) * time.Minute)})
	}

	pt := t.Partition(0)
	off, err := pt.OffsetForTime(noon.Add(90 * time.Second))
	fmt.Println(off, err)
	fmt.Println(pt.StartOffset(), pt.HighWatermark(), pt.EndOffset())
	// Output:
	// 2 <nil>
	// 0 5 5
}

func ExampleWeighted() {
	ctx := context.Background()
	b, end := temporary()
	defer end()
	t, _ := b.CreateTopic(ctx, "orders", ottla.TopicConfig{Partitions: 2})

	threeToOne, err := ottla.Weighted(3, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	p, _ := b.NewProducer(ottla.ProducerConfig{Partitioner: threeToOne})
	for range 40 {
		p.Send(ctx, "orders", ottla.Record{})
	}
	fmt.Println(t.Partition(0).EndOffset(), t.Partition(1).EndOffset())
	// Output: 30 10
}

func ExamplePartitionBy() {
	ctx := context.Background()
	b, end := temporary()
	defer end()
	b.CreateTopic(ctx, "orders", ottla.TopicConfig{Partitions: 2})

	p, _ := b.NewProducer(ottla.ProducerConfig{Partitioner: ottla.PartitionBy(
		func(_ string, r *ottla.Record, partitions int) int { return len(r.Value) % partitions })})
	res, err := p.Send(ctx, "orders", ottla.Record{Value: []byte("odd")})
	fmt.Println(res.Partition, err)
	// Output: 1 <nil>
}

func ExampleSendError() {
	ctx, cancel := context.WithCancel(context.Background())
	b, end := temporary()
	defer end()
	b.CreateTopic(ctx, "orders", ottla.TopicConfig{})
	p, _ := b.NewProducer(ottla.ProducerConfig{})

	cancel()
	_, err := p.Send(ctx, "orders", ottla.Record{Value: []byte("late")})
	var se *ottla.SendError
	if errors.As(err, &se) {
		fmt.Println(se.Topic, se.Partition, se.Outcome, errors.Is(err, context.Canceled))
	}
	// Output: orders 0 not stored true
}
