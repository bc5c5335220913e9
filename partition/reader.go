package partition

import (
	"context"
	"io"
	"iter"

	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/record"
)

// Reader reads a partition's records in order, up to the high watermark, without a group. It is for one goroutine.
//
// Errors leave the reader where it is: a *log.OffsetError (matches log.ErrOffsetOutOfRange) when retention has passed by,
// SeekTo then; a *segment.CorruptionError (matches log.ErrCorrupt) at damage, which Skip steps over; log.ErrClosed.
type Reader struct {
	p     *Partition
	log   *log.Reader
	it    record.Iterator // over the current batch
	open  bool            // it has more to give
	owned bool            // the current batch is a copy that belongs to the caller
	after int64           // offset behind the current batch
	bad   error           // the current batch can't be decoded; until Skip or SeekTo
	next  int64
}

// NewReader returns a reader that begins at start. An offset outside of StartOffset to HighWatermark is a
// *log.OffsetError. The reader is to be closed.
func (p *Partition) NewReader(start Start) (*Reader, error) {
	offset, err := p.Resolve(start)
	if err != nil {
		return nil, err
	}
	if hw := p.hw.Load(); offset > hw {
		return nil, p.wrap(&log.OffsetError{Asked: offset, Start: p.leader.Start(), End: hw})
	}
	r, err := p.leader.NewReader(offset)
	if err != nil {
		return nil, p.wrap(err)
	}
	return &Reader{p: p, log: r, next: offset}, nil
}

// Offset returns the offset of the next record.
func (r *Reader) Offset() int64 { return r.next }

// Partition returns the partition that is read.
func (r *Reader) Partition() *Partition { return r.p }

// SeekTo moves the reader, under the same rules as NewReader.
func (r *Reader) SeekTo(start Start) error {
	offset, err := r.p.Resolve(start)
	if err != nil {
		return err
	}
	if hw := r.p.hw.Load(); offset > hw {
		return r.p.wrap(&log.OffsetError{Asked: offset, Start: r.p.leader.Start(), End: hw})
	}
	if err := r.log.SeekTo(offset); err != nil {
		return r.p.wrap(err)
	}
	r.next, r.open, r.bad = offset, false, nil
	return nil
}

// Skip steps over the damage that was reported: the next record is the first behind it that can be read.
func (r *Reader) Skip() error {
	if r.bad != nil {
		r.next, r.bad = r.after, nil
		return nil
	}
	if err := r.log.Skip(); err != nil {
		return r.p.wrap(err)
	}
	r.next = max(r.next, r.log.Offset())
	return nil
}

// Close gives the reader's hold on the partition's files back. Closing twice is harmless.
func (r *Reader) Close() error {
	r.open = false
	return r.log.Close()
}

// Next waits for the next record. The record is the caller's own.
func (r *Reader) Next(ctx context.Context) (record.Record, error) {
	var rec record.Record
	err := r.await(ctx, &rec, true)
	return rec, err
}

// Records ranges over the records, waiting for more, until the loop ends or an error is yielded: the context's in the end.
// Each record is the caller's own.
func (r *Reader) Records(ctx context.Context) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		for {
			rec, err := r.Next(ctx)
			if !yield(rec, err) || err != nil {
				return
			}
		}
	}
}

// Views is Records for hot loops: it allocates nothing for a record without headers. The record is the reader's, and so
// are its slices: all are overwritten by the next step.
func (r *Reader) Views(ctx context.Context) iter.Seq2[*record.Record, error] {
	return func(yield func(*record.Record, error) bool) {
		var rec record.Record
		for {
			if err := r.await(ctx, &rec, false); err != nil {
				yield(nil, err)
				return
			}
			if !yield(&rec, nil) {
				return
			}
		}
	}
}

// Read appends to dst up to max records that are there, without waiting. The records are the caller's own: each keeps
// the bytes of its batch alive. It returns what it has got so far with an error.
func (r *Reader) Read(dst []record.Record, max int) ([]record.Record, error) {
	for range max {
		var rec record.Record
		err := r.step(&rec, true)
		if err == io.EOF {
			break
		}
		if err != nil {
			return dst, err
		}
		dst = append(dst, rec)
	}
	return dst, nil
}

// await is step that waits for a record.
func (r *Reader) await(ctx context.Context, rec *record.Record, owned bool) error {
	for {
		err := r.step(rec, owned)
		if err != io.EOF {
			return err
		}
		if err := r.p.hw.Wait(ctx, r.next); err != nil {
			return err
		}
	}
}

// step reads the next record, io.EOF when there is none yet.
func (r *Reader) step(rec *record.Record, owned bool) error {
	for {
		if r.bad != nil {
			return r.bad
		}
		for r.open && r.it.Next(rec) {
			if rec.Offset < r.next {
				continue
			}
			if owned && !r.owned {
				*rec = rec.Clone()
			}
			rec.Topic, rec.Partition = r.p.topic, r.p.number
			r.next = rec.Offset + 1
			return nil
		}
		if r.open {
			r.open = false
			if err := r.it.Err(); err != nil {
				r.bad = r.p.wrap(err)
				return r.bad
			}
		}
		if err := r.load(owned); err != nil {
			return err
		}
	}
}

// load gets the next batch.
func (r *Reader) load(owned bool) error {
	batch, err := r.log.Next(r.p.hw.Load())
	if err == io.EOF {
		if end := r.p.hw.Err(); end != nil {
			return end
		}
		return err
	}
	if err != nil {
		return r.p.wrap(err)
	}
	if owned {
		batch = batch.Clone()
	}
	r.it, r.open, r.owned, r.after = batch.Records(), true, owned, batch.Header().NextOffset()
	return nil
}
