package group

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/internal/vfs/vfstest"
	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/partition"
	"github.com/ottlalog/ottla/record"
)

// damage flips a bit in the middle of the first segment of a partition.
func (h *house) damage(folder string) {
	name := filepath.Join(h.dir, folder, "00000000000000000000.log")
	f, err := h.fs.Open(name)
	require.NoError(h.t, err)
	defer f.Close()
	var b [1]byte
	const pos = 1500
	_, err = f.ReadAt(b[:], pos)
	require.NoError(h.t, err)
	b[0] ^= 4
	_, err = f.WriteAt(b[:], pos)
	require.NoError(h.t, err)
}

func damaged(t *testing.T) *house {
	h := newHouse(t)
	h.topic("a", 2)
	h.produce("a", 0, 200)
	h.produce("a", 1, 10)
	h.close()
	h.damage("a-0")
	h.open()
	return h
}

func TestDamageStopsItsPartitionAloneUntilItIsSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := damaged(t)
		m := h.join("g", MemberConfig{Topics: []string{"a"}})
		var recs []record.Record
		var failures int
		for {
			got, err := m.Poll(within(time.Second))
			if errors.Is(err, context.DeadlineExceeded) {
				break
			}
			if err != nil {
				require.ErrorIs(t, err, log.ErrCorrupt)
				require.Empty(t, got)
				failures++
				continue
			}
			recs = append(recs, got...)
		}
		assert.Equal(t, 1, failures, "told once")
		before := len(recs)
		h.produce("a", 1, 5)
		assert.Len(t, h.poll(m), 5, "the other goes on")
		require.NoError(t, m.Skip("a", 1), "nothing to skip there")
		require.NoError(t, m.Skip("a", 0))
		rest := h.poll(m)
		assert.Greater(t, len(rest), 100)
		assert.Less(t, before+len(rest), 210)
		assert.EqualValues(t, 199, rest[len(rest)-1].Offset)
		require.NoError(t, m.Close())
		assert.EqualValues(t, 200, h.committed("g", "a", 0))
	})
}

func TestRunGoesOnBesideDamageAndTellsItInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := damaged(t)
		n := 0
		err := h.groups.Group("g").Run(within(time.Second), MemberConfig{Topics: []string{"a"}},
			func(_ context.Context, r record.Record) error { n += r.Partition; return nil })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, log.ErrCorrupt)
		assert.Equal(t, 10, n)
	})
}

func TestAnUnavailablePartitionKeepsItsCommittedOffset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		h.topic("a", 2)
		h.produce("a", 0, 10)
		m := h.join("g", MemberConfig{Topics: []string{"a"}})
		require.Len(t, h.poll(m), 10)
		require.NoError(t, m.Close())
		h.close()
		require.NoError(t, h.fs.RemoveAll(filepath.Join(h.dir, "a-0")))
		h.open()
		m = h.join("g", MemberConfig{Topics: []string{"a"}, Start: partition.Latest})
		_, err := m.Poll(t.Context())
		require.ErrorIs(t, err, partition.ErrNoLeader)
		h.produce("a", 1, 3)
		assert.Len(t, h.poll(m), 3)
		require.NoError(t, m.Close())
		assert.EqualValues(t, 10, h.committed("g", "a", 0))
	})
}

var errDisk = errors.New("input/output error")

func TestAFailedCommitIsToldOnceAndDeliveryGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fault := vfs.NewFault(vfs.NewMem(vfstest.HostDir(t)), nil)
		h := newHouseOn(t, fault, "data", Options{Sync: log.SyncAlways})
		var broken atomic.Bool
		fault.Decide(func(op vfs.Op) vfs.Outcome {
			if broken.Load() && strings.Contains(op.Name, "journal") {
				return vfs.Outcome{Err: errDisk}
			}
			return vfs.Outcome{}
		})
		h.topic("a", 2)
		h.produce("a", 0, 10)
		h.produce("a", 1, 10)
		m := h.join("g", MemberConfig{Topics: []string{"a"}})
		require.Len(t, h.pollOnce(m), 20)
		broken.Store(true)
		require.ErrorIs(t, m.Commit(t.Context()), errDisk)
		other := h.join("g", MemberConfig{Topics: []string{"a"}})
		_, err := m.Poll(within(time.Second))
		require.ErrorIs(t, err, errDisk, "the commit before the revoke")
		assert.Len(t, m.Assignment(), 1, "the partition has moved all the same")
		assert.Len(t, h.pollOnce(other), 10)
		_, err = m.Poll(within(2 * time.Second))
		require.ErrorIs(t, err, errDisk, "the one that is due")
		broken.Store(false)
		_, err = m.Poll(within(2 * time.Second))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		kept := m.Assignment()[0]
		assert.EqualValues(t, 10, h.committed("g", "a", kept.Partition), "tried again")
		require.NoError(t, other.Close())
	})
}

