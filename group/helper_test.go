package group

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ottlalog/ottla/internal/journal"
	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/internal/vfs/vfstest"
	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/record"
	"github.com/ottlalog/ottla/topic"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// house is a broker without the roof.
type house struct {
	t       testing.TB
	fs      vfs.FS
	dir     string
	opts    Options
	journal *journal.Journal
	topics  *topic.Set
	groups  *Set
	owners  *recorder
	log     *syncBuffer
}

func newHouse(t testing.TB) *house {
	return newHouseOn(t, vfs.NewMem(vfstest.HostDir(t)), "data", Options{Sync: log.SyncNever})
}

func newHouseOn(t testing.TB, fs vfs.FS, dir string, opts Options) *house {
	h := &house{t: t, fs: fs, dir: dir, opts: opts}
	require.NoError(t, fs.MkdirAll(dir))
	h.open()
	t.Cleanup(h.close)
	return h
}

func (h *house) open() {
	j, _, err := journal.Open(h.fs, h.dir, journal.Options{})
	if err != nil {
		j, err = journal.Create(h.fs, h.dir, journal.Options{})
	}
	require.NoError(h.t, err)
	h.journal = j
	h.topics, err = topic.Open(h.fs, h.dir, j, topic.Options{Sync: h.opts.Sync})
	require.NoError(h.t, err)
	h.log = &syncBuffer{}
	h.owners = &recorder{t: h.t, owner: make(map[string]string)}
	opts := h.opts
	opts.Logger = slog.New(slog.NewTextHandler(h.log, nil))
	opts.trace = h.owners.trace
	h.groups, err = Open(j, h.topics, opts)
	require.NoError(h.t, err)
}

func (h *house) close() {
	assert.NoError(h.t, h.groups.Close())
	assert.NoError(h.t, h.topics.Close())
	assert.NoError(h.t, h.journal.Close())
}

// reopen is a restart of the process. Members that weren't closed commit nothing.
func (h *house) reopen() {
	h.close()
	h.open()
}

func (h *house) topic(name string, partitions int) *topic.Topic {
	t, err := h.topics.Create(context.Background(), name, topic.Config{Partitions: partitions, SegmentBytes: 4 << 10})
	require.NoError(h.t, err)
	return t
}

// produce appends n records to one partition, whose values tell their offsets.
func (h *house) produce(name string, partition, n int) {
	t, err := h.topics.Topic(name)
	require.NoError(h.t, err)
	p := t.Partition(partition)
	for range n {
		v := fmt.Sprintf("%s-%d@%d", name, partition, p.EndOffset())
		_, err := p.Append(context.Background(), []record.Record{{Value: []byte(v)}})
		require.NoError(h.t, err)
	}
}

func (h *house) join(group string, cfg MemberConfig) *Member {
	m, err := h.groups.Group(group).Join(context.Background(), cfg)
	require.NoError(h.t, err)
	return m
}

func (h *house) committed(group, name string, partition int) int64 {
	offset, ok := h.groups.Group(group).Committed(name, partition)
	if !ok {
		return -1
	}
	return offset
}

// poll polls for as long as records keep coming.
func (h *house) poll(m *Member) (recs []record.Record) {
	h.t.Helper()
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		got, err := m.Poll(ctx)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			return recs
		}
		require.NoError(h.t, err)
		require.NotEmpty(h.t, got)
		recs = append(recs, got...)
	}
}

// pollOnce expects records.
func (h *house) pollOnce(m *Member) []record.Record {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	recs, err := m.Poll(ctx)
	require.NoError(h.t, err)
	return recs
}

// places names records, "topic-partition@offset".
func places(recs []record.Record) (out []string) {
	for _, r := range recs {
		out = append(out, fmt.Sprintf("%s-%d@%d", r.Topic, r.Partition, r.Offset))
	}
	return out
}

func names(tps []TopicPartition) string {
	var out []string
	for _, tp := range tps {
		out = append(out, tp.String())
	}
	return strings.Join(out, " ")
}

// recorder fails the test when a partition has two owners.
type recorder struct {
	t     testing.TB
	mu    sync.Mutex
	owner map[string]string
	moves int
}

func (r *recorder) trace(group string, s *slot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := fmt.Sprintf("%s/%s/%s", group, s.topicID, s.tp)
	if was := r.owner[key]; was != "" && s.owner != "" {
		r.t.Errorf("%s has two owners: %s and %s", key, was, s.owner)
	}
	r.moves++
	if r.owner[key] = s.owner; s.owner == "" {
		delete(r.owner, key)
	}
}

// moved counts the changes of owners.
func (r *recorder) moved() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.moves
}

// owned counts the partitions that have an owner.
func (r *recorder) owned() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.owner)
}

type syncBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// inBubble runs a test in virtual time.
func inBubble(t *testing.T, test func(t *testing.T, h *house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newHouse(t)) })
}

// within returns a context that ends by itself.
func within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	context.AfterFunc(ctx, cancel)
	return ctx
}

// quiet lets the members given poll, without expecting records, until nothing changes any more.
func quiet(t testing.TB, members ...*Member) {
	for range 4 {
		var wg sync.WaitGroup
		for _, m := range members {
			wg.Go(func() {
				if _, err := m.Poll(within(30 * time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
					assert.NoError(t, err)
				}
			})
		}
		wg.Wait()
	}
}

func goexit() { runtime.Goexit() }
