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

func ExampleRunConfig() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	b, end := temporary()
	defer end()
	b.CreateTopic(ctx, "orders", ottla.TopicConfig{Partitions: 4})
	dead, _ := b.CreateTopic(ctx, "orders.dead", ottla.TopicConfig{})
	p, _ := b.NewProducer(ottla.ProducerConfig{})
	p.Send(ctx, "orders", ottla.Record{Value: []byte("unicorn")})

	cfg := ottla.MemberConfig{Topics: []string{"orders"}, Run: ottla.RunConfig{
		Concurrency:  4,
		Retries:      2,
		RetryBackoff: time.Millisecond,
		DeadLetter:   "orders.dead",
		DrainTimeout: 10 * time.Second,
	}}
	done := make(chan error)
	go func() {
		done <- b.Group("billing").Run(ctx, cfg, func(_ context.Context, rec ottla.Record) error {
			return fmt.Errorf("no price for %q", rec.Value)
		})
	}()

	r, _ := dead.Partition(0).NewReader(ottla.Earliest)
	defer r.Close()
	rec, err := r.Next(ctx)
	fmt.Println(string(rec.Value), err)
	for _, h := range rec.Headers {
		if h.Key == ottla.HeaderAttempts || h.Key == ottla.HeaderTopic {
			fmt.Println(h.Key, string(h.Value))
		}
	}
	cancel()
	fmt.Println(<-done)
	// Output:
	// unicorn <nil>
	// ottla.attempts 3
	// ottla.topic orders
	// context canceled
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

func ExampleMember_Seek() {
	ctx := context.Background()
	b, end := temporary()
	defer end()
	b.CreateTopic(ctx, "orders", ottla.TopicConfig{})
	p, _ := b.NewProducer(ottla.ProducerConfig{})
	for _, v := range []string{"espresso", "cortado", "tea"} {
		p.Send(ctx, "orders", ottla.Record{Value: []byte(v)})
	}

	m, _ := b.Group("billing").Join(ctx, ottla.MemberConfig{Topics: []string{"orders"}})
	defer m.Close()
	recs, _ := m.Poll(ctx)
	fmt.Println(len(recs), "records")
	if err := m.Seek("orders", 0, ottla.At(1)); err != nil { // once more from the cortado
		fmt.Println(err)
		return
	}
	recs, err := m.Poll(ctx)
	fmt.Println(string(recs[0].Value), err)
	// Output:
	// 3 records
	// cortado <nil>
}

func ExampleConsumerGroup_ResetOffsets() {
	ctx := context.Background()
	b, end := temporary()
	defer end()
	b.CreateTopic(ctx, "orders", ottla.TopicConfig{})
	p, _ := b.NewProducer(ottla.ProducerConfig{})
	p.SendBatch(ctx, "orders", []ottla.Record{{Value: []byte("espresso")}, {Value: []byte("tea")}})
	m, _ := b.Group("billing").Join(ctx, ottla.MemberConfig{Topics: []string{"orders"}})
	m.Poll(ctx)

	g := b.Groups()[0]
	_, err := g.ResetOffsets(ctx, ottla.OffsetReset{To: ottla.Earliest})
	fmt.Println(g.Name(), errors.Is(err, ottla.ErrGroupNotEmpty))
	m.Close()
	changes, err := g.ResetOffsets(ctx, ottla.OffsetReset{Shift: -1})
	fmt.Println(changes[0].From, changes[0].To, err)
	d, err := g.Describe()
	fmt.Println(d.State, d.Partitions[0].Lag, err)
	// Output:
	// billing true
	// 2 1 <nil>
	// empty 1 <nil>
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

// Many small records are stored in a tenth of their size.
func ExampleCompression() {
	ctx := context.Background()
	b, end := temporary()
	defer end()
	plain, _ := b.CreateTopic(ctx, "plain", ottla.TopicConfig{})
	packed, _ := b.CreateTopic(ctx, "packed", ottla.TopicConfig{Compression: ottla.Zstd})
	p, _ := b.NewProducer(ottla.ProducerConfig{}) // with a Compression of its own, that would count
	defer p.Close()

	recs := make([]ottla.Record, 1000)
	for i := range recs {
		recs[i].Value = fmt.Appendf(nil, "sensor %d: all is well", i%10)
	}
	p.SendBatch(ctx, "plain", recs)
	p.SendBatch(ctx, "packed", recs)
	fmt.Println(packed.Partition(0).Size() < plain.Partition(0).Size()/10)
	// Output: true
}

// A topic that is shared with a Kafka cluster: each key is in the partition where Kafka's own client puts it.
func ExampleMurmur2Key() {
	ctx := context.Background()
	b, end := temporary()
	defer end()
	b.CreateTopic(ctx, "orders", ottla.TopicConfig{Partitions: 10})
	p, _ := b.NewProducer(ottla.ProducerConfig{Partitioner: ottla.Murmur2Key()})
	defer p.Close()
	res, err := p.Send(ctx, "orders", ottla.Record{Key: []byte("foobar"), Value: []byte("espresso")})
	fmt.Println(res.Partition, err)
	// Output: 6 <nil>
}

// Records without a key go to one partition until it has got 16 KiB, then to the next.
func ExampleStickyBatch() {
	ctx := context.Background()
	b, end := temporary()
	defer end()
	b.CreateTopic(ctx, "clicks", ottla.TopicConfig{Partitions: 6})
	p, _ := b.NewProducer(ottla.ProducerConfig{Partitioner: ottla.StickyBatch()})
	defer p.Close()
	results, err := p.SendBatch(ctx, "clicks", make([]ottla.Record, 100))
	fmt.Println(results[0].Partition == results[99].Partition, err)
	// Output: true <nil>
}

// Times from the future that are surely wrong are refused, before anything is stored.
func ExampleTimestampError() {
	ctx := context.Background()
	b, end := temporary()
	defer end()
	b.CreateTopic(ctx, "orders", ottla.TopicConfig{MaxTimestampAhead: time.Hour})
	p, _ := b.NewProducer(ottla.ProducerConfig{})
	defer p.Close()
	inNanoseconds := time.Now().UnixNano()
	_, err := p.Send(ctx, "orders", ottla.Record{Time: time.UnixMilli(inNanoseconds), Value: []byte("espresso")})
	var te *ottla.TimestampError
	fmt.Println(errors.As(err, &te), errors.Is(err, ottla.ErrTimestamp))
	// Output: true true
}
