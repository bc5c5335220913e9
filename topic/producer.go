package topic

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/partition"
	"github.com/ottlalog/ottla/record"
)

// ProducerConfig has the settings of a producer. The zero value is usable.
type ProducerConfig struct {
	// Partitioner chooses the partition of each record; nil: ByKey.
	Partitioner Partitioner
	// MaxBufferedBytes is the most that records given to SendAsync may take in memory until they are acknowledged; a
	// SendAsync beyond it waits. 0: 64 MiB.
	MaxBufferedBytes int
	// Compression is how batches are stored; 0: as each topic says.
	Compression Compression
}

// Producer writes records to topics. All methods are safe for concurrent use; records that one goroutine sends keep their
// order in each partition, if it sends all with SendAsync or none.
type Producer struct {
	set    *Set
	config ProducerConfig
	closed atomic.Bool
	routes atomic.Pointer[map[string]*route] // by topic; replaced as a whole under mu
	mu     sync.Mutex
	async  *async
}

// route is a topic with the producer's way to place records in it.
type route struct {
	topic  *Topic
	place  Place
	header record.BatchHeader // of each batch
}

// Result says where a record was stored.
type Result struct {
	Partition int
	Offset    int64
	// Time is the record's timestamp, in milliseconds.
	Time time.Time
	// Err says why the record of a batch has no place; the other fields are then zero. Nil for stored records.
	Err error
}

// NewProducer returns a producer for the topics of the set.
func (s *Set) NewProducer(cfg ProducerConfig) (*Producer, error) {
	if s.closed.Load() {
		return nil, log.ErrClosed
	}
	if !cfg.Compression.valid() {
		return nil, fmt.Errorf("producer: Compression is none of the constants: %v", cfg.Compression)
	}
	if cfg.Partitioner == nil {
		cfg.Partitioner = ByKey()
	}
	if cfg.MaxBufferedBytes <= 0 {
		cfg.MaxBufferedBytes = 64 << 20
	}
	p := &Producer{set: s, config: cfg}
	p.routes.Store(&map[string]*route{})
	p.async = newAsync(p)
	return p, nil
}

// Send stores one record and returns where, once it is acknowledged: as safe as the broker's sync policy says. The record
// is neither changed nor kept.
//
// An error that is a *partition.SendError tells by its Outcome whether the record may be stored all the same; after any
// other error (ErrUnknownTopic, partition.ErrUnknownPartition, log.ErrClosed) it isn't.
func (p *Producer) Send(ctx context.Context, topic string, rec record.Record) (Result, error) {
	rt, err := p.route(topic)
	if err != nil {
		return Result{}, err
	}
	recs := [1]record.Record{rec}
	part, err := rt.choose(&recs[0])
	if err != nil {
		return Result{}, err
	}
	at, err := part.Store(ctx, rt.header, recs[:])
	if err != nil {
		return Result{}, err
	}
	if err := part.Await(ctx, at.Next); err != nil {
		return Result{}, err
	}
	return resultAt(part, at, 0, &recs[0]), nil
}

func resultAt(part *partition.Partition, at log.Appended, i int, rec *record.Record) Result {
	return Result{
		Partition: part.Number(),
		Offset:    at.Base + int64(i),
		Time:      record.TimeOf(at.Timestamp(rec)),
	}
}

// route returns the way to a topic. The usual case takes no lock: the topic is known and not deleted.
func (p *Producer) route(topic string) (*route, error) {
	if p.closed.Load() {
		return nil, log.ErrClosed
	}
	if rt, ok := (*p.routes.Load())[topic]; ok && !rt.topic.deleted.Load() {
		return rt, nil
	}
	t, err := p.set.Topic(topic)
	if err != nil {
		return nil, err
	}
	place := p.config.Partitioner.ForTopic(topic) // the user's code: without the lock
	p.mu.Lock()
	defer p.mu.Unlock()
	routes := maps.Clone(*p.routes.Load())
	if rt := routes[topic]; rt != nil && rt.topic == t {
		return rt, nil
	}
	maps.DeleteFunc(routes, func(_ string, rt *route) bool { return rt.topic.deleted.Load() })
	rt := &route{topic: t, place: place, header: record.HeaderAt(0, 0)}
	rt.header.Attributes = record.Attributes(p.config.Compression.codec(t.config.Compression))
	routes[topic] = rt
	p.routes.Store(&routes)
	return rt, nil
}

// choose returns the partition of a record.
func (rt *route) choose(rec *record.Record) (part *partition.Partition, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("topic %q: the partitioner panicked: %v", rt.topic.name, r)
		}
	}()
	ps := *rt.topic.partitions.Load()
	n := rt.place(rec, len(ps))
	if n < 0 || n >= len(ps) {
		return nil, rt.topic.unknown(n)
	}
	return ps[n], nil
}

// Flush waits until every record given to SendAsync before the call is acknowledged or has failed.
func (p *Producer) Flush(ctx context.Context) error { return p.async.flush(ctx) }

// Close waits until every record given to SendAsync has been called back and ends the producer: later calls return
// log.ErrClosed. Closing twice is harmless.
func (p *Producer) Close() error {
	p.closed.Store(true)
	p.async.close()
	return nil
}