func TestPartitionsThatAreAddedFindAnOwnerInEachState(t *testing.T) {
	for _, state := range []string{"joined", "waiting", "handling", "in callback", "fenced"} {
		t.Run(state, func(t *testing.T) {
			inBubble(t, func(t *testing.T, h *house) {
				h.topic("a", 1)
				h.produce("a", 0, 1)
				cfg := MemberConfig{Topics: []string{"a"}, MaxPollInterval: time.Second}
				if state == "in callback" {
					cfg.OnAssigned = func(*Member, []TopicPartition) { time.Sleep(500 * time.Millisecond) }
				}
				m := h.join("g", cfg)
				done := make(chan []record.Record, 1)
				switch state {
				case "waiting":
					h.pollOnce(m)
					go func() { done <- h.pollOnce(m) }()
				case "in callback":
					go func() { done <- h.poll(m) }()
				case "handling":
					h.pollOnce(m)
				case "fenced":
					h.pollOnce(m)
					time.Sleep(2 * time.Second)
				}
				synctest.Wait()
				_, err := h.topics.AddPartitions(t.Context(), "a", 3)
				require.NoError(t, err)
				h.produce("a", 2, 1)
				if state == "waiting" || state == "in callback" {
					<-done
				}
				h.poll(m)
				assert.Len(t, m.Assignment(), 3)
				assert.LessOrEqual(t, h.groups.Group("g").Members()[0].Epoch, int64(3))
			})
		})
	}
}

func TestADeletedTopicCausesOneRebalance(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 1)
		h.topic("b", 1)
		m := h.join("g", MemberConfig{Topics: []string{"a", "b"}})
		go func() { _, _ = m.Poll(context.Background()) }()
		time.Sleep(time.Second)
		before := h.groups.Group("g").Members()[0].Epoch
		require.NoError(t, h.topics.Delete(t.Context(), "b"))
		time.Sleep(time.Hour)
		assert.Equal(t, before+1, h.groups.Group("g").Members()[0].Epoch)
		assert.Equal(t, "a-0", names(m.Assignment()))
		assert.Len(t, h.topics.Topics(), 1, "not made anew")
		require.NoError(t, m.Close())
	})
}

func TestAssignorsOfUsersThatBreakTheRules(t *testing.T) {
	for name, assign := range map[string]assignFunc{
		"nothing": func([]Subscription, map[string]int) Assignment { return nil },
		"panic":   func([]Subscription, map[string]int) Assignment { panic("no") },
		"goexit":  func([]Subscription, map[string]int) Assignment { goexit(); return nil },
		"twice": func(ms []Subscription, _ map[string]int) Assignment {
			a := Assignment{}
			for _, m := range ms {
				a[m.Member] = []TopicPartition{{"a", 0}, {"a", 1}}
			}
			return a
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, h *house) {
				h.topic("a", 2)
				cfg := MemberConfig{Topics: []string{"a"}, Assignor: assign}
				a, b := h.join("g", cfg), h.join("g", cfg)
				quiet(t, a, b)
				assert.Len(t, a.Assignment(), 1)
				assert.Len(t, b.Assignment(), 1)
				if name != "twice" {
					assert.Contains(t, h.log.String(), "assignor failed")
				}
			})
		})
	}
}

type assignFunc func([]Subscription, map[string]int) Assignment

func (assignFunc) Name() string { return "custom" }

func (f assignFunc) Assign(ms []Subscription, ps map[string]int) Assignment { return f(ms, ps) }

func TestJoiningAndLeavingLeavesNothing(t *testing.T) {
	h := newHouse(t)
	h.topic("a", 3)
	h.produce("a", 0, 10)
	files, maps, _ := h.fs.(*vfs.Mem).Handles()
	for range 200 {
		m := h.join("g", MemberConfig{Topics: []string{"a"}, ManualCommit: true})
		_, err := m.Poll(within(time.Second))
		require.NoError(t, err)
		require.NoError(t, m.Close())
	}
	assert.Empty(t, h.groups.mu.groups)
	f, mp, _ := h.fs.(*vfs.Mem).Handles()
	assert.Equal(t, files, f)
	assert.Equal(t, maps, mp)
}

