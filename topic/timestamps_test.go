package topic_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/internal/vfs/vfstest"
	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/partition"
	"github.com/ottlalog/ottla/record"
	"github.com/ottlalog/ottla/topic"
)

func TestTimestampsSurviveAReopening(t *testing.T) {
	mem := vfs.NewMem(vfstest.HostDir(t))
	h := open(t, mem, topic.Options{})
	cfg := small(1)
	_, err := h.Create(t.Context(), "created", cfg)
	require.NoError(t, err)
	cfg.Timestamps = topic.LogAppendTime
	_, err = h.Create(t.Context(), "appended", cfg)
	require.NoError(t, err)
	long := time.UnixMilli(-5)
	before := time.Now().Truncate(time.Millisecond)
	for range 2 {
		p := producer(t, h, topic.ProducerConfig{})
		for _, name := range []string{"created", "appended"} {
			one, err := p.Send(t.Context(), name, record.Record{Time: long})
			require.NoError(t, err)
			many, err := p.SendBatch(t.Context(), name, []record.Record{{Time: long}})
			require.NoError(t, err)
			require.NoError(t, p.SendAsync(t.Context(), name, record.Record{Time: long}, func(res topic.Result, err error) {
				many = append(many, res)
			}))
			require.NoError(t, p.Flush(t.Context()))
			tp, err := h.Topic(name)
			require.NoError(t, err)
			require.Equal(t, name == "appended", tp.Config().Timestamps == topic.LogAppendTime)
			r, err := tp.Partition(0).NewReader(partition.At(one.Offset))
			require.NoError(t, err)
			for _, res := range append([]topic.Result{one}, many...) { // a result tells what a reader sees
				rec, err := r.Next(t.Context())
				require.NoError(t, err)
				require.True(t, rec.Time.Equal(res.Time))
				require.Equal(t, name == "created", res.Time.Equal(long))
				require.Equal(t, name == "appended", !res.Time.Before(before))
			}
			require.NoError(t, r.Close())
		}
		require.NoError(t, h.Close())
		h = open(t, mem, topic.Options{})
	}
}

func TestFarFutureIsRefusedInEveryWayOfSending(t *testing.T) {
	mem := vfs.NewMem(vfstest.HostDir(t))
	h := open(t, mem, topic.Options{})
	cfg := small(2)
	cfg.MaxTimestampAhead = time.Hour
	_, err := h.Create(t.Context(), "a", cfg)
	require.NoError(t, err)
	require.NoError(t, h.Close())
	h = open(t, mem, topic.Options{}) // the setting is kept

	p := producer(t, h, topic.ProducerConfig{Partitioner: topic.Explicit()})
	far := record.Record{Time: time.Now().Add(2 * time.Hour)}
	near := record.Record{Time: time.Now().Add(time.Minute), Partition: 1}
	requireRefused := func(err error) {
		t.Helper()
		var te *log.TimestampError
		require.ErrorAs(t, err, &te)
		require.ErrorIs(t, err, log.ErrTimestamp)
		require.ErrorContains(t, err, `topic "a"`)
	}
	_, err = p.Send(t.Context(), "a", far)
	requireRefused(err)
	var se *partition.SendError
	require.ErrorAs(t, err, &se)
	require.Equal(t, partition.NotStored, se.Outcome)
	requireRefused(p.SendAsync(t.Context(), "a", far, nil))
	results, err := p.SendBatch(t.Context(), "a", []record.Record{{Time: near.Time}, near, far})
	requireRefused(err)
	requireRefused(results[0].Err) // its batch is stored whole or not at all
	requireRefused(results[2].Err)
	require.NoError(t, results[1].Err)
	tp, err := h.Topic("a")
	require.NoError(t, err)
	require.Zero(t, tp.Partition(0).EndOffset())
	require.EqualValues(t, 1, tp.Partition(1).EndOffset())
}

// Without a limit any time is stored as it is.
func TestAnyTimeByDefault(t *testing.T) {
	h := open(t, vfs.NewMem(vfstest.HostDir(t)), topic.Options{})
	for name, ahead := range map[string]time.Duration{"default": 0, "off": -1} {
		cfg := small(1)
		cfg.MaxTimestampAhead = ahead
		_, err := h.Create(t.Context(), name, cfg)
		require.NoError(t, err)
		for _, ms := range []int64{math.MinInt64, -1, 0, math.MaxInt64} {
			res, err := producer(t, h, topic.ProducerConfig{}).Send(t.Context(), name, record.Record{Time: time.UnixMilli(ms)})
			require.NoError(t, err)
			require.Equal(t, ms, res.Time.UnixMilli())
		}
	}
}

func TestTimestampsAsText(t *testing.T) {
	for _, ts := range []topic.Timestamps{topic.CreateTime, topic.LogAppendTime} {
		b, err := json.Marshal(ts)
		require.NoError(t, err)
		var back topic.Timestamps
		require.NoError(t, json.Unmarshal(b, &back))
		require.Equal(t, ts, back)
	}
	var ts topic.Timestamps
	require.Error(t, json.Unmarshal([]byte(`"yesterday"`), &ts))
	_, err := json.Marshal(topic.Timestamps(9))
	require.Error(t, err)
	h := open(t, vfs.NewMem(vfstest.HostDir(t)), topic.Options{})
	_, err = h.Create(t.Context(), "a", topic.Config{Timestamps: 9})
	require.ErrorIs(t, err, topic.ErrInvalidTopic)
}
