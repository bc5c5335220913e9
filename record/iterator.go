package record

import "math"

// Iterator reads the records of one batch in order:
//
//	it := batch.Records()
//	var r record.Record
//	for it.Next(&r) {
//		… // r is good until the next step
//	}
//	if err := it.Err(); err != nil { … }
//
// The offsets it gives rise strictly and stay within the batch. It is for one goroutine; a copy goes its own way.
type Iterator struct {
	bytes      []byte // the whole batch
	pos        int    // of the next record
	left       int32  // records that must still follow
	lastDelta  int64  // no record lies beyond
	prevDelta  int64
	attributes Attributes
	baseOffset int64
	baseTime   int64
	appendTime int64
	err        error
}

// Next reads the next record into r and reports whether there was one. Without one, r is not to be used, and Err says
// whether the batch ended as it should.
//
// It sets Offset, Time, Key, Value and Headers and leaves Topic and Partition as they are. Keys and values, those of
// headers too, are views of the batch's bytes: they live as long as these, and must not be written to. The slice
// r.Headers is overwritten within its capacity, strings in it are the caller's own: a header's key is copied, unless
// the string in its place has the same bytes, which then stays. So a loop with one Record allocates nothing for records
// without headers, nor for headers whose keys repeat, and r.Headers is good until the next step; reading into a fresh
// Record each time gives each its own Headers.
func (it *Iterator) Next(r *Record) bool {
	r.Headers = r.Headers[:0]
	return it.next(r, &r.Headers)
}

// Err returns why Next ended: nil after the last record, else a *FormatError or ErrCompressed.
func (it *Iterator) Err() error { return it.err }

// next reads all fields but the headers into r, and these into headers unless it is nil.
func (it *Iterator) next(r *Record, headers *[]Header) bool {
	if it.left == 0 {
		return it.finish()
	}
	size, i := varint(it.bytes, it.pos, maxVarint32)
	if i < 0 || size < 1 || size > int64(len(it.bytes)-i) {
		return it.fail(it.pos, "bad record length", size)
	}
	b := it.bytes[:i+int(size)] // nothing of the next record can be taken for this one's
	at := i + 1                 // attributes: none is defined, all are ignored
	timeDelta, i := varint64(b, at)
	if i < 0 {
		return it.fail(at, "bad timestamp delta", 0)
	}
	at = i
	offsetDelta, i := varint(b, at, maxVarint32)
	if i < 0 || offsetDelta <= it.prevDelta || offsetDelta > it.lastDelta {
		return it.fail(at, "bad offset delta", offsetDelta)
	}
	at = i
	if r.Key, i = field(b, at); i < 0 || it.attributes.Control() && len(r.Key) < controlKeySize {
		return it.fail(at, "bad key", int64(len(r.Key)))
	}
	at = i
	if r.Value, i = field(b, at); i < 0 {
		return it.fail(at, "bad value length", 0)
	}
	if i < len(b) && b[i] == 0 {
		i++ // no headers, as most records
	} else if i = it.headers(b, i, headers); i < 0 {
		return false
	}
	if i != len(b) {
		return it.fail(i, "bytes after the last field", int64(len(b)-i))
	}

	it.pos = i
	it.left--
	it.prevDelta = offsetDelta
	r.Offset = it.baseOffset + offsetDelta
	if it.attributes.LogAppendTime() {
		r.Time = TimeOf(it.appendTime)
	} else {
		r.Time = TimeOf(it.baseTime + timeDelta) // wraps around as the difference did
	}
	return true
}

// A control record's key begins with its version and its type, two bytes each.
const controlKeySize = 4

// headers reads from b[i:] into dst, or only checks, and returns the position after them, negative after a failure.
// Memory grows with the headers that are there, never with the count that is claimed.
func (it *Iterator) headers(b []byte, i int, dst *[]Header) int {
	at := i
	count, i := varint(b, at, maxVarint32)
	if i < 0 || count < 0 || count > int64(len(b)-i)/2 { // a header takes two bytes at least
		it.fail(at, "bad header count", count)
		return -1
	}
	for ; count > 0; count-- {
		at = i
		var key, value []byte
		if key, i = field(b, at); i < 0 || key == nil {
			it.fail(at, "bad header key length", 0)
			return -1
		}
		at = i
		if value, i = field(b, at); i < 0 {
			it.fail(at, "bad header value length", 0)
			return -1
		}
		if dst != nil {
			*dst = appendHeader(*dst, key, value)
		}
	}
	return i
}

// appendHeader keeps the key that the slot held before if it is the same.
func appendHeader(hs []Header, key, value []byte) []Header {
	if n := len(hs); n < cap(hs) {
		hs = hs[:n+1]
		if h := &hs[n]; h.Key != string(key) {
			h.Key = string(key)
		}
		hs[n].Value = value
		return hs
	}
	return append(hs, Header{Key: string(key), Value: value})
}

// field reads a length and that many bytes; any negative length is null. The position after them is negative if they
// aren't all there.
func field(b []byte, i int) ([]byte, int) {
	n, i := varint(b, i, maxVarint32)
	if i < 0 || n > int64(len(b)-i) || n < math.MinInt32 {
		return nil, -1
	}
	if n < 0 {
		return nil, i
	}
	end := i + int(n)
	return b[i:end:end], end
}

// finish ends the iteration, and checks that the records filled the batch.
func (it *Iterator) finish() bool {
	if it.err == nil && it.pos != len(it.bytes) {
		return it.fail(it.pos, "bytes after the last record", int64(len(it.bytes)-it.pos))
	}
	return false
}

func (it *Iterator) fail(pos int, what string, value int64) bool {
	it.stop(corrupt(StageRecords, pos, what, value))
	return false
}

func (it *Iterator) stop(err error) {
	it.left = 0
	it.err = err
}
