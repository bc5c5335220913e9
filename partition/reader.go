package partition

import (
	"context"
	"io"
	"iter"

	"github.com/ottlalog/ottla/internal/notify"
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
	plain []byte          // where the current batch was decompressed, unless it is owned
	after int64           // offset behind the current batch
	bad   error           // the current batch can't be decompressed or decoded; until Skip or SeekTo
	next  int64
	wait  notify.Waiter

	closed bool
}

// NewReader returns a reader that begins at start. An offset outside of StartOffset to HighWatermark is a
// *log.OffsetError. The reader is to be closed.
func (p *Partition) NewReader(start Start) (*Reader, error) {
	r := &Reader{p: p}
	err := r.place(start, func(offset int64) (err error) {
		r.log, err = p.leader.NewReader(offset)
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// place finds the offset that a start means and puts the reader there.
func (r *Reader) place(start Start, put func(offset int64) error) error {
	for {
		offset, err := r.p.Resolve(start)
		if err != nil {
			return err
		}
		if hw := r.p.hw.Load(); offset > hw {
			return r.p.wrap(&log.OffsetError{Asked: offset, Start: r.p.leader.Start(), End: hw})
		}
		err = put(offset)
		if err == nil {
			r.next, r.open, r.bad = offset, false, nil
			return nil
		}
		if start.kind == startOffset || offset >= r.p.leader.Start() {
			return r.p.wrap(err)
		}
		// Retention has passed by since the start was resolved: it means another offset now.
	}
}

// Offset returns the offset of the next record.
func (r *Reader) Offset() int64 { return r.next }

// Partition returns the partition that is read.
func (r *Reader) Partition() *Partition { return r.p }

// SeekTo moves the reader, under the same rules as NewReader.
func (r *Reader) SeekTo(start Start) error {
	if r.closed {
		return log.ErrClosed
	}
	return r.place(start, r.log.SeekTo)
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

// Close gives the reader's hold on the partition's files back; every later call that reads returns log.ErrClosed. Closing
// twice is harmless.
func (r *Reader) Close() error {
	r.open, r.closed = false, true
	return r.log.Close()
}

// Next waits for the next record. The record is the caller's own. When ctx has ended, its error comes first.
func (r *Reader) Next(ctx context.Context) (record.Record, error) {
	var rec record.Record
	if err := ctx.Err(); err != nil {
		return rec, err
	}
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
// are its slices: all are overwritten by the next step. That ctx has ended is noticed between batches.
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
		err := r.step(context.Background(), &rec, true)
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
		err := r.step(ctx, rec, owned)
		if err != io.EOF {
			return err
		}
		if err := r.wait.Wait(ctx, &r.p.hw, r.next); err != nil {
			return err
		}
	}
}

// step reads the next record, io.EOF when there is none yet.
func (r *Reader) step(ctx context.Context, rec *record.Record, owned bool) error {
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
			r.next = max(r.next, r.after) // a batch may have fewer records than offsets
		}
		if err := r.load(ctx, owned); err != nil {
			return err
		}
	}
}

// load gets the next batch, unless ctx has ended.
func (r *Reader) load(ctx context.Context, owned bool) error {
	if r.closed {
		return log.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
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
	r.after = batch.Header().NextOffset()
	if batch, err = r.unpack(batch, owned); err != nil {
		r.bad = r.p.wrap(err)
		return r.bad
	}
	r.it, r.open, r.owned = batch.Records(), true, owned
	return nil
}

// maxPlain is the most memory that a reader keeps for batches that it decompresses.
const maxPlain = 1 << 20

// unpack makes a batch readable, once for all of its records: in memory that will be the caller's, or the reader's.
func (r *Reader) unpack(batch record.Batch, owned bool) (record.Batch, error) {
	switch compressed := batch.Header().Attributes.Codec() != record.CodecNone; {
	case compressed && owned:
		return r.p.leader.Decompress(batch, nil)
	case owned:
		return batch.Clone(), nil
	case !compressed:
		return batch, nil
	}
	batch, err := r.p.leader.Decompress(batch, r.plain)
	if r.plain = batch.Bytes(); cap(r.plain) > maxPlain {
		r.plain = nil
	}
	return batch, err
}
