package record_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/record"
)

const now = 1_700_000_000_000

// zeroTime is the timestamp of the zero time.Time: the one that a new record can't have.
const zeroTime = -62135596800000

// randomRecords makes up records; edges of every kind come often.
func randomRecords(rnd *rand.Rand) []record.Record {
	recs := make([]record.Record, 1+rnd.IntN([]int{1, 3, 130}[rnd.IntN(3)]))
	for i := range recs {
		recs[i] = record.Record{
			Offset: int64(i),
			Time:   record.TimeOf(randomMillis(rnd)),
			Key:    randomBytes(rnd),
			Value:  randomBytes(rnd),
		}
		for range rnd.IntN(4) * rnd.IntN(2) {
			key := []string{"", "a", "trace", "\xff\x00", string(randomBytes(rnd))}[rnd.IntN(5)]
			recs[i].Headers = append(recs[i].Headers, record.Header{Key: key, Value: randomBytes(rnd)})
		}
	}
	return recs
}

func randomMillis(rnd *rand.Rand) int64 {
	edges := []int64{math.MinInt64, math.MinInt64 + 1, zeroTime + 1, -1, 0, 1, now, now + 63, now + 64, math.MaxInt64}
	switch rnd.IntN(4) {
	case 0:
		return edges[rnd.IntN(len(edges))]
	case 1:
		return int64(rnd.Uint64()) >> rnd.IntN(64)
	}
	return now + rnd.Int64N(20_000) - 10_000
}

func randomBytes(rnd *rand.Rand) []byte {
	sizes := []int{0, 0, 1, 10, 63, 64, 100, 8191, 8192}
	n := rnd.IntN(len(sizes) + 1)
	if n == len(sizes) {
		return nil
	}
	b := make([]byte, sizes[n])
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return b
}

func TestRandomRecordsComeBack(t *testing.T) {
	for seed := range uint64(150) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		recs := randomRecords(rnd)
		h := record.BatchHeader{
			BaseOffset: rnd.Int64N(math.MaxInt64 - 1000), LeaderEpoch: rnd.Int32(), ProducerID: rnd.Int64(),
			ProducerEpoch: int16(rnd.Int32()), BaseSequence: rnd.Int32(), Attributes: record.FlagTransactional,
		}
		requireRoundTrip(t, h, recs)
	}
}

func requireRoundTrip(t *testing.T, h record.BatchHeader, recs []record.Record) {
	t.Helper()
	l, err := record.Plan(recs, now)
	require.NoError(t, err)

	const guard = 0xAA
	buf := bytes.Repeat([]byte{guard}, l.Size+64)
	l.Put(buf, h, recs)
	require.Equal(t, bytes.Repeat([]byte{guard}, 64), buf[l.Size:], "Put wrote beyond its size")

	b, err := record.Parse(buf)
	require.NoError(t, err)
	require.NoError(t, b.Validate())
	require.Len(t, b.Bytes(), l.Size)

	got := b.Header()
	want := h
	want.Length, want.CRC = int32(l.Size-12), got.CRC
	want.Count, want.LastOffsetDelta = int32(len(recs)), int32(len(recs)-1)
	want.BaseTimestamp, want.MaxTimestamp = record.Millis(recs[0].Time, now), math.MinInt64
	var largest int
	for i := range recs {
		want.MaxTimestamp = max(want.MaxTimestamp, record.Millis(recs[i].Time, now))
		alone, err := record.Plan(recs[i:i+1], now)
		require.NoError(t, err)
		largest = max(largest, alone.Size-record.HeaderSize)
	}
	require.Equal(t, want, got)
	require.Equal(t, []int64{got.BaseTimestamp, got.MaxTimestamp}, []int64{l.BaseTimestamp, l.MaxTimestamp})
	require.GreaterOrEqual(t, l.LargestSize, largest) // in the batch its deltas may take more bytes

	back := decode(t, b)
	require.Len(t, back, len(recs))
	for i := range recs {
		require.Equal(t, h.BaseOffset+int64(i), back[i].Offset)
		require.Equal(t, record.Millis(recs[i].Time, now), back[i].Time.UnixMilli())
		requireSameBytes(t, recs[i].Key, back[i].Key)
		requireSameBytes(t, recs[i].Value, back[i].Value)
		require.Equal(t, recs[i].Headers, back[i].Headers)
	}
	require.Equal(t, buf[:l.Size], replan(t, got, back), "decoding and planning anew changed the bytes")
}

