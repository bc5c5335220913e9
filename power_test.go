package ottla_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla"
	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/internal/vfs/vfstest"
)

// ledger is what a script was told: every acknowledgement, and nothing else.
type ledger struct {
	sent      map[string]map[int64]string // topic and partition → offset → value
	committed map[string]int64
	topics    map[string]int   // name → partitions; 0: deleted, −1: perhaps
	start     map[string]int64 // what is below may be gone
}

func newLedger() *ledger {
	return &ledger{map[string]map[int64]string{}, map[string]int64{}, map[string]int{}, map[string]int64{}}
}

func place(topic string, partition int) string { return fmt.Sprintf("%s/%d", topic, partition) }

func (l *ledger) send(ctx context.Context, p *ottla.Producer, topic string, values ...string) error {
	recs := make([]ottla.Record, len(values))
	for i, v := range values {
		recs[i] = ottla.Record{Value: []byte(v)}
	}
	results, err := p.SendBatch(ctx, topic, recs)
	for i, r := range results {
		if r.Err != nil {
			continue
		}
		at := place(topic, r.Partition)
		if l.sent[at] == nil {
			l.sent[at] = map[int64]string{}
		}
		l.sent[at][r.Offset] = values[i]
	}
	return err
}

// powerScript creates topics, appends, rolls, commits, adds partitions, moves log starts, retains, deletes, closes and opens
// again.
func powerScript(fs vfs.FS, l *ledger) error {
	ctx := context.Background()
	for life := range 2 {
		b, err := ottla.Open("/data", ottla.Options{MinFreeBytes: -1}.On(fs))
		if err != nil {
			return err
		}
		if err := powerLife(ctx, b, l, life); err != nil {
			return errors.Join(err, b.Close())
		}
		if err := b.Close(); err != nil {
			return err
		}
	}
	return nil
}

func powerLife(ctx context.Context, b *ottla.Broker, l *ledger, life int) error {
	p, err := b.NewProducer(ottla.ProducerConfig{Partitioner: ottla.RoundRobin()})
	if err != nil {
		return err
	}
	if life == 0 {
		if _, err := b.CreateTopic(ctx, "a", ottla.TopicConfig{Partitions: 2, SegmentBytes: 4096}); err != nil {
			return err
		}
		l.topics["a"] = 2
	}
	big := string(make([]byte, 1500))
	for i := range 4 { // rolls
		if err := l.send(ctx, p, "a", fmt.Sprint(life, i), big, big, fmt.Sprint(life, i, "x")); err != nil {
			return err
		}
	}
	if err := l.commit(ctx, b); err != nil {
		return err
	}
	if life == 1 {
		l.topics["a"] = -2 // 2 or more
		if _, err := b.AddPartitions(ctx, "a", 3); err != nil {
			return err
		}
		l.topics["a"] = 3
		if err := l.send(ctx, p, "a", "x", "y", "z"); err != nil {
			return err
		}
	}
	if err := l.trim(ctx, b, "a", 3); err != nil {
		return err
	}
	if err := l.retain(ctx, b, p); err != nil {
		return err
	}
	name := fmt.Sprint("b", life)
	if _, err := b.CreateTopic(ctx, name, ottla.TopicConfig{SegmentBytes: 4096}); err != nil {
		return err
	}
	l.topics[name] = 1
	if err := l.send(ctx, p, name, "one", "two"); err != nil {
		return err
	}
	l.topics[name] = -1 // being deleted: there or not
	if err := b.DeleteTopic(ctx, name); err != nil {
		return err
	}
	l.topics[name] = 0
	return nil
}

// trim moves the log start of partition 0 forward by n.
func (l *ledger) trim(ctx context.Context, b *ottla.Broker, topic string, n int64) error {
	tp, err := b.Topic(topic)
	if err != nil {
		return err
	}
	start := tp.Partition(0).StartOffset() + n
	l.start[place(topic, 0)] = start
	return tp.Partition(0).DeleteBefore(ctx, start)
}

// retain fills a topic that keeps little, and has its retention applied.
func (l *ledger) retain(ctx context.Context, b *ottla.Broker, p *ottla.Producer) error {
	_, err := b.CreateTopic(ctx, "r", ottla.TopicConfig{SegmentBytes: 4096, RetentionBytes: 4096})
	if err != nil && !errors.Is(err, ottla.ErrTopicExists) {
		return err
	}
	l.topics["r"] = 1
	for i := range 4 {
		if err := l.send(ctx, p, "r", fmt.Sprint(i), string(make([]byte, 3000))); err != nil {
			return err
		}
	}
	tp, err := b.Topic("r")
	if err != nil {
		return err
	}
	l.start[place("r", 0)] = tp.Partition(0).EndOffset() - 2 // so much has to stay
	return tp.Partition(0).Tick(ctx, time.Now())
}

