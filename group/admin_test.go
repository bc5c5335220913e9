package group

import (
	"context"
	"errors"
	"math"
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
	"github.com/ottlalog/ottla/topic"
)

func TestDescribe(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		a := h.topic("a", 2)
		h.topic("b", 1)
		h.produce("a", 0, 10)
		h.produce("a", 1, 10)
		g := h.groups.Group("g")
		_, err := g.Describe()
		require.ErrorIs(t, err, ErrUnknownGroup)
		assert.Empty(t, h.groups.Groups())
		m := h.join("g", MemberConfig{Topics: []string{"a"}, MaxPollRecords: 10, ManualCommit: true, Reset: ResetNone})
		d, err := g.Describe()
		require.NoError(t, err)
		assert.Equal(t, Rebalancing, d.State, "it has not polled yet")
		require.Len(t, h.pollOnce(m), 10)
		require.NoError(t, m.CommitOffsets(t.Context(), map[TopicPartition]int64{{"a", 0}: 3}))
		require.NoError(t, m.Pause(TopicPartition{"a", 1}))
		require.NoError(t, a.Partition(1).DeleteBefore(t.Context(), 2))
		d, err = g.Describe()
		require.NoError(t, err)
		assert.Equal(t, Description{Name: "g", State: Stable, Epoch: 1, Members: g.Members(), Partitions: []PartitionDescription{
			{TopicPartition: TopicPartition{"a", 0}, Owner: m.ID(), HasCommitted: true, Committed: 3, Position: 5, EndOffset: 10, Lag: 7},
			{TopicPartition: TopicPartition{"a", 1}, Owner: m.ID(), Position: 5, Paused: true, StartOffset: 2, EndOffset: 10, Lag: 8},
		}}, d)

		require.NoError(t, a.Partition(0).DeleteBefore(t.Context(), 8))
		_, told := m.Poll(within(time.Second))
		require.ErrorIs(t, told, log.ErrOffsetOutOfRange)
		d, err = g.Describe()
		require.NoError(t, err)
		assert.Equal(t, told, d.Partitions[0].Err, "what stands still says why")

		other := h.join("g", MemberConfig{Topics: []string{"a"}})
		d, err = g.Describe()
		require.NoError(t, err)
		assert.Equal(t, Rebalancing, d.State)
		quiet(t, m)
		require.NoError(t, m.Close())
		require.NoError(t, other.Close())
		d, err = g.Describe()
		require.NoError(t, err)
		assert.Equal(t, Empty, d.State)
		assert.EqualValues(t, 8, d.Partitions[0].Position, "where a member would begin")
		require.Len(t, h.groups.Groups(), 1)
		assert.Equal(t, "g empty", h.groups.Groups()[0].Name()+" "+d.State.String())
	})
}