func requireSameBytes(t *testing.T, want, got []byte) {
	t.Helper()
	require.Equal(t, want == nil, got == nil)
	require.True(t, bytes.Equal(want, got))
}

func TestLargestRecord(t *testing.T) {
	recs := []record.Record{{}, {Value: make([]byte, 50)}, {Value: make([]byte, 70)}, {Value: make([]byte, 70)}, {}}
	l, err := record.Plan(recs, now)
	require.NoError(t, err)
	require.Equal(t, 2, l.LargestRecord)
	require.Equal(t, 2+1+1+1+1+2+70+1, l.LargestSize)
}

func TestPlanRefuses(t *testing.T) {
	_, err := record.Plan(nil, now)
	require.ErrorIs(t, err, record.ErrEmpty)

	for _, at := range []time.Time{
		time.Unix(math.MaxInt64/1000, 808e6), time.Unix(math.MaxInt64/1000+1, 0), time.Unix(math.MaxInt64, 0),
		time.Unix(math.MinInt64/1000-1, 191e6), time.Unix(math.MinInt64/1000-2, 0), time.Unix(math.MinInt64, 0),
	} {
		l, err := record.Plan([]record.Record{{}, {Time: at}}, now)
		require.ErrorIs(t, err, record.ErrTime, "%v", at)
		require.ErrorContains(t, err, "record 1")
		_, err = record.Plan([]record.Record{{Time: at}}, now)
		require.ErrorIs(t, err, record.ErrTime)
		require.Zero(t, l.Size)
	}
}

// One large slice stands in many times for memory that the test need not have.
func TestPlanRefusesTooLarge(t *testing.T) {
	mib := make([]byte, 1<<20)
	name := string(mib)
	batch := make([]record.Record, 2048)
	headers := make([]record.Header, 2048)
	for i := range batch {
		batch[i].Value = mib
		headers[i] = record.Header{Key: name}
	}
	_, err := record.Plan(batch, now)
	require.ErrorIs(t, err, record.ErrTooLarge)
	require.ErrorContains(t, err, "record 2047")
	_, err = record.Plan(batch[:2040], now)
	require.NoError(t, err)

	_, err = record.Plan([]record.Record{{Headers: headers}}, now)
	require.ErrorIs(t, err, record.ErrTooLarge)
	for i := range headers {
		headers[i] = record.Header{Value: mib}
	}
	_, err = record.Plan([]record.Record{{}, {Headers: headers}}, now)
	require.ErrorIs(t, err, record.ErrTooLarge)
	require.ErrorContains(t, err, "record 1")
}

func TestReplan(t *testing.T) {
	old := record.HeaderAt(100, 7)
	old.LastOffsetDelta, old.BaseTimestamp, old.MaxTimestamp = 9, now, now+50
	keep := []record.Record{{Offset: 103, Time: record.TimeOf(now + 3)}, {Offset: 107, Time: record.TimeOf(zeroTime)}}

	b, err := record.Parse(replan(t, old, keep))
	require.NoError(t, err)
	require.Equal(t, int64(110), b.Header().NextOffset())
	require.Equal(t, int64(now), b.Header().BaseTimestamp)
	require.Equal(t, int64(now+3), b.Header().MaxTimestamp)
	require.Equal(t, keep[0], decode(t, b)[0])
	require.Equal(t, keep[1].Time.UnixMilli(), decode(t, b)[1].Time.UnixMilli(), "kept, not taken for now")

	b, err = record.Parse(replan(t, old, nil))
	require.NoError(t, err)
	require.NoError(t, b.Validate())
	require.Equal(t, record.HeaderSize, len(b.Bytes()))
	require.Equal(t, int64(110), b.Header().NextOffset())
	require.Equal(t, old.MaxTimestamp, b.Header().MaxTimestamp)

	for _, offsets := range [][]int64{{99}, {110}, {105, 105}, {105, 104}} {
		var recs []record.Record
		for _, o := range offsets {
			recs = append(recs, record.Record{Offset: o})
		}
		_, err := record.Replan(old, recs)
		require.ErrorIs(t, err, record.ErrOffset, "%v", offsets)
	}
}

