package record_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/record"
)

// FuzzParse reads bytes as they come, and once more with length and checksum made right, so that what lies behind these
// is reached.
func FuzzParse(f *testing.F) {
	v := loadVectors(f)
	for _, x := range v.Valid {
		f.Add([]byte(x.Hex))
	}
	for _, x := range v.Streams {
		f.Add([]byte(x.Hex))
	}
	for _, x := range v.Malformed {
		f.Add([]byte(x.Hex))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		requireSound(t, b)
		if len(b) >= record.HeaderSize {
			b = clone(b)
			b[16] = 2
			requireSound(t, sign(b))
		}
	})
}

// FuzzRoundTrip makes records of the bytes and expects them back.
func FuzzRoundTrip(f *testing.F) {
	for _, x := range loadVectors(f).Valid {
		f.Add(int64(0), []byte(x.Hex))
		f.Add(int64(1<<62), []byte(x.Hex[record.HeaderSize:]))
	}
	f.Fuzz(func(t *testing.T, base int64, script []byte) {
		recs := scripted(script)
		if len(recs) == 0 || base < 0 || base > 1<<62 {
			return
		}
		requireRoundTrip(t, record.HeaderAt(base, 0), recs)
	})
}

// scripted takes records from a script: a byte of what is there, then each part as a length and bytes.
func scripted(s []byte) []record.Record {
	take := func(n int) []byte {
		b := s[:min(n, len(s))]
		s = s[len(b):]
		return b
	}
	part := func() []byte {
		return append([]byte{}, take(int(append(take(1), 0)[0]))...)
	}
	var recs []record.Record
	for len(s) > 0 && len(recs) < 1000 {
		var r record.Record
		what := take(1)[0]
		if what&1 != 0 {
			r.Key = part()
		}
		if what&2 != 0 {
			r.Value = part()
		}
		if what&4 != 0 {
			ms := int64(binary.BigEndian.Uint64(append(append([]byte{}, take(8)...), make([]byte, 8)...)))
			r.Time = record.TimeOf(ms)
		}
		for range what >> 6 {
			h := record.Header{Key: string(part())}
			if what&8 != 0 {
				h.Value = part()
			}
			r.Headers = append(r.Headers, h)
		}
		recs = append(recs, r)
	}
	return recs
}

// FuzzDecompress takes the bytes for the compressed records of a batch.
func FuzzDecompress(f *testing.F) {
	for _, x := range loadVectors(f).Valid {
		if c := x.Decoded.Attributes.Codec(); c != record.CodecNone {
			f.Add(byte(c), []byte(x.Hex[record.HeaderSize:]))
		}
	}
	f.Fuzz(func(t *testing.T, codec byte, packed []byte) {
		raw := make([]byte, record.HeaderSize, record.HeaderSize+len(packed))
		record.SetBase(raw, 0, 0)
		raw[16], raw[22] = 2, 1+codec%4
		b, err := record.Parse(sign(append(raw, packed...)))
		require.NoError(t, err)
		for _, limit := range []int{0, record.HeaderSize, 1000, 1 << 20} {
			plain, err := b.Decompress(nil, limit)
			if err != nil {
				require.True(t, errors.Is(err, record.ErrSize) || errors.Is(err, record.ErrCorrupt), "%v", err)
				continue
			}
			require.LessOrEqual(t, len(plain.Bytes()), limit)
			parsed, err := record.Parse(plain.Bytes())
			require.NoError(t, err)
			require.Equal(t, plain.Header(), parsed.Header())

			again, err := b.Decompress(bytes.Repeat([]byte{0xAA}, 2000), limit) // what was there before shows nowhere
			require.NoError(t, err)
			require.Equal(t, plain.Bytes(), again.Bytes())
		}
	})
}
