package topic_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/internal/vfs/vfstest"
	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/partition"
	"github.com/ottlalog/ottla/record"
	"github.com/ottlalog/ottla/topic"
)

var errBroken = errors.New("disk broke")

// failing fails the operations of some kinds on names that contain part.
func failing(part string, kinds ...vfs.Kind) func(vfs.Op) vfs.Outcome {
	return func(op vfs.Op) (o vfs.Outcome) {
		for _, k := range kinds {
			if op.Kind == k && strings.Contains(op.Name, part) {
				o.Err = errBroken
			}
		}
		return o
	}
}

// undecided fails the journal's syncs and its healing: what it has written last may be found later or not.
var undecided = failing("journal", vfs.KindSync, vfs.KindMkdirAll)

// names lists topics with their numbers of partitions.
func names(h house) (out []string) {
	for _, tp := range h.Topics() {
		out = append(out, fmt.Sprintf("%s:%d", tp.Name(), tp.Partitions()))
	}
	return out
}

func TestADeletedTopicIsPurgedWhenThatBecomesPossible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem(vfstest.HostDir(t))
		fault := vfs.NewFault(mem, nil)
		h := open(t, fault, topic.Options{})
		create(t, h, "a", 2)
		create(t, h, "b", 1)
		p := producer(t, h, topic.ProducerConfig{})
		_, err := p.SendBatch(t.Context(), "a", make([]record.Record, 2))
		require.NoError(t, err)

		fault.Decide(failing("-", vfs.KindRemoveAll))
		require.NoError(t, h.Delete(t.Context(), "a"), "it is gone for good")
		require.NoError(t, h.Delete(t.Context(), "b"))
		_, err = h.Topic("a")
		require.ErrorIs(t, err, topic.ErrUnknownTopic)
		_, err = h.Create(t.Context(), "a", small(1))
		require.ErrorIs(t, err, errBroken)
		require.NotErrorIs(t, err, topic.ErrTopicExists)

		fault.Decide(nil)
		create(t, h, "b", 1) // needn't wait
		time.Sleep(time.Minute)
		synctest.Wait()
		_, err = mem.Stat("data/a-0")
		require.Error(t, err)
		_, err = mem.Stat("data/a-1")
		require.Error(t, err)
		create(t, h, "a", 1)
		require.NoError(t, h.Close())
		require.Equal(t, []string{"a:1", "b:1"}, names(open(t, mem, topic.Options{})))
	})
}

func TestOpenGoesOnWithFilesThatCantBeRemoved(t *testing.T) {
	mem := vfs.NewMem(vfstest.HostDir(t))
	fault := vfs.NewFault(mem, nil)
	h := open(t, fault, topic.Options{})
	create(t, h, "a", 1)
	create(t, h, "b", 1)
	fault.Decide(failing("a-0", vfs.KindRemoveAll))
	require.NoError(t, h.Delete(t.Context(), "a"))
	require.NoError(t, h.Close())

	h = open(t, fault, topic.Options{})
	require.Equal(t, []string{"b:1"}, names(h))
	require.NoError(t, h.Close())
	fault.Decide(nil)
	h = open(t, fault, topic.Options{})
	_, err := mem.Stat("data/a-0")
	require.Error(t, err, "removed by Open")
	create(t, h, "a", 1)
}

// changes are what is done to a set that has the topic a with one partition.
var changes = map[string]func(house) error{
	"create": func(h house) error { _, err := h.Create(context.Background(), "b", small(2)); return err },
	"grow":   func(h house) error { _, err := h.AddPartitions(context.Background(), "a", 3); return err },
	"delete": func(h house) error { return h.Delete(context.Background(), "a") },
}

// TestAFailedChangeLeavesEverythingAsItWas fails each operation of a change in turn. After an error what is here is what the
// next process would find, and the second try succeeds.
func TestAFailedChangeLeavesEverythingAsItWas(t *testing.T) {
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			failed, more := 0, true
			for n := 1; more; n++ {
				what := fmt.Sprintf("operation %d", n)
				try := func() (mem *vfs.Mem, h house, err error) {
					mem = vfs.NewMem(vfstest.HostDir(t))
					fault := vfs.NewFault(mem, nil)
					h = open(t, fault, topic.Options{})
					create(t, h, "a", 1)
					n := fault.Ops() + n
					fault.Decide(vfs.FailNth(n, errBroken))
					err = change(h)
					more = fault.Ops() >= n
					return mem, h, err
				}
				mem, h, err := try()
				if err != nil {
					failed++
					require.ErrorIs(t, err, errBroken, what)
					require.Equal(t, []string{"a:1"}, names(h), what)
					require.NoError(t, change(h), what)
				}
				after := names(h)
				require.NotEqual(t, []string{"a:1"}, after, what)
				require.NoError(t, h.Close(), what)
				files, mappings, _ := mem.Handles()
				require.Zero(t, files+mappings, what)
				require.Equal(t, after, names(open(t, mem, topic.Options{})), what)

				mem, h, err = try()
				here := names(h)
				require.Equal(t, here, names(open(t, mem.Kill(), topic.Options{})), "%s: %v", what, err)
			}
			require.Positive(t, failed)
		})
	}
}

