package topic_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/internal/vfs/vfstest"
	"github.com/ottlalog/ottla/partition"
	"github.com/ottlalog/ottla/record"
	"github.com/ottlalog/ottla/topic"
)

var compressions = []topic.Compression{topic.None, topic.Gzip, topic.Snappy, topic.Lz4, topic.Zstd}

// page returns records that become much smaller together: 100 of about 200 bytes.
func page() []record.Record {
	recs := make([]record.Record, 100)
	for i := range recs {
		recs[i] = record.Record{Time: time.UnixMilli(int64(i)), Value: []byte(strings.Repeat(fmt.Sprintf("line %d, ", i), 20))}
	}
	return recs
}

// plainSize is about what a page takes uncompressed.
const plainSize = 15_000

func requirePage(t *testing.T, p *partition.Partition, from int) {
	t.Helper()
	got := values(t, p)[from:]
	require.Len(t, got, 100)
	for i, r := range page() {
		require.Equal(t, string(r.Value), got[i])
	}
}

func TestCompressionOfTopicsSurvivesAReopening(t *testing.T) {
	mem := vfs.NewMem(vfstest.HostDir(t))
	h := open(t, mem, topic.Options{})
	sizes := map[topic.Compression]int64{}
	for _, c := range compressions {
		tp, err := h.Create(t.Context(), c.String(), topic.Config{SegmentBytes: 64 << 10, Compression: c})
		require.NoError(t, err)
		require.Equal(t, c, tp.Config().Compression)
		_, err = producer(t, h, topic.ProducerConfig{}).SendBatch(t.Context(), c.String(), page())
		require.NoError(t, err)
		sizes[c] = tp.Partition(0).Size()
		require.Equal(t, c != topic.None, sizes[c] < plainSize/3, "%v: %d bytes", c, sizes[c])
	}
	plain, err := h.Create(t.Context(), "default", small(1))
	require.NoError(t, err)
	require.Equal(t, topic.None, plain.Config().Compression)
	require.NoError(t, h.Close())

	h = open(t, mem, topic.Options{})
	for _, c := range compressions {
		tp, err := h.Topic(c.String())
		require.NoError(t, err)
		require.Equal(t, c, tp.Config().Compression)
		requirePage(t, tp.Partition(0), 0)
		_, err = tp.Partition(0).Append(t.Context(), page()) // without a producer
		require.NoError(t, err)
		require.InDelta(t, 2*sizes[c], tp.Partition(0).Size(), 100)
		requirePage(t, tp.Partition(0), 100)
	}
}

func TestCompressionOfProducersComesFirst(t *testing.T) {
	h := open(t, vfs.NewMem(vfstest.HostDir(t)), topic.Options{})
	for _, ofTopic := range compressions {
		for _, ofProducer := range compressions {
			name := fmt.Sprint(ofTopic, "-", ofProducer)
			tp, err := h.Create(t.Context(), name, topic.Config{SegmentBytes: 64 << 10, Compression: ofTopic})
			require.NoError(t, err)
			p := producer(t, h, topic.ProducerConfig{Compression: ofProducer})
			_, err = p.SendBatch(t.Context(), name, page())
			require.NoError(t, err)
			require.Equal(t, ofProducer != topic.None, tp.Partition(0).Size() < plainSize/3, name)
			requirePage(t, tp.Partition(0), 0)
		}
	}
}

func TestEveryWayOfSendingCompresses(t *testing.T) {
	h := open(t, vfs.NewMem(vfstest.HostDir(t)), topic.Options{})
	tp, err := h.Create(t.Context(), "a", topic.Config{SegmentBytes: 64 << 10, Compression: topic.Zstd})
	require.NoError(t, err)
	p := producer(t, h, topic.ProducerConfig{})
	_, err = p.Send(t.Context(), "a", record.Record{Value: make([]byte, plainSize)})
	require.NoError(t, err)
	require.Less(t, tp.Partition(0).Size(), int64(1000))
	require.NoError(t, p.SendAsync(t.Context(), "a", record.Record{Value: make([]byte, plainSize)}, nil))
	require.NoError(t, p.Flush(t.Context()))
	require.Less(t, tp.Partition(0).Size(), int64(2000))
	require.Len(t, values(t, tp.Partition(0)), 2)
}

func TestUnknownCompressionIsRefused(t *testing.T) {
	h := open(t, vfs.NewMem(vfstest.HostDir(t)), topic.Options{})
	_, err := h.Create(t.Context(), "a", topic.Config{Compression: 77})
	require.ErrorIs(t, err, topic.ErrInvalidTopic)
	require.ErrorContains(t, err, "Compression is none of the constants: compression 77")
	_, err = h.NewProducer(topic.ProducerConfig{Compression: 77})
	require.ErrorContains(t, err, "Compression")
}

func TestCompressionAsText(t *testing.T) {
	for _, c := range append([]topic.Compression{0}, compressions...) {
		b, err := json.Marshal(c)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("%q", c), string(b))
		var back topic.Compression
		require.NoError(t, json.Unmarshal(b, &back))
		require.Equal(t, c, back)
	}
	var c topic.Compression
	require.Error(t, json.Unmarshal([]byte(`"brotli"`), &c))
	_, err := json.Marshal(topic.Compression(9))
	require.Error(t, err)
}
