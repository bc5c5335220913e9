package topic_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ottlalog/ottla/internal/journal"
	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/internal/vfs/vfstest"
	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/partition"
	"github.com/ottlalog/ottla/record"
	"github.com/ottlalog/ottla/topic"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const dir = "data"

// house is a set of topics with the journal beneath it.
type house struct {
	*topic.Set
	journal *journal.Journal
}

func (h house) Close() error {
	if err := h.Set.Close(); err != nil {
		return err
	}
	return h.journal.Close()
}

func open(t testing.TB, fs vfs.FS, opts topic.Options) house {
	t.Helper()
	require.NoError(t, fs.MkdirAll(dir))
	require.NoError(t, fs.SyncDir("."))
	j, _, err := journal.Open(fs, dir, journal.Options{})
	if err != nil {
		j, err = journal.Create(fs, dir, journal.Options{})
	}
	require.NoError(t, err)
	s, err := topic.Open(fs, dir, j, opts)
	require.NoError(t, err)
	h := house{s, j}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

// small keeps the memory of tests small.
func small(partitions int) topic.Config {
	return topic.Config{Partitions: partitions, SegmentBytes: 16 << 10}
}

func create(t testing.TB, h house, name string, partitions int) *topic.Topic {
	t.Helper()
	tp, err := h.Create(t.Context(), name, small(partitions))
	require.NoError(t, err)
	return tp
}

func producer(t testing.TB, h house, cfg topic.ProducerConfig) *topic.Producer {
	t.Helper()
	p, err := h.NewProducer(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// values reads everything that a partition holds.
func values(t testing.TB, p *partition.Partition) (out []string) {
	t.Helper()
	r, err := p.NewReader(partition.Earliest)
	require.NoError(t, err)
	defer r.Close()
	recs, err := r.Read(nil, 1_000_000)
	require.NoError(t, err)
	for i, rec := range recs {
		require.Equal(t, recs[0].Offset+int64(i), rec.Offset, "dense")
		out = append(out, string(rec.Value))
	}
	return out
}

func TestTopicsOutliveTheProcess(t *testing.T) {
	mem := vfs.NewMem(vfstest.HostDir(t))
	h := open(t, mem, topic.Options{})
	a := create(t, h, "a", 3)
	b, err := h.Create(t.Context(), "b", topic.Config{SegmentBytes: 8192, RetentionBytes: 1 << 20, RetentionAge: time.Hour, MaxRecordBytes: 99})
	require.NoError(t, err)
	_, err = h.AddPartitions(t.Context(), "a", 5)
	require.NoError(t, err)
	p := producer(t, h, topic.ProducerConfig{Partitioner: topic.Explicit()})
	_, err = p.Send(t.Context(), "a", record.Record{Partition: 4, Value: []byte("x")})
	require.NoError(t, err)
	require.NoError(t, h.Close())
	require.NoError(t, h.Set.Close(), "closing twice is harmless")

	h = open(t, mem, topic.Options{})
	require.Len(t, h.Topics(), 2)
	again, err := h.Topic("a")
	require.NoError(t, err)
	require.Equal(t, a.ID(), again.ID())
	require.Equal(t, 5, again.Partitions())
	require.Equal(t, []string{"x"}, values(t, again.Partition(4)))
	again, err = h.Topic("b")
	require.NoError(t, err)
	require.Equal(t, b.Config(), again.Config())
	require.Equal(t, 1, again.Config().Partitions)
	require.Equal(t, 99, again.Config().MaxRecordBytes)
}

func TestATopicRecreatedUnderItsNameInheritsNothing(t *testing.T) {
	mem := vfs.NewMem(vfstest.HostDir(t))
	h := open(t, mem, topic.Options{})
	old := create(t, h, "a", 2)
	p := producer(t, h, topic.ProducerConfig{})
	_, err := p.SendBatch(t.Context(), "a", []record.Record{{Value: []byte("1")}, {Value: []byte("2")}})
	require.NoError(t, err)
	r, err := old.Partition(0).NewReader(partition.Latest)
	require.NoError(t, err)
	defer r.Close()

	require.NoError(t, h.Delete(t.Context(), "a"))
	_, err = r.Next(t.Context())
	require.ErrorIs(t, err, topic.ErrUnknownTopic)
	_, err = old.Partition(0).Append(t.Context(), []record.Record{{}})
	require.ErrorIs(t, err, topic.ErrUnknownTopic)
	_, err = p.Send(t.Context(), "a", record.Record{})
	require.ErrorIs(t, err, topic.ErrUnknownTopic)
	require.ErrorIs(t, h.Delete(t.Context(), "a"), topic.ErrUnknownTopic)

	recreated := create(t, h, "a", 2)
	require.NotEqual(t, old.ID(), recreated.ID())
	require.Zero(t, recreated.Partition(0).EndOffset()+recreated.Partition(1).EndOffset())
	res, err := p.Send(t.Context(), "a", record.Record{Value: []byte("3")})
	require.NoError(t, err, "the same producer")
	require.Zero(t, res.Offset)
	require.NoError(t, h.Close())
	h = open(t, mem, topic.Options{})
	again, err := h.Topic("a")
	require.NoError(t, err)
	require.EqualValues(t, 1, again.Partition(0).EndOffset()+again.Partition(1).EndOffset())
}

func TestNames(t *testing.T) {
	h := open(t, vfs.NewMem(vfstest.HostDir(t)), topic.Options{})
	for _, name := range []string{"", ".", "..", "a/b", "a b", "ä", "a\x00", "../x", strings.Repeat("x", 250), "a:b"} {
		_, err := h.Create(t.Context(), name, small(1))
		require.ErrorIs(t, err, topic.ErrInvalidTopic, name)
		_, err = h.Topic(name)
		require.ErrorIs(t, err, topic.ErrInvalidTopic, name)
	}
	for _, name := range []string{"a", "...", "A.b_c-9", "-", "a-0", strings.Repeat("x", 249)} {
		_, err := h.Create(t.Context(), name, small(2))
		require.NoError(t, err, name)
		_, err = h.Create(t.Context(), name, small(1))
		require.ErrorIs(t, err, topic.ErrTopicExists)
	}
	require.NoError(t, h.Delete(t.Context(), strings.Repeat("x", 249)), "the longest name can be deleted")
}

func TestBadSettingsAreNamedAllAtOnce(t *testing.T) {
	h := open(t, vfs.NewMem(vfstest.HostDir(t)), topic.Options{})
	_, err := h.Create(t.Context(), "a", topic.Config{Partitions: -1, SegmentBytes: 5, RetentionAge: -1, MaxRecordBytes: -1})
	require.ErrorIs(t, err, topic.ErrInvalidTopic)
	for _, field := range []string{"Partitions", "SegmentBytes", "RetentionAge", "MaxRecordBytes"} {
		require.ErrorContains(t, err, field)
	}
	_, err = h.Create(t.Context(), "a", topic.Config{Replicas: 2})
	require.ErrorIs(t, err, topic.ErrNotEnoughReplicas)
	create(t, h, "a", 3)
	for _, total := range []int{-1, 0, 3, topic.MaxPartitions + 1} {
		_, err = h.AddPartitions(t.Context(), "a", total)
		require.ErrorIs(t, err, topic.ErrInvalidTopic)
	}
	_, err = h.AddPartitions(t.Context(), "b", 3)
	require.ErrorIs(t, err, topic.ErrUnknownTopic)
	tp, err := h.Topic("a")
	require.NoError(t, err)
	for _, n := range []int{-1, 3} {
		_, err = tp.Partition(n).NewReader(partition.Earliest)
		require.ErrorIs(t, err, partition.ErrUnknownPartition)
	}
}

func TestAFolderWithForeignContentIsNotTakenOver(t *testing.T) {
	mem := vfs.NewMem(vfstest.HostDir(t))
	h := open(t, mem, topic.Options{})
	require.NoError(t, mem.MkdirAll("data/a-1"))
	create(t, h, "a", 2) // empty: a creation that was cut short left it
	require.NoError(t, mem.MkdirAll("data/b-1"))
	f, err := mem.Create("data/b-1/00000000000000000000.log")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	_, err = h.Create(t.Context(), "b", small(2))
	require.ErrorContains(t, err, "b-1")
	_, err = mem.Stat("data/b-1/00000000000000000000.log")
	require.NoError(t, err)
}

func TestAMissingFolderIsNotTakenForAnEmptyPartition(t *testing.T) {
	mem := vfs.NewMem(vfstest.HostDir(t))
	h := open(t, mem, topic.Options{})
	create(t, h, "a", 2)
	p := producer(t, h, topic.ProducerConfig{Partitioner: topic.RoundRobin()})
	for range 4 {
		_, err := p.Send(t.Context(), "a", record.Record{Value: []byte("x")})
		require.NoError(t, err)
	}
	require.NoError(t, h.Close())
	require.NoError(t, mem.RemoveAll("data/a-0"))

	h = open(t, mem, topic.Options{})
	tp, err := h.Topic("a")
	require.NoError(t, err)
	require.ErrorIs(t, tp.Partition(0).Err(), partition.ErrNoLeader)
	require.NoError(t, tp.Partition(1).Err(), "the others don't notice")
	require.Len(t, values(t, tp.Partition(1)), 2)
	_, err = mem.Stat("data/a-0")
	require.Error(t, err, "not made anew")
}

func TestClosedSet(t *testing.T) {
	h := open(t, vfs.NewMem(vfstest.HostDir(t)), topic.Options{})
	tp := create(t, h, "a", 1)
	p := producer(t, h, topic.ProducerConfig{})
	require.NoError(t, h.Close())
	for range 2 {
		_, err := h.Topic("a")
		require.ErrorIs(t, err, log.ErrClosed)
		_, err = h.Create(t.Context(), "b", small(1))
		require.ErrorIs(t, err, log.ErrClosed)
		require.ErrorIs(t, h.Delete(t.Context(), "a"), log.ErrClosed)
		_, err = p.Send(t.Context(), "a", record.Record{})
		require.ErrorIs(t, err, log.ErrClosed)
		_, err = p.SendBatch(t.Context(), "a", []record.Record{{}})
		require.ErrorIs(t, err, log.ErrClosed)
		require.ErrorIs(t, tp.Partition(0).Err(), log.ErrClosed)
		_, err = h.NewProducer(topic.ProducerConfig{})
		require.ErrorIs(t, err, log.ErrClosed)
	}
}

func TestManyPartitionsAreMadeWithOneSyncOfTheFolder(t *testing.T) {
	mem := vfs.NewMem(vfstest.HostDir(t))
	syncs := 0
	fault := vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
		if op.Kind == vfs.KindSyncDir {
			syncs++
		}
		return vfs.Outcome{}
	})
	h := open(t, fault, topic.Options{})
	before := syncs
	create(t, h, "wide", 5000)
	require.LessOrEqual(t, syncs-before, 3)
	files, mappings, _ := mem.Handles()
	require.Less(t, files+mappings, 10, "an idle partition holds no file open")
}

func TestSyncIntervalSyncsInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem(vfstest.HostDir(t))
		h := open(t, mem, topic.Options{Sync: log.SyncInterval(100 * time.Millisecond)})
		create(t, h, "a", 1)
		p := producer(t, h, topic.ProducerConfig{})
		_, err := p.Send(t.Context(), "a", record.Record{Value: []byte("x")})
		require.NoError(t, err)
		time.Sleep(150 * time.Millisecond)
		synctest.Wait()
		after := mem.PowerCut(nil) // nothing unsynced survives

		h = open(t, after, topic.Options{})
		tp, err := h.Topic("a")
		require.NoError(t, err)
		require.Equal(t, []string{"x"}, values(t, tp.Partition(0)))
	})
}

func TestRetentionRunsInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, vfs.NewMem(vfstest.HostDir(t)), topic.Options{Sync: log.SyncNever})
		cfg := small(1)
		cfg.RetentionAge = time.Minute
		tp, err := h.Create(t.Context(), "a", cfg)
		require.NoError(t, err)
		p := producer(t, h, topic.ProducerConfig{})
		for range 20 {
			_, err := p.Send(t.Context(), "a", record.Record{Value: make([]byte, 4000)})
			require.NoError(t, err)
		}
		require.Zero(t, tp.Partition(0).StartOffset())
		time.Sleep(65 * time.Second)
		synctest.Wait()
		require.EqualValues(t, 20, tp.Partition(0).StartOffset(), "all has outlived its age")
		require.EqualValues(t, 20, tp.Partition(0).EndOffset())
	})
}

func TestACancelledContextChangesNothing(t *testing.T) {
	h := open(t, vfs.NewMem(vfstest.HostDir(t)), topic.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := h.Create(ctx, "a", small(1))
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, h.Delete(ctx, "a"), context.Canceled)
	require.Empty(t, h.Topics())
}

// TestPowerCutDuringAdministration cuts the power at every operation of a script that creates, grows, writes and deletes
// topics: afterwards each change that was acknowledged is there whole, and the one under way is there or not.
func TestPowerCutDuringAdministration(t *testing.T) {
	script := func(h house, done func(string)) error {
		ctx := context.Background()
		p, err := h.NewProducer(topic.ProducerConfig{Partitioner: topic.RoundRobin()})
		if err != nil {
			return err
		}
		steps := []struct {
			name string
			do   func() error
		}{
			{"create a", func() error { _, err := h.Create(ctx, "a", small(2)); return err }},
			{"send", func() error { _, err := p.SendBatch(ctx, "a", make([]record.Record, 4)); return err }},
			{"create b", func() error { _, err := h.Create(ctx, "b", small(1)); return err }},
			{"grow a", func() error { _, err := h.AddPartitions(ctx, "a", 3); return err }},
			{"delete b", func() error { return h.Delete(ctx, "b") }},
			{"recreate b", func() error { _, err := h.Create(ctx, "b", small(2)); return err }},
			{"close", h.Close},
		}
		for _, s := range steps {
			if err := s.do(); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			done(s.name)
		}
		return nil
	}
	for seed := range uint64(2) {
		for n := 1; ; n++ {
			if sweepAdministration(t, script, n, seed) {
				break
			}
		}
	}
}
