package record

import (
	"encoding/binary"
	"hash/crc32"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Put writes the planned batch to dst[:l.Size], with the records that it was planned for, or what Compress has made of
// them. What dst held doesn't matter: nothing is read from it but what was just written, once, for the checksum.
//
// The caller sets h's base offset, leader epoch, producer fields and flags (see HeaderAt); length, checksum, codec, last
// offset delta, timestamps and count come from the plan. Only with FlagLogAppendTime is h's MaxTimestamp the caller's to
// set: it is the time that all records then have.
//
// Put panics if dst is too short, or if the records are not those that were planned; that happens if someone changes
// them meanwhile. The bytes at dst are no batch then.
func (l *Layout) Put(dst []byte, h BatchHeader, recs []Record) {
	b := dst[:len(dst):len(dst)][:l.Size] // never into dst's spare capacity
	h.Length = int32(l.Size - lengthEnd)
	h.Attributes = h.Attributes&^codecBits | Attributes(l.codec)
	h.LastOffsetDelta = l.LastOffsetDelta
	h.BaseTimestamp = l.BaseTimestamp
	if !h.Attributes.LogAppendTime() {
		h.MaxTimestamp = l.MaxTimestamp
	}
	h.Count = l.Count
	h.put(b)

	switch {
	case len(recs) != int(l.Count):
		panic(errChanged)
	case l.codec != CodecNone:
		copy(b[HeaderSize:], l.packed)
	case l.putRecords(b, recs) != l.Size:
		panic(errChanged)
	}
	seal(b)
}

const errChanged = "record: records changed between Plan and Put"

// seal sets the checksum of the batch that fills b, and returns it.
func seal(b []byte) uint32 {
	sum := crc32.Checksum(b[posAttributes:], castagnoli)
	binary.BigEndian.PutUint32(b[posCRC:], sum)
	return sum
}

// putRecords writes the records after the header and returns where they end.
func (l *Layout) putRecords(b []byte, recs []Record) int {
	i := HeaderSize
	for n := range recs {
		r := &recs[n]
		timeDelta := l.millis(r) - l.BaseTimestamp
		offsetDelta := l.offsetDelta(n, r)

		i = putVarint(b, i, bodySize(r, timeDelta, offsetDelta))
		b[i] = 0 // attributes: none is defined
		i = putVarint(b, i+1, timeDelta)
		i = putVarint(b, i, offsetDelta)
		i = putBytes(b, i, r.Key)
		i = putBytes(b, i, r.Value)
		if len(r.Headers) == 0 {
			b[i] = 0
			i++
			continue
		}
		i = putVarint(b, i, int64(len(r.Headers)))
		for k := range r.Headers {
			h := &r.Headers[k]
			i = putVarint(b, i, int64(len(h.Key)))
			i += copy(b[i:i+len(h.Key)], h.Key)
			i = putBytes(b, i, h.Value)
		}
	}
	return i
}

// null is the varint -1.
const null = 1

// putBytes writes a length, -1 for null, and the bytes.
func putBytes(b []byte, i int, p []byte) int {
	if p == nil {
		b[i] = null
		return i + 1
	}
	i = putVarint(b, i, int64(len(p)))
	return i + copy(b[i:i+len(p)], p)
}
