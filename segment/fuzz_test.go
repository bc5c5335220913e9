package segment

import (
	"encoding/binary"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"
)

// FuzzIndex puts bytes in the place of an index file, as they come and once more with checksums and all else made right that
// tells a good one. The first are never believed; nothing ends in a panic.
func FuzzIndex(f *testing.F) {
	mem := newMem(f)
	s := create(f, mem, 0, options)
	fill(f, s, rngFor(6), 60, clocks["interleaved"](rngFor(6)))
	require.NoError(f, s.Seal())
	path := indexPath(s.Path())
	good := readFile(f, mem, path)
	f.Add(good)
	f.Add(good[:indexHeaderSize])
	f.Add([]byte("OTIX"))
	lookups := func() (places []Place, err error) {
		sealed := OpenSealed(mem, dir, 0, s.Size(), s.Next())
		_, _, err = sealed.LookupTime(0)
		for offset := int64(0); offset < s.Next() && err == nil; offset += 7 {
			var at Place
			at, err = sealed.Lookup(offset)
			places = append(places, at)
		}
		return places, err
	}
	want, err := lookups()
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, b []byte) {
		writeFile(t, mem, path, b)
		_, _ = ReadIndex(mem, path)
		got, err := lookups()
		require.NoError(t, err)
		require.Equal(t, want, got)

		writeFile(t, mem, path, signIndex(b, coverOf(t, s)))
		x, err := ReadIndex(mem, path)
		require.NoError(t, err)
		require.Equal(t, s.Size(), x.End)
		_, _ = lookups()
	})
}

// signIndex makes an index file of b that covers c, whatever its entries say.
func signIndex(b []byte, c covered) []byte {
	le := binary.LittleEndian
	n := max(0, len(b)-indexHeaderSize) / indexEntrySize
	out := encodeIndex(c, &part{entries: make([]entry, n)})
	if n > 0 {
		copy(out[indexHeaderSize:len(out)-8], b[indexHeaderSize:])
	}
	le.PutUint64(out[len(out)-8:], xxhash.Sum64(out[indexHeaderSize:len(out)-8]))
	return out
}