// TestAnUndecidedChangeIsDropped has the journal fail in a way that leaves open what the next process finds. As soon as it
// can, the journal is made to agree with what is here.
func TestAnUndecidedChangeIsDropped(t *testing.T) {
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				try := func() (*vfs.Mem, *vfs.Fault, house) {
					mem := vfs.NewMem(vfstest.HostDir(t))
					fault := vfs.NewFault(mem, nil)
					h := open(t, fault, topic.Options{})
					create(t, h, "a", 1)
					fault.Decide(undecided)
					require.ErrorIs(t, change(h), topic.ErrOutcomeUnknown)
					require.Equal(t, []string{"a:1"}, names(h))
					time.Sleep(5 * time.Second)
					synctest.Wait()
					return mem, fault, h
				}
				mem, _, _ := try()
				require.NotEqual(t, []string{"a:1"}, names(open(t, mem.Kill(), topic.Options{})), "or this tests nothing")

				mem, fault, _ := try()
				fault.Decide(nil)
				time.Sleep(2 * time.Second)
				synctest.Wait()
				require.Equal(t, []string{"a:1"}, names(open(t, mem.Kill(), topic.Options{})))

				_, fault, h := try()
				fault.Decide(nil)
				require.NoError(t, change(h), "again, at once")
			})
		})
	}
}

func TestNamesThatTheFileSystemCantTellApart(t *testing.T) {
	mem := vfs.NewMem(vfstest.HostDir(t))
	h := open(t, mem, topic.Options{})
	create(t, h, "orders", 1)
	create(t, h, "Orders", 1)
	require.NoError(t, mem.MkdirAll("data/ORDERS-0")) // as if it were the folder of orders
	_, err := h.Create(t.Context(), "ORDERS", small(1))
	require.ErrorIs(t, err, topic.ErrTopicExists)
}

func TestASlowDiskDoesntStretchTheSyncInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem(vfstest.HostDir(t))
		fault := vfs.NewFault(mem, nil)
		h := open(t, fault, topic.Options{Sync: log.SyncInterval(100 * time.Millisecond)})
		create(t, h, "a", 32)
		p := producer(t, h, topic.ProducerConfig{Partitioner: topic.RoundRobin()})
		_, err := p.SendBatch(t.Context(), "a", make([]record.Record, 32))
		require.NoError(t, err)
		fault.Decide(func(op vfs.Op) (o vfs.Outcome) {
			if op.Kind == vfs.KindMsync {
				o.Delay = 50 * time.Millisecond
			}
			return o
		})
		time.Sleep(350 * time.Millisecond)
		synctest.Wait()
		found, total := open(t, mem.PowerCut(nil), topic.Options{}), 0
		tp, err := found.Topic("a")
		require.NoError(t, err)
		for i := range tp.Partitions() {
			total += len(values(t, tp.Partition(i)))
		}
		require.Equal(t, 32, total)
	})
}

// TestCloseDuringEverything closes the set while topics are created, grown, deleted, written and read: whoever is at work
// hears that it is closed, and nothing stays open.
func TestCloseDuringEverything(t *testing.T) {
	for round := range 20 {
		mem := vfs.NewMem(vfstest.HostDir(t))
		h := open(t, mem, topic.Options{})
		create(t, h, "a", 2)
		p := producer(t, h, topic.ProducerConfig{})
		ctx := context.Background()
		var wg sync.WaitGroup
		until := func(work func(i int) error) {
			wg.Go(func() {
				for i := 0; ; i++ {
					err := work(i)
					if errors.Is(err, log.ErrClosed) {
						return
					}
					if err != nil && !errors.Is(err, topic.ErrUnknownTopic) && !errors.Is(err, topic.ErrTopicExists) {
						t.Error(err)
						return
					}
				}
			})
		}
		until(func(int) error { _, err := p.Send(ctx, "a", record.Record{}); return err })
		until(func(int) error { _, err := p.SendBatch(ctx, "b", make([]record.Record, 3)); return err })
		until(func(int) error {
			done := make(chan error, 1)
			if err := p.SendAsync(ctx, "a", record.Record{}, func(_ topic.Result, err error) { done <- err }); err != nil {
				return err
			}
			return <-done
		})
		until(func(int) error { _, err := h.Create(ctx, "b", small(1)); return err })
		until(func(int) error { return h.Delete(ctx, "b") })
		until(func(i int) error { _, err := h.AddPartitions(ctx, "a", 3+i); return err })
		until(func(int) error {
			tp, err := h.Topic("a")
			if err != nil {
				return err
			}
			r, err := tp.Partition(0).NewReader(partition.Latest)
			if err != nil {
				return err
			}
			_, err = r.Next(ctx)
			return errors.Join(err, r.Close())
		})
		time.Sleep(time.Duration(rand.IntN(5_000)) * time.Microsecond)
		require.NoError(t, h.Close())
		wg.Wait()
		require.NoError(t, p.Close())
		files, mappings, _ := mem.Handles()
		require.Zero(t, files+mappings, "round %d", round)
	}
}