func TestPutPanicsWhenRecordsChanged(t *testing.T) {
	recs := plain(2, 10)
	l, err := record.Plan(recs, now)
	require.NoError(t, err)
	dst := make([]byte, 1000)
	require.Panics(t, func() { l.Put(dst, record.HeaderAt(0, 0), recs[:1]) })
	require.Panics(t, func() { l.Put(dst, record.HeaderAt(0, 0), append(recs, recs...)) })
	require.Panics(t, func() { l.Put(dst[:l.Size-1], record.HeaderAt(0, 0), recs) })
	recs[1].Value = recs[1].Value[:9]
	require.Panics(t, func() { l.Put(dst, record.HeaderAt(0, 0), recs) })
	recs[1].Value, recs[1].Headers = nil, []record.Header{{Value: make([]byte, 300)}}
	require.Panics(t, func() { l.Put(dst, record.HeaderAt(0, 0), recs) })
	recs[1].Value, recs[1].Headers = make([]byte, 11), nil
	require.Panics(t, func() { l.Put(dst, record.HeaderAt(0, 0), recs) })
}

func TestPutLeavesRecordsUncompressed(t *testing.T) {
	h := record.HeaderAt(0, 0)
	h.Attributes = record.FlagControl | record.Attributes(record.CodecZstd)
	b, err := record.Parse(encode(t, h, []record.Record{{Key: make([]byte, 4)}}))
	require.NoError(t, err)
	require.NoError(t, b.Validate())
	require.Equal(t, record.FlagControl, b.Header().Attributes)
}

func TestLogAppendTime(t *testing.T) {
	h := record.HeaderAt(0, 0)
	h.Attributes, h.MaxTimestamp = record.FlagLogAppendTime, now+5000
	b, err := record.Parse(encode(t, h, plain(3, 1)))
	require.NoError(t, err)
	for _, r := range decode(t, b) {
		require.Equal(t, int64(now+5000), r.Time.UnixMilli())
	}
}

func TestMillis(t *testing.T) {
	for _, ms := range []int64{
		math.MinInt64, math.MinInt64 + 1, math.MinInt64 + 191, math.MinInt64 + 192, math.MinInt64 + 193, zeroTime - 1,
		zeroTime + 1, -1001, -1000, -999, -1, 0, 1, 999, 1000, now, math.MaxInt64 - 808, math.MaxInt64 - 807, math.MaxInt64,
	} {
		require.Equal(t, ms, record.Millis(record.TimeOf(ms), now), "%d", ms)
		_, err := record.Plan([]record.Record{{Time: record.TimeOf(ms)}}, now)
		require.NoError(t, err, "%d", ms)
	}
	require.Equal(t, int64(now), record.Millis(time.Time{}, now))
	require.True(t, record.TimeOf(zeroTime).IsZero())
	require.Equal(t, int64(-1), record.Millis(time.Unix(0, -1), now), "rounded down")
	require.Equal(t, int64(math.MaxInt64), record.Millis(time.Unix(math.MaxInt64/1000, 808e6), now))
	require.Equal(t, int64(math.MinInt64), record.Millis(time.Unix(math.MinInt64/1000-1, 191e6), now))
}

func TestNamesAndFlags(t *testing.T) {
	var names []string
	for c := record.CodecNone; c <= 5; c++ {
		names = append(names, c.String())
	}
	require.Equal(t, []string{"none", "gzip", "snappy", "lz4", "zstd", "codec 5"}, names)
	a := record.FlagDeleteHorizon | record.FlagControl
	require.True(t, a.HasDeleteHorizon() && a.Control())
	require.False(t, a.Transactional() || a.LogAppendTime())
}