func (l *ledger) commit(ctx context.Context, b *ottla.Broker) error {
	m, err := b.Group("g").Join(ctx, ottla.MemberConfig{Topics: []string{"a"}, ManualCommit: true})
	if err != nil {
		return err
	}
	for range 2 {
		recs, err := m.Poll(ctx)
		if err != nil {
			return err
		}
		if err := m.Commit(ctx); err != nil {
			return err
		}
		for _, rec := range recs {
			l.committed[place("a", rec.Partition)] = rec.Offset + 1
		}
		if len(recs) > 8 {
			break
		}
	}
	return m.Close()
}

// check opens what a power cut has left and compares it with the ledger.
func (l *ledger) check(t *testing.T, fs vfs.FS, what string) {
	t.Helper()
	b, err := ottla.Open("/data", ottla.Options{MinFreeBytes: -1}.On(fs))
	require.NoError(t, err, what)
	for name, partitions := range l.topics {
		topic, err := b.Topic(name)
		if partitions == 0 {
			require.ErrorIs(t, err, ottla.ErrUnknownTopic, what)
		}
		switch {
		case partitions == 0 || partitions == -1:
			continue
		case partitions < 0:
			require.NoError(t, err, what)
			require.GreaterOrEqual(t, topic.Partitions(), -partitions, what)
		default:
			require.NoError(t, err, what)
			require.Equal(t, partitions, topic.Partitions(), what)
		}
		for n := range topic.Partitions() {
			require.NoError(t, topic.Partition(n).Err(), what)
			values := readPartition(t, topic.Partition(n))
			for offset, value := range l.sent[place(name, n)] {
				if offset < l.start[place(name, n)] {
					continue
				}
				require.Equal(t, value, values[offset], "%s: %s offset %d", what, place(name, n), offset)
			}
			committed, _ := b.Group("g").Committed(name, n)
			require.GreaterOrEqual(t, committed, l.committed[place(name, n)], what)
			require.LessOrEqual(t, committed, topic.Partition(n).EndOffset(), what)
		}
	}
	if l.topics["a"] != 0 {
		p, err := b.NewProducer(ottla.ProducerConfig{})
		require.NoError(t, err)
		require.NoError(t, l.send(t.Context(), p, "a", "after", "the", "cut"), what)
	}
	require.NoError(t, b.Close(), what)
}

// TestPowerCutLosesNothingAcknowledged cuts the power before every operation of the file system in turn, under SyncAlways, with
// several subsets of surviving pages and names each; then opens, checks, appends, cuts again, and opens once more.
func TestPowerCutLosesNothingAcknowledged(t *testing.T) {
	total := vfs.CountOps(vfs.NewMem(vfstest.HostDir(t)), func(fs vfs.FS) { require.NoError(t, powerScript(fs, newLedger())) })
	t.Logf("%d operations", total)
	require.Greater(t, total, 200)
	for n := 1; n <= total; n++ {
		for seed := range *crashSeeds {
			mem := vfs.NewMem(vfstest.HostDir(t))
			rng := rand.New(rand.NewPCG(seed, uint64(n)))
			decide, boot := vfs.CutBefore(mem, n, rng)
			l := newLedger()
			err := powerScript(vfs.NewFault(mem, decide), l)
			disk := boot()
			what := fmt.Sprintf("cut before operation %d, seed %d: %v", n, seed, err)
			l.check(t, disk, what)
			disk = disk.PowerCut(rng)
			l.check(t, disk, "second "+what)
		}
	}
}

// TestEveryFailureIsSurvived fails every operation once, and everything after it for good: whatever was acknowledged is
// there when the disk is well again.
func TestEveryFailureIsSurvived(t *testing.T) {
	broken := errors.New("input/output error")
	total := vfs.CountOps(vfs.NewMem(vfstest.HostDir(t)), func(fs vfs.FS) { require.NoError(t, powerScript(fs, newLedger())) })
	for n := 1; n <= total; n += *crashStep {
		for name, decide := range map[string]func(vfs.Op) vfs.Outcome{
			"once":     vfs.FailNth(n, broken),
			"for good": vfs.FailAllAfter(n, broken),
			"full":     vfs.FailNth(n, vfs.ErrNoSpace),
		} {
			mem := vfs.NewMem(vfstest.HostDir(t))
			l := newLedger()
			err := powerScript(vfs.NewFault(mem, decide), l)
			files, mappings, locks := mem.Handles()
			what := fmt.Sprintf("operation %d fails %s: %v", n, name, err)
			require.Zero(t, files+mappings+locks, "leaked: %s", what)
			l.check(t, mem, what)
		}
	}
}