func TestUseAndCloseAtTheSameTime(t *testing.T) {
	for range 50 {
		h := newHouse(t)
		h.topic("a", 2)
		h.produce("a", 0, 20)
		m := h.join("g", MemberConfig{Topics: []string{"a"}, MaxPollRecords: 2})
		done := make(chan struct{})
		for _, use := range []func() error{
			func() error { _, err := m.Poll(context.Background()); return err },
			func() error { return m.Commit(context.Background()) },
			func() error { m.Assignment(); m.Position("a", 0); m.ID(); return m.Skip("a", 0) },
			func() error {
				h.groups.Group("g").Members()
				h.groups.Group("g").Lag()
				return m.Commit(context.Background())
			},
			func() error {
				n, err := h.groups.Group("g").Join(context.Background(), MemberConfig{Topics: []string{"a"}})
				if err == nil {
					err = n.Close()
				}
				return err
			},
		} {
			go func() {
				defer func() { done <- struct{}{} }()
				for {
					if err := use(); errors.Is(err, log.ErrClosed) {
						return
					}
				}
			}()
		}
		time.Sleep(time.Millisecond)
		require.NoError(t, h.groups.Close())
		for range 5 {
			<-done
		}
		h.close()
		h.open()
	}
}

func TestIdlePollsWakeOnlyForARecord(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 100)
		m := h.join("g", MemberConfig{Topics: []string{"a"}})
		idle := h.join("idle", MemberConfig{Topics: []string{"none"}})
		go func() { _, _ = idle.Poll(context.Background()) }()
		got := make(chan []record.Record, 1)
		go func() { recs, _ := m.Poll(context.Background()); got <- recs }()
		synctest.Wait()
		time.Sleep(time.Hour)
		// Nobody sends a token while nothing happens: it would stay, as nobody is awake to take it.
		assert.Empty(t, m.wake)
		assert.False(t, m.clock.armed, "no timer runs while it waits")
		h.produce("a", 77, 1)
		assert.Len(t, <-got, 1)
	})
}

func TestACommitUnderWayOutlivesItsMemberAndComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fault := vfs.NewFault(vfs.NewMem(vfstest.HostDir(t)), nil)
		h := newHouseOn(t, fault, "data", Options{Sync: log.SyncAlways})
		h.topic("a", 1)
		h.produce("a", 0, 10)
		var slow atomic.Bool
		fault.Decide(func(op vfs.Op) vfs.Outcome {
			if strings.Contains(op.Name, "journal") && op.Kind == vfs.KindSync && slow.Load() {
				return vfs.Outcome{Delay: 2 * time.Second}
			}
			return vfs.Outcome{}
		})
		for _, others := range []bool{false, true} {
			m := h.join("g", MemberConfig{Topics: []string{"a"}, MaxPollInterval: time.Second})
			require.Len(t, h.pollOnce(m), 10)
			var other *Member
			if others {
				other = h.join("g", MemberConfig{Topics: []string{"a"}})
			}
			slow.Store(true)
			end := make(chan error)
			begin := time.Now()
			go func() { end <- m.Commit(context.Background()) }()
			time.Sleep(1500 * time.Millisecond)
			if other == nil {
				other = h.join("g", MemberConfig{Topics: []string{"a"}})
			}
			assigned := make(chan struct{})
			other.cfg.OnAssigned = func(m *Member, _ []TopicPartition) {
				at, _ := m.Position("a", 0)
				assert.EqualValues(t, h.committed("g", "a", 0), at)
				close(assigned)
			}
			go func() { _, _ = other.Poll(within(time.Minute)) }()
			require.NoError(t, <-end, "it owned the partition when it began")
			<-assigned
			synctest.Wait() // the callback has returned
			assert.Less(t, time.Since(begin), 2100*time.Millisecond, "woken by the end of the commit")
			assert.GreaterOrEqual(t, time.Since(begin), 2*time.Second)
			slow.Store(false)
			require.NoError(t, other.Close())
			require.NoError(t, m.Close())
			h.produce("a", 0, 10)
		}
		assert.Empty(t, h.groups.mu.groups)
	})
}

func TestStartsAreDecidedByWhoKnowsTheTopic(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.groups.stop() // nobody hears of new topics but by looking
		h.groups.done.Wait()
		m := h.join("g", MemberConfig{Topics: []string{"a"}, Start: partition.Latest})
		h.topic("a", 1)
		h.produce("a", 0, 3)
		n := h.join("g", MemberConfig{Topics: []string{"a"}, Start: partition.Latest})
		assert.Len(t, append(h.poll(m), h.poll(n)...), 3, "the group subscribed before they came")
	})
}

func TestEachRecordWakesWhoWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 3)
		m := h.join("g", MemberConfig{Topics: []string{"a"}})
		got := make(chan string)
		go func() {
			for rec, err := range m.Records(context.Background()) {
				if err != nil {
					return
				}
				got <- string(rec.Value)
			}
		}()
		for i := range 30 {
			synctest.Wait()
			h.produce("a", i%3, 1)
			<-got
		}
	})
}
