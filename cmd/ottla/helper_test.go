package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ottlalog/ottla"
	"github.com/ottlalog/ottla/record"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		_ = os.RemoveAll(built.dir)
		os.Exit(status)
	}))
}

var ctx = context.Background()

// noon is the time of the first record of a test.
var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// result is how a run of the tool ended.
type result struct {
	status      int
	out, stderr string
}

func ottlaRun(args ...string) result {
	var out, stderr bytes.Buffer
	status := run(ctx, args, strings.NewReader(""), &out, &stderr)
	return result{status, out.String(), stderr.String()}
}

// must runs the tool and returns what it printed.
func must(t *testing.T, status int, args ...string) string {
	t.Helper()
	r := ottlaRun(args...)
	require.Equal(t, status, r.status, "%v\n%s%s", args, r.out, r.stderr)
	if status != statusFailed {
		require.Empty(t, r.stderr, "%v", args)
	}
	return r.out
}

// objects decodes lines of JSON.
func objects(t *testing.T, lines string) (list []map[string]any) {
	t.Helper()
	for line := range strings.Lines(lines) {
		var o map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &o), line)
		require.NotEmpty(t, o["type"], line)
		list = append(list, o)
	}
	return list
}

// ofType returns the objects of one type.
func ofType(list []map[string]any, kind string) (some []map[string]any) {
	for _, o := range list {
		if o["type"] == kind {
			some = append(some, o)
		}
	}
	return some
}

func openBroker(t *testing.T, dir string) *ottla.Broker {
	t.Helper()
	b, err := ottla.Open(dir, ottla.Options{MinFreeBytes: -1})
	require.NoError(t, err)
	return b
}

// batchesOf sends n batches of three records to partition 0 of a topic.
func batchesOf(t *testing.T, b *ottla.Broker, topic string, n int) {
	t.Helper()
	tp, err := b.Topic(topic)
	require.NoError(t, err)
	for range n {
		at := tp.Partition(0).EndOffset()
		var recs []ottla.Record
		for i := range int64(3) {
			recs = append(recs, ottla.Record{
				Time:  noon.Add(time.Duration(at+i) * time.Second),
				Key:   fmt.Appendf(nil, "key %d", at+i),
				Value: fmt.Appendf(nil, "value %d", at+i),
			})
		}
		_, err := tp.Partition(0).Append(ctx, recs)
		require.NoError(t, err)
	}
}

// built is the directory that build copies.
var built struct {
	sync.Once
	dir string
}

// build makes a directory with a topic "orders" of one partition with three segments, which ends in peace, and a topic
// "idle" with nothing in its two partitions.
func build(t *testing.T) (dir string) {
	t.Helper()
	built.Do(func() {
		var err error
		built.dir, err = os.MkdirTemp("", "ottla")
		require.NoError(t, err)
		fillTopics(t, built.dir)
	})
	dir = filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.CopyFS(dir, os.DirFS(built.dir)))
	return dir
}

func fillTopics(t *testing.T, dir string) {
	t.Helper()
	b := openBroker(t, dir)
	_, err := b.CreateTopic(ctx, "orders", ottla.TopicConfig{SegmentBytes: 4096})
	require.NoError(t, err)
	_, err = b.CreateTopic(ctx, "idle", ottla.TopicConfig{Partitions: 2})
	require.NoError(t, err)
	batchesOf(t, b, "orders", 70)
	commit(t, b, 30)
	require.NoError(t, b.Close())
}

// commit has the group "billing" commit a position in orders.
func commit(t *testing.T, b *ottla.Broker, n int) {
	t.Helper()
	m, err := b.Group("billing").Join(ctx, ottla.MemberConfig{Topics: []string{"orders"}, MaxPollRecords: n})
	require.NoError(t, err)
	_, err = m.Poll(ctx)
	require.NoError(t, err)
	require.NoError(t, m.Commit(ctx))
	require.NoError(t, m.Close())
}

// files lists what is in a folder: names, content, mode and time of change.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	list := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		content := []byte(nil)
		if !d.IsDir() {
			content, err = os.ReadFile(path)
		}
		list[path] = fmt.Sprintf("%v %v %x", info.Mode(), info.ModTime().UnixNano(), content)
		return err
	}))
	return list
}

// change rewrites a file.
func change(t *testing.T, path string, how func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, how(b), 0o600))
}

func flip(at int, mask byte) func([]byte) []byte {
	return func(b []byte) []byte {
		b[at] ^= mask
		return b
	}
}

func sizeOf(t *testing.T, path string) int {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return int(info.Size())
}

// stored is a batch in a file.
type stored struct {
	pos, end    int
	first, next int64
}

// batchesIn lists the good batches that a file begins with.
func batchesIn(t *testing.T, path string) (list []stored) {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	for pos := 0; ; pos = list[len(list)-1].end {
		batch, err := record.Parse(b[pos:])
		if err != nil {
			return list
		}
		h := batch.Header()
		list = append(list, stored{pos, pos + h.Size(), h.BaseOffset, h.NextOffset()})
	}
}

// batchAt returns the batch in a file that begins with an offset.
func batchAt(t *testing.T, path string, first int64) stored {
	t.Helper()
	list := batchesIn(t, path)
	i := slices.IndexFunc(list, func(b stored) bool { return b.first == first })
	require.GreaterOrEqual(t, i, 0)
	return list[i]
}

// segments returns the files of batches of orders/0.
func segments(t *testing.T, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "orders-0", "*.log"))
	require.NoError(t, err)
	return list
}

// readAll reads what a partition has, stepping over damage, and returns the offsets, and whether there was damage.
func readAll(t *testing.T, dir string) (offsets []int64, damaged bool) {
	t.Helper()
	b := openBroker(t, dir)
	defer func() { require.NoError(t, b.Close()) }()
	tp, err := b.Topic("orders")
	require.NoError(t, err)
	r, err := tp.Partition(0).NewReader(ottla.Earliest)
	require.NoError(t, err)
	defer r.Close()
	for {
		recs, err := r.Read(nil, 100)
		for _, rec := range recs {
			require.Equal(t, fmt.Sprintf("value %d", rec.Offset), string(rec.Value))
			offsets = append(offsets, rec.Offset)
		}
		if err != nil {
			require.ErrorIs(t, err, ottla.ErrCorrupt)
			damaged = true
			require.NoError(t, r.Skip())
		} else if len(recs) == 0 {
			return offsets, damaged
		}
	}
}
