package topic

import (
	"context"
	"errors"
	"sync"

	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/partition"
	"github.com/ottlalog/ottla/record"
)

// SendBatch stores records, those of each partition as one batch in the order given, and returns for each, in the order
// given, where it was stored. A partition's batch is stored whole or not at all; with an error, Result.Err tells which
// records it concerns, and errors.As finds the *partition.SendError of each failed partition. When no partition can be
// chosen for a record, nothing is stored.
func (p *Producer) SendBatch(ctx context.Context, topic string, recs []record.Record) ([]Result, error) {
	if len(recs) == 0 {
		return nil, nil
	}
	rt, err := p.route(topic)
	if err != nil {
		return nil, err
	}
	s := shares.Get().(*split)
	defer s.release()
	if err := s.place(rt, recs); err != nil {
		return nil, err
	}
	s.store(ctx)
	s.await(ctx)
	return s.results(recs)
}

// split is a batch divided by partitions. It is reused: sending a batch allocates its results and nothing else.
type split struct {
	shareOf []int    // of each record: its share,
	index   []int    // and its place there
	shares  []*share // one for each partition that is concerned
	spare   []*share // from earlier uses
	byPart  map[*partition.Partition]*share
}

// share is what goes to one partition.
type share struct {
	n      int // its place in split.shares
	part   *partition.Partition
	header record.BatchHeader
	recs   []record.Record
	at     log.Appended
	err    error
}

var shares = sync.Pool{New: func() any { return &split{byPart: map[*partition.Partition]*share{}} }}

// place chooses partitions for all records.
func (s *split) place(rt *route, recs []record.Record) error {
	for i := range recs {
		part, err := rt.choose(&recs[i])
		if err != nil {
			return err
		}
		s.add(rt, part, &recs[i])
	}
	return nil
}

func (s *split) add(rt *route, part *partition.Partition, rec *record.Record) {
	sh := s.byPart[part]
	if sh == nil {
		if n := len(s.spare); n > 0 {
			sh, s.spare = s.spare[n-1], s.spare[:n-1]
		} else {
			sh = new(share)
		}
		sh.n, sh.part, sh.header = len(s.shares), part, rt.header
		s.shares = append(s.shares, sh)
		s.byPart[part] = sh
	}
	s.shareOf = append(s.shareOf, sh.n)
	s.index = append(s.index, len(sh.recs))
	sh.recs = append(sh.recs, *rec)
}

// store stores all shares before any is waited for, so that their syncs can overlap.
func (s *split) store(ctx context.Context) {
	for _, sh := range s.shares {
		sh.at, sh.err = sh.part.Store(ctx, sh.header, sh.recs)
	}
}

// await waits for all shares, the first in this goroutine.
func (s *split) await(ctx context.Context) {
	var wg sync.WaitGroup
	for _, sh := range s.shares[1:] {
		if sh.err == nil && sh.part.HighWatermark() < sh.at.Next {
			wg.Go(func() { sh.err = sh.part.Await(ctx, sh.at.Next) })
		}
	}
	if first := s.shares[0]; first.err == nil {
		first.err = first.part.Await(ctx, first.at.Next)
	}
	wg.Wait()
}

func (s *split) results(recs []record.Record) ([]Result, error) {
	out := make([]Result, len(recs))
	for i := range recs {
		sh := s.shares[s.shareOf[i]]
		if sh.err != nil {
			out[i] = Result{Err: sh.err}
			continue
		}
		out[i] = resultAt(sh.part, sh.at, s.index[i], &recs[i])
	}
	var errs []error
	for _, sh := range s.shares {
		if sh.err != nil {
			errs = append(errs, sh.err)
		}
	}
	return out, errors.Join(errs...)
}

// release clears what belongs to the caller and gives the rest back.
func (s *split) release() {
	for _, sh := range s.shares {
		clear(sh.recs)
		*sh = share{recs: sh.recs[:0]}
	}
	s.spare = append(s.spare, s.shares...)
	s.shares, s.shareOf, s.index = s.shares[:0], s.shareOf[:0], s.index[:0]
	clear(s.byPart)
	shares.Put(s)
}
