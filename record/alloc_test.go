package record_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/record"
)

func TestWritingAllocatesNothing(t *testing.T) {
	recs := plain(10, 100)
	recs[3].Headers = []record.Header{{Key: "trace", Value: []byte("1")}}
	dst := make([]byte, 4096)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		l, _ := record.Plan(recs, now)
		l.Put(dst, record.HeaderAt(0, 0), recs)
	}))
}

func TestReadingAllocatesNothing(t *testing.T) {
	raw := encode(t, record.HeaderAt(0, 0), plain(10, 100))
	var r record.Record
	require.Zero(t, testing.AllocsPerRun(100, func() {
		b, _ := record.Parse(raw)
		drain(t, b, &r)
		_ = b.Validate()
	}))
}

// The same header keys again and again cost nothing after the first record.
func TestRepeatedHeaderKeysAllocateNothing(t *testing.T) {
	recs := plain(10, 100)
	for i := range recs {
		recs[i].Headers = []record.Header{{Key: "trace", Value: []byte{byte(i)}}, {Key: "span", Value: []byte("1")}}
	}
	b, err := record.Parse(encode(t, record.HeaderAt(0, 0), recs))
	require.NoError(t, err)
	var r record.Record
	drain(t, b, &r)
	require.Zero(t, testing.AllocsPerRun(100, func() { drain(t, b, &r) }))
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = b.Validate() }))
}

// A reused Record gives what a fresh one gives, whatever it held before.
func TestReusedRecord(t *testing.T) {
	recs := []record.Record{
		{Headers: []record.Header{{Key: "a", Value: []byte("1")}, {Key: "b"}}},
		{Headers: []record.Header{{Key: "b", Value: []byte("2")}}},
		{},
		{Headers: []record.Header{{Key: "b"}, {Key: "a"}, {Key: ""}}},
	}
	raw := encode(t, record.HeaderAt(5, 0), recs)
	b, err := record.Parse(raw)
	require.NoError(t, err)
	fresh := decode(t, b)

	r := record.Record{Topic: "t", Partition: 4, Key: []byte("old")}
	it := b.Records()
	for i := range recs {
		require.True(t, it.Next(&r))
		require.Equal(t, "t", r.Topic)
		require.Equal(t, 4, r.Partition)
		require.Nil(t, r.Key)
		require.Equal(t, len(fresh[i].Headers), len(r.Headers))
		for k := range r.Headers {
			require.Equal(t, fresh[i].Headers[k], r.Headers[k])
		}
	}
	require.False(t, it.Next(&r))
	require.NoError(t, it.Err())

	clear(raw) // keys of headers are the caller's, values are not
	require.Equal(t, "a", fresh[0].Headers[0].Key)
	require.Equal(t, []byte{0}, fresh[0].Headers[0].Value)
}
