package record_test

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/record"
)

// sample is a batch with a bit of everything.
func sample(tb testing.TB) []byte {
	return encode(tb, record.HeaderAt(1000, 3), []record.Record{
		{Key: []byte("key"), Value: make([]byte, 70)},
		{Value: []byte{}, Headers: []record.Header{{Key: "a", Value: []byte("1")}, {Key: "a"}}},
	})
}

func clone(b []byte) []byte { return append([]byte(nil), b...) }

// sign makes the length and the checksum of damaged bytes right.
func sign(b []byte) []byte {
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

func TestEveryBitFlipIsNoticed(t *testing.T) {
	good := sample(t)
	for bit := 17 * 8; bit < len(good)*8; bit++ { // from the checksum on
		bad := clone(good)
		bad[bit/8] ^= 1 << (bit % 8)
		_, err := record.Parse(bad)
		require.Equal(t, record.StageCRC, stageOf(t, err), "bit %d", bit)
	}
	for bit := 16 * 8; bit < 17*8; bit++ { // the magic
		bad := clone(good)
		bad[16] ^= 1 << (bit % 8)
		_, err := record.Parse(bad)
		require.ErrorIs(t, err, record.ErrMagic)
		require.ErrorIs(t, err, record.ErrCorrupt)
	}
	for bit := 8 * 8; bit < 12*8; bit++ { // the length
		bad := clone(good)
		bad[bit/8] ^= 1 << (bit % 8)
		_, err := record.Parse(bad)
		require.Error(t, err)
	}
}

func TestEveryCutIsIncomplete(t *testing.T) {
	good := sample(t)
	for n := range good {
		_, err := record.Parse(good[:n])
		require.Equal(t, record.ErrIncomplete, err, "%d bytes", n)
		_, err = record.ParseHeader(good[:n])
		require.Equal(t, n < record.HeaderSize, err == record.ErrIncomplete, "%d bytes", n)
	}
}

func TestHeaderMustMakeSense(t *testing.T) {
	for name, damage := range map[string]func(b []byte){
		"base offset negative":     func(b []byte) { b[0] = 0x80 },
		"last offset out of range": func(b []byte) { record.SetBase(b, 1<<63-2, 0) },
		"last offset delta":        func(b []byte) { b[23] = 0x80 },
		"count":                    func(b []byte) { b[57] = 0x80 },
		"codec 5":                  func(b []byte) { b[22] = 5 },
		"codec 7 with other flags": func(b []byte) { b[22] = 0x3f },
	} {
		b := sample(t)
		damage(b)
		_, err := record.Parse(sign(b))
		require.Equal(t, record.StageHeader, stageOf(t, err), name)
	}
	b := sample(t)
	record.SetBase(b, 1<<63-3, 0)
	batch, err := record.Parse(b)
	require.NoError(t, err)
	require.Equal(t, int64(1<<63-1), batch.Header().NextOffset())
}

// The offsets of records rise within the batch, or a reader that goes on at the last one plus one could turn in circles.
func TestOffsetsMustRise(t *testing.T) {
	for _, deltas := range [][]byte{{0, 0}, {2, 0}, {2, 2}, {0, 4}, {1, 2}} { // zigzag: 1 is -1
		b := encode(t, record.HeaderAt(0, 0), plain(2, 1))
		size := int(b[61]>>1) + 1
		b[61+3], b[61+size+3] = deltas[0], deltas[1]
		batch, err := record.Parse(sign(b))
		require.NoError(t, err)
		require.Equal(t, record.StageRecords, stageOf(t, batch.Validate()), "%v", deltas)
	}
}

func TestZerosAreNoBatch(t *testing.T) {
	zeros := make([]byte, 4096)
	for n := range 200 {
		require.True(t, record.IsZero(zeros[:n]))
		_, err := record.Parse(zeros[:n])
		require.Error(t, err)
		require.Equal(t, n > 16, err != record.ErrIncomplete)
		for at := range n {
			zeros[at] = 1
			require.False(t, record.IsZero(zeros[:n]))
			zeros[at] = 0
		}
	}
}

func TestSetBase(t *testing.T) {
	b := sample(t)
	record.SetBase(b, 1<<40, 9)
	batch, err := record.Parse(b)
	require.NoError(t, err)
	require.NoError(t, batch.Validate())
	require.Equal(t, int64(1<<40), batch.Header().BaseOffset)
	require.Equal(t, int32(9), batch.Header().LeaderEpoch)
	require.Equal(t, int64(1<<40+1), decode(t, batch)[1].Offset)
}

// Damage with a good checksum: whatever the bytes say, reading ends with records or an error.
func TestSignedDamageNeverPanics(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	good := sample(t)
	for range 5_000 {
		bad := clone(good)
		for range 1 + rnd.IntN(4) {
			bad[21+rnd.IntN(len(bad)-21)] = byte(rnd.Uint32())
		}
		requireSound(t, sign(bad))
	}
}

const soundLimit = 1 << 20

// requireSound reads what it can of b and checks what must hold of everything that is read.
func requireSound(t *testing.T, b []byte) {
	batch, err := record.Parse(b)
	if err != nil {
		if err != record.ErrIncomplete {
			require.ErrorIs(t, err, record.ErrCorrupt)
		}
		return
	}
	batch, err = batch.Decompress(nil, soundLimit)
	if errors.Is(err, record.ErrSize) {
		return
	}
	h := batch.Header()
	if err == nil {
		require.LessOrEqual(t, h.Size(), max(soundLimit, len(b)))
		err = batch.Validate()
		requireIteratorAgrees(t, batch, err)
	}
	if err != nil {
		require.Equal(t, record.StageRecords, stageOf(t, err))
		return
	}
	recs := decode(t, batch)
	require.Len(t, recs, int(h.Count))
	next := h.BaseOffset
	for i := range recs {
		require.GreaterOrEqual(t, recs[i].Offset, next)
		next = recs[i].Offset + 1
	}
	require.LessOrEqual(t, next, h.NextOffset())

	again, err := record.Parse(replan(t, h, recs))
	require.NoError(t, err)
	back := decode(t, again)
	require.Len(t, back, len(recs))
	for i := range recs {
		require.Equal(t, recs[i], back[i])
	}
}
