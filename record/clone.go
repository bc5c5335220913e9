package record

import "bytes"

// Clone returns a copy of r that shares no memory with it: what nil and what empty was stays so.
func (r Record) Clone() Record {
	r.Key, r.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
	if r.Headers != nil {
		headers := make([]Header, len(r.Headers))
		for i, h := range r.Headers {
			headers[i] = Header{Key: h.Key, Value: bytes.Clone(h.Value)}
		}
		r.Headers = headers
	}
	return r
}

// Clone returns the batch over a copy of its bytes, which belongs to the caller.
func (b Batch) Clone() Batch {
	b.bytes = bytes.Clone(b.bytes)
	return b
}
