package log_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/record"
)

// codecHeader asks for no codec, or one of the codecs, in turn.
func codecHeader(n int) record.BatchHeader {
	h := record.HeaderAt(0, 0)
	h.Attributes = record.Attributes(n % (int(record.CodecZstd) + 1))
	return h
}

// alike returns n records that become smaller together.
func alike(base int64, n int) []record.Record {
	recs := make([]record.Record, n)
	for i := range recs {
		recs[i] = record.Record{Value: []byte(strings.Repeat(fmt.Sprintf("<%d>", base+int64(i)), 20)), Time: time.UnixMilli(base + int64(i))}
	}
	return recs
}

// batches reads all batches of a log, uncompressed, and how they are stored.
func batches(t *testing.T, l *log.Log) (plain []record.Record, stored []record.BatchHeader) {
	t.Helper()
	r, err := l.NewReader(l.Start())
	require.NoError(t, err)
	defer r.Close()
	for {
		b, err := r.Next(l.Stable().Load())
		if err == io.EOF {
			return plain, stored
		}
		require.NoError(t, err)
		stored = append(stored, b.Header())
		b, err = l.Decompress(b, nil)
		require.NoError(t, err)
		it := b.Records()
		for rec := (record.Record{}); it.Next(&rec); rec = (record.Record{}) {
			plain = append(plain, rec.Clone())
		}
		require.NoError(t, it.Err())
	}
}

func TestCompressedBatches(t *testing.T) {
	mem := newMem(t)
	l := open(t, mem, small)
	size := func() int64 { return l.Size() }
	var sizes []int64
	for n := range 50 {
		before := size()
		h := codecHeader(n)
		h.LeaderEpoch, h.ProducerID = 3, 9
		at, err := l.Append(h, alike(l.End(), 10))
		require.NoError(t, err)
		require.EqualValues(t, n*10, at.Base)
		sizes = append(sizes, size()-before)
	}
	require.NoError(t, l.Sync(t.Context(), l.End()))
	check := func() {
		t.Helper()
		recs, stored := batches(t, l)
		require.Len(t, stored, 50)
		require.Len(t, recs, 500)
		for i, rec := range recs {
			require.EqualValues(t, i, rec.Offset)
			require.EqualValues(t, i, rec.Time.UnixMilli())
			require.Equal(t, alike(int64(i), 1)[0].Value, rec.Value)
		}
		for n, h := range stored {
			require.Equal(t, codecHeader(n).Attributes, h.Attributes)
			require.Equal(t, int32(3), h.LeaderEpoch)
			require.Equal(t, int64(9), h.ProducerID)
			require.EqualValues(t, sizes[n], h.Size())
			if h.Attributes.Codec() != record.CodecNone {
				require.Less(t, sizes[n], sizes[0]/2)
			}
		}
		for ms := range int64(500) {
			offset, _, ok, err := l.OffsetForTime(ms, 500)
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, ms, offset)
		}
	}
	check()
	crashed := mem.Kill() // recovered by a scan
	l = open(t, crashed, small)
	check()
	require.NoError(t, l.Close())
	l = open(t, crashed, small)
	check()
}

func TestWhatDoesNotGetSmallerIsStoredAsItIs(t *testing.T) {
	l := open(t, newMem(t), log.Config{SegmentBytes: 1 << 20})
	rnd := rand.New(rand.NewPCG(1, 1))
	noise := make([]byte, 10_000)
	for i := range noise {
		noise[i] = byte(rnd.Uint32())
	}
	for n := range 10 {
		_, err := l.Append(codecHeader(n), []record.Record{{Value: noise}})
		require.NoError(t, err)
		_, err = l.Append(codecHeader(n), []record.Record{{Value: []byte("short")}})
		require.NoError(t, err)
	}
	require.NoError(t, l.Sync(t.Context(), l.End()))
	_, stored := batches(t, l)
	require.Len(t, stored, 20)
	for _, h := range stored {
		require.Equal(t, record.CodecNone, h.Attributes.Codec())
	}
}

// The limit to what a batch may become is that of the records, with much to spare. Batches beyond it aren't compressed, and
// not decompressed where they come from elsewhere.
func TestDecompressionIsLimited(t *testing.T) {
	mem := newMem(t)
	l := open(t, mem, log.Config{MaxRecordBytes: 65 << 20})
	for _, recs := range [][]record.Record{{{Value: make([]byte, 65<<20)}}, alike(1, 10)} {
		_, err := l.Append(codecHeader(4), recs)
		require.NoError(t, err)
	}
	require.NoError(t, l.Close())
	l = open(t, mem, log.Config{})
	r, err := l.NewReader(0)
	require.NoError(t, err)
	defer r.Close()
	b, err := r.Next(l.End())
	require.NoError(t, err)
	require.Less(t, len(b.Bytes()), 1<<20)
	_, err = l.Decompress(b, nil)
	require.ErrorIs(t, err, record.ErrSize)
	b, err = r.Next(l.End())
	require.NoError(t, err)
	_, err = l.Decompress(b, nil)
	require.NoError(t, err)

	l = open(t, newMem(t), log.Config{})
	many := make([]record.Record, 9)
	for i := range many {
		many[i].Value = bytes.Repeat([]byte{1}, 8<<20)
	}
	_, err = l.Append(codecHeader(4), many)
	require.NoError(t, err)
	require.NoError(t, l.Sync(t.Context(), l.End()))
	_, stored := batches(t, l)
	require.Equal(t, record.CodecNone, stored[0].Attributes.Codec())
}
