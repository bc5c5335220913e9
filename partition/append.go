package partition

import (
	"context"
	"errors"
	"fmt"

	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/record"
)

// Outcome tells what became of records whose append returned an error.
type Outcome int

const (
	// NotStored: nothing of them was or will be stored.
	NotStored Outcome = iota
	// Unknown: they may have been stored, and may or may not be there after the next Open.
	Unknown
)

func (o Outcome) String() string {
	if o == NotStored {
		return "not stored"
	}
	return "outcome unknown"
}

// SendError is the error of an append that reached its partition. The cause is in Err: errors.Is and errors.As see it.
type SendError struct {
	Topic     string
	Partition int
	Outcome   Outcome
	Err       error
}

func (e *SendError) Error() string {
	return fmt.Sprintf("topic %q partition %d: %v: %v", e.Topic, e.Partition, e.Outcome, e.Err)
}

// Unwrap returns the cause.
func (e *SendError) Unwrap() error { return e.Err }

// Append stores the records as one batch, at consecutive offsets, and returns once they are below the high watermark. They
// are compressed as the partition's settings say, and neither kept nor changed. An error is a *SendError.
func (p *Partition) Append(ctx context.Context, recs []record.Record) (log.Appended, error) {
	at, err := p.Store(ctx, p.header, recs)
	if err != nil {
		return at, err
	}
	return at, p.Await(ctx, at.Next)
}

// Store is the first half of Append: it stores the records and doesn't wait until they are acknowledged. h has what their
// producer decides, the codec among it; offsets and epoch in it are ignored.
func (p *Partition) Store(ctx context.Context, h record.BatchHeader, recs []record.Record) (log.Appended, error) {
	if err := ctx.Err(); err != nil {
		return log.Appended{}, p.sendError(NotStored, err)
	}
	if p.leader == nil {
		return log.Appended{}, p.sendError(NotStored, p.cause)
	}
	h.LeaderEpoch = p.epoch.Load()
	at, err := p.leader.Append(h, recs)
	if err != nil {
		return at, p.sendError(NotStored, err)
	}
	if !p.always {
		p.advance()
	}
	return at, nil
}

// Await is the second half of Append: it returns once every record below next is below the high watermark.
func (p *Partition) Await(ctx context.Context, next int64) error {
	if p.hw.Load() >= next {
		return nil
	}
	if p.leader == nil {
		return p.sendError(NotStored, p.cause)
	}
	if err := p.leader.Sync(ctx, next); err != nil {
		return p.sendError(Unknown, err)
	}
	p.advance()
	return nil
}

// advance raises the high watermark to what every in-sync replica holds.
func (p *Partition) advance() {
	p.hw.Advance(highWatermark(p.leader.Stable().Load()))
}

// highWatermark is the smallest of the offsets below which each in-sync replica has everything.
func highWatermark(first int64, others ...int64) int64 {
	for _, o := range others {
		first = min(first, o)
	}
	return first
}

func (p *Partition) sendError(o Outcome, err error) error {
	if errors.Is(err, log.ErrClosed) {
		if end := p.ended(); end != nil {
			err = end
		}
	}
	return &SendError{Topic: p.topic, Partition: p.number, Outcome: o, Err: err}
}