func TestResetOffsets(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		a := h.topic("a", 2)
		h.topic("b", 1)
		h.produce("a", 0, 10)
		time.Sleep(time.Second)
		noon := time.Now()
		h.produce("a", 0, 10)
		h.produce("b", 0, 5)
		g := h.groups.Group("g")
		_, err := g.ResetOffsets(t.Context(), OffsetReset{})
		require.ErrorIs(t, err, ErrUnknownGroup)
		m := h.join("g", MemberConfig{Topics: []string{"a"}})
		require.Len(t, h.poll(m), 20)
		require.NoError(t, m.Commit(t.Context()))
		_, err = g.ResetOffsets(t.Context(), OffsetReset{})
		require.ErrorIs(t, err, ErrGroupNotEmpty)
		_, err = g.ResetOffsets(t.Context(), OffsetReset{DryRun: true})
		require.ErrorIs(t, err, ErrGroupNotEmpty)
		require.NoError(t, m.Close())
		require.NoError(t, a.Partition(0).DeleteBefore(t.Context(), 4))
		zero := TopicPartition{"a", 0}
		from := int64(20)
		for _, tc := range []struct {
			name  string
			reset OffsetReset
			to    int64
		}{
			{"earliest", OffsetReset{}, 4},
			{"latest", OffsetReset{To: partition.Latest, Topics: []string{"a"}}, 20},
			{"offset", OffsetReset{To: partition.At(7), Partitions: []TopicPartition{zero}}, 7},
			{"time", OffsetReset{To: partition.AtTime(noon)}, 10},
			{"ahead", OffsetReset{Shift: 3}, 13},
			{"back", OffsetReset{Shift: -5}, 8},
			{"too far back", OffsetReset{Shift: math.MinInt64}, 4},
			{"too far ahead", OffsetReset{Shift: math.MaxInt64}, 20},
			{"below", OffsetReset{To: partition.At(1)}, 4},
			{"above", OffsetReset{To: partition.At(math.MaxInt64)}, 20},
			{"twice", OffsetReset{To: partition.At(9), Topics: []string{"a"}, Partitions: []TopicPartition{zero}}, 9},
		} {
			tc.reset.DryRun = true
			would, err := g.ResetOffsets(t.Context(), tc.reset)
			require.NoError(t, err, tc.name)
			require.Equal(t, OffsetChange{zero, true, from, tc.to}, would[0], tc.name)
			require.Equal(t, from, h.committed("g", "a", 0), "dry")
			tc.reset.DryRun = false
			changes, err := g.ResetOffsets(t.Context(), tc.reset)
			require.NoError(t, err, tc.name)
			require.Equal(t, would, changes)
			require.Equal(t, tc.to, h.committed("g", "a", 0), tc.name)
			from = tc.to
		}
		for _, wrong := range []OffsetReset{{Topics: []string{"a", "none"}}, {Partitions: []TopicPartition{zero, {"a", 2}}}} {
			wrong.To = partition.At(5)
			_, err = g.ResetOffsets(t.Context(), wrong)
			assert.True(t, errors.Is(err, topic.ErrUnknownTopic) || errors.Is(err, partition.ErrUnknownPartition), err)
			assert.EqualValues(t, 9, h.committed("g", "a", 0), "all or none")
		}
		changes, err := h.groups.Group("new").ResetOffsets(t.Context(), OffsetReset{Topics: []string{"b"}, Shift: 2})
		require.NoError(t, err)
		assert.Equal(t, []OffsetChange{{TopicPartition{"b", 0}, false, 0, 2}}, changes)
		assert.Len(t, h.poll(h.join("new", MemberConfig{Topics: []string{"b"}, Start: partition.Latest})), 3)
		h.reopen()
		assert.Len(t, h.poll(h.join("g", MemberConfig{Topics: []string{"a"}})), 11)
		assert.Empty(t, h.log.String())
	})
}

func TestDeleteGroup(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 1)
		h.produce("a", 0, 5)
		g := h.groups.Group("g")
		require.ErrorIs(t, g.Delete(t.Context()), ErrUnknownGroup)
		require.ErrorIs(t, h.groups.Group("").Delete(t.Context()), ErrInvalidGroup)
		m := h.join("g", MemberConfig{Topics: []string{"a"}})
		require.Len(t, h.poll(m), 5)
		require.ErrorIs(t, g.Delete(t.Context()), ErrGroupNotEmpty)
		require.NoError(t, m.Close())
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, g.Delete(ended), context.Canceled)
		require.NoError(t, g.Delete(t.Context()))
		assert.Empty(t, h.groups.List())
		h.reopen()
		assert.Empty(t, h.groups.List())
		assert.Empty(t, h.groups.mu.groups)
		assert.Empty(t, h.poll(h.join("g", MemberConfig{Topics: []string{"a"}, Start: partition.Latest})), "a new group")
		require.NoError(t, h.groups.Close())
		require.ErrorIs(t, h.groups.Group("g").Delete(t.Context()), log.ErrClosed)
	})
}

func TestDeleteOffsets(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 2)
		h.topic("b", 1)
		h.produce("a", 0, 5)
		h.produce("a", 1, 5)
		h.produce("b", 0, 5)
		g := h.groups.Group("g")
		require.ErrorIs(t, g.DeleteOffsets(t.Context(), TopicPartition{"a", 0}), ErrUnknownGroup)
		m := h.join("g", MemberConfig{Topics: []string{"a", "b"}})
		require.Len(t, h.poll(m), 15)
		require.NoError(t, m.Close())
		m = h.join("g", MemberConfig{Topics: []string{"a"}})
		require.Empty(t, h.poll(m))
		require.ErrorIs(t, g.DeleteOffsets(t.Context(), TopicPartition{"b", 0}, TopicPartition{"a", 0}), ErrGroupNotEmpty)
		assert.EqualValues(t, 5, h.committed("g", "b", 0), "all or none")
		require.NoError(t, g.DeleteOffsets(t.Context(), TopicPartition{"b", 0}), "nobody reads it any more")
		assert.EqualValues(t, -1, h.committed("g", "b", 0))
		require.NoError(t, m.Close())
		require.NoError(t, g.DeleteOffsets(t.Context()))
		require.NoError(t, g.DeleteOffsets(t.Context(), TopicPartition{"a", 0}, TopicPartition{"a", 7}))
		require.ErrorIs(t, g.DeleteOffsets(t.Context(), TopicPartition{"none", 0}), topic.ErrUnknownTopic)
		assert.Len(t, h.poll(h.join("g", MemberConfig{Topics: []string{"a"}})), 5, "one from its beginning")
	})
}

// A fenced member that polls again, and one that joins, wait until a reset is done, and begin where it says.
func TestNobodyComesInDuringAReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fault := vfs.NewFault(vfs.NewMem(vfstest.HostDir(t)), nil)
		h := newHouseOn(t, fault, "data", Options{Sync: log.SyncAlways})
		var slow atomic.Bool
		fault.Decide(func(op vfs.Op) vfs.Outcome {
			if strings.Contains(op.Name, "journal") && op.Kind == vfs.KindSync && slow.Load() {
				return vfs.Outcome{Delay: time.Second}
			}
			return vfs.Outcome{}
		})
		h.topic("a", 2)
		h.produce("a", 0, 10)
		h.produce("a", 1, 10)
		cfg := MemberConfig{Topics: []string{"a"}, MaxPollInterval: time.Second}
		for group, comes := range map[string]func(old *Member) *Member{
			"rejoin": func(old *Member) *Member { return old },
			"join":   func(*Member) *Member { return h.join("join", cfg) },
		} {
			old := h.join(group, cfg)
			require.Len(t, h.poll(old), 20)
			require.NoError(t, old.Commit(t.Context()))
			time.Sleep(2 * time.Second) // fenced: the group is empty
			slow.Store(true)
			end := make(chan error, 1)
			go func() {
				_, err := h.groups.Group(group).ResetOffsets(context.Background(), OffsetReset{To: partition.At(4)})
				end <- err
			}()
			time.Sleep(500 * time.Millisecond)
			begin := time.Now()
			m := comes(old)
			assert.EqualValues(t, 4, h.pollOnce(m)[0].Offset, group)
			assert.Equal(t, 500*time.Millisecond, time.Since(begin), group)
			require.NoError(t, <-end)
			slow.Store(false)
		}
	})
}

func TestAResetWaitsForNoCommitThatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fault := vfs.NewFault(vfs.NewMem(vfstest.HostDir(t)), nil)
		h := newHouseOn(t, fault, "data", Options{Sync: log.SyncAlways})
		var slow atomic.Bool
		fault.Decide(func(op vfs.Op) vfs.Outcome {
			if strings.Contains(op.Name, "journal") && op.Kind == vfs.KindSync && slow.Load() {
				return vfs.Outcome{Delay: 2 * time.Second}
			}
			return vfs.Outcome{}
		})
		h.topic("a", 1)
		h.produce("a", 0, 10)
		m := h.join("g", MemberConfig{Topics: []string{"a"}, MaxPollInterval: time.Second})
		require.Len(t, h.pollOnce(m), 10)
		slow.Store(true)
		end := make(chan error)
		go func() { end <- m.Commit(context.Background()) }()
		time.Sleep(1500 * time.Millisecond) // fenced, and its commit isn't done
		g := h.groups.Group("g")
		_, err := g.ResetOffsets(t.Context(), OffsetReset{Topics: []string{"a"}})
		require.ErrorIs(t, err, ErrGroupNotEmpty, "or the commit would undo it")
		require.ErrorIs(t, g.DeleteOffsets(t.Context(), TopicPartition{"a", 0}), ErrGroupNotEmpty)
		require.NoError(t, <-end)
		slow.Store(false)
		_, err = g.ResetOffsets(t.Context(), OffsetReset{Topics: []string{"a"}})
		require.NoError(t, err)
		assert.Zero(t, h.committed("g", "a", 0))
	})
}
