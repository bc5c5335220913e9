package group

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
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

func offsets(recs []record.Record) (out []int64) {
	for _, r := range recs {
		out = append(out, r.Offset)
	}
	return out
}

func TestSeekTakesEffectAtTheNextPoll(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 1)
		h.produce("a", 0, 5)
		time.Sleep(time.Second)
		middle := time.Now()
		h.produce("a", 0, 5)
		m := h.join("g", MemberConfig{Topics: []string{"a"}})
		require.ErrorIs(t, m.Seek("a", 0, partition.Earliest), ErrFenced, "not its own yet")
		h.poll(m)
		for _, tc := range []struct {
			to    partition.Start
			first int64
		}{
			{partition.Earliest, 0}, {partition.At(7), 7}, {partition.AtTime(middle), 5}, {partition.At(0), 0},
			{partition.At(10), 10}, {partition.Latest, 10}, {partition.At(9), 9},
		} {
			require.NoError(t, m.Seek("a", 0, tc.to))
			at, _ := m.Position("a", 0)
			assert.Equal(t, tc.first, at, tc.to)
			if recs := h.poll(m); tc.first < 10 {
				assert.Equal(t, tc.first, recs[0].Offset, tc.to)
				assert.Len(t, recs, int(10-tc.first), tc.to)
			} else {
				assert.Empty(t, recs, tc.to)
			}
		}
		require.NoError(t, m.Seek("a", 0, partition.Earliest))
		require.NoError(t, m.Seek("a", 0, partition.At(8)), "the newest counts")
		for _, wrong := range []int64{-1, 11} {
			err := m.Seek("a", 0, partition.At(wrong))
			var oe *log.OffsetError
			require.ErrorAs(t, err, &oe)
			assert.Equal(t, log.OffsetError{Asked: wrong, Start: 0, End: 10}, *oe)
			require.ErrorContains(t, err, `topic "a" partition 0`)
		}
		assert.Equal(t, []int64{8, 9}, offsets(h.poll(m)))
	})
}

func TestSeekVoidsWhatWasReadAhead(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 2)
		h.produce("a", 0, 20)
		h.produce("a", 1, 3)
		m := h.join("g", MemberConfig{Topics: []string{"a"}})
		var got []string
		for rec, err := range m.Records(within(time.Second)) {
			if err != nil {
				break
			}
			got = append(got, places([]record.Record{rec})...)
			if rec.Partition == 0 && rec.Offset == 4 && len(got) < 10 {
				require.NoError(t, m.Seek("a", 0, partition.At(18)))
			}
		}
		assert.ElementsMatch(t, strings.Fields("a-0@0 a-0@1 a-0@2 a-0@3 a-0@4 a-0@18 a-0@19 a-1@0 a-1@1 a-1@2"), got)
	})
}

func TestSeekWakesWhoWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 1)
		h.produce("a", 0, 5)
		m := h.join("g", MemberConfig{Topics: []string{"a"}})
		h.poll(m)
		got := make(chan []record.Record)
		for _, to := range []int64{3, 1, 4} {
			go func() { got <- h.pollOnce(m) }()
			synctest.Wait()
			require.NoError(t, m.Seek("a", 0, partition.At(to)))
			assert.Equal(t, to, (<-got)[0].Offset)
		}
	})
}

func TestSeekMovesWhatIsCommitted(t *testing.T) {
	for _, manual := range []bool{false, true} {
		t.Run(fmt.Sprint("manual ", manual), func(t *testing.T) {
			inBubble(t, func(t *testing.T, h *house) {
				h.topic("a", 1)
				h.produce("a", 0, 10)
				m := h.join("g", MemberConfig{Topics: []string{"a"}, ManualCommit: manual})
				require.Len(t, h.poll(m), 10)
				require.NoError(t, m.Commit(t.Context()))
				for _, to := range []int64{4, 7, 2} { // back and ahead
					require.NoError(t, m.Seek("a", 0, partition.At(to)))
					require.ErrorIs(t, m.CommitOffsets(t.Context(), map[TopicPartition]int64{{"a", 0}: to + 1}), ErrFenced)
					if manual {
						time.Sleep(time.Minute)
						require.NoError(t, m.Commit(t.Context()))
					} else {
						require.NoError(t, m.Pause(TopicPartition{"a", 0}))
						_, err := m.Poll(within(2 * time.Second))
						require.ErrorIs(t, err, context.DeadlineExceeded)
					}
					assert.Equal(t, to, h.committed("g", "a", 0))
				}
				require.NoError(t, m.Seek("a", 0, partition.At(1)))
				require.NoError(t, m.Close())
				want := int64(1)
				if manual {
					want = 2
				}
				assert.Equal(t, want, h.committed("g", "a", 0), "on leaving")
			})
		})
	}
}

func TestASeekDuringACommitIsTheNewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fault := vfs.NewFault(vfs.NewMem(vfstest.HostDir(t)), nil)
		h := newHouseOn(t, fault, "data", Options{Sync: log.SyncAlways})
		h.topic("a", 1)
		h.produce("a", 0, 10)
		var slow atomic.Bool
		fault.Decide(func(op vfs.Op) vfs.Outcome {
			if strings.Contains(op.Name, "journal") && op.Kind == vfs.KindSync && slow.Load() {
				return vfs.Outcome{Delay: time.Second}
			}
			return vfs.Outcome{}
		})
		m := h.join("g", MemberConfig{Topics: []string{"a"}})
		require.Len(t, h.poll(m), 10)
		slow.Store(true)
		end := make(chan error)
		go func() { end <- m.Commit(context.Background()) }()
		time.Sleep(500 * time.Millisecond)
		require.NoError(t, m.Seek("a", 0, partition.At(3)))
		require.NoError(t, <-end)
		slow.Store(false)
		assert.EqualValues(t, 10, h.committed("g", "a", 0))
		require.NoError(t, m.Commit(t.Context()))
		assert.EqualValues(t, 3, h.committed("g", "a", 0))
	})
}

func TestASlowLookUpDoesNotOverwriteANewerSeek(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 1)
		h.produce("a", 0, 10)
		m := h.join("g", MemberConfig{Topics: []string{"a"}})
		h.poll(m)
		cl := m.claims[TopicPartition{"a", 0}]
		cl.sought = 2 // as if the one begun after the next has overtaken it
		require.NoError(t, m.Seek("a", 0, partition.At(1)))
		assert.Empty(t, h.poll(m))
		cl.seeks = 2
		require.NoError(t, m.Seek("a", 0, partition.At(6)))
		assert.Len(t, h.poll(m), 4)
	})
}

func TestSeekInACallback(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 2)
		h.produce("a", 0, 10)
		h.produce("a", 1, 10)
		revoked, lost := 0, 0
		m := h.join("g", MemberConfig{Topics: []string{"a"},
			OnAssigned: func(m *Member, ps []TopicPartition) {
				for _, p := range ps {
					assert.NoError(t, m.Seek(p.Topic, p.Partition, partition.At(8)))
				}
			},
			OnRevoked: func(m *Member, ps []TopicPartition) {
				revoked += len(ps)
				assert.NoError(t, m.Seek(ps[0].Topic, ps[0].Partition, partition.At(5)))
			},
			OnLost: func(m *Member, ps []TopicPartition) {
				lost += len(ps)
				assert.ErrorIs(t, m.Seek(ps[0].Topic, ps[0].Partition, partition.At(5)), ErrFenced)
			}})
		assert.ElementsMatch(t, []string{"a-0@8", "a-0@9", "a-1@8", "a-1@9"}, places(h.poll(m)))
		other := h.join("g", MemberConfig{Topics: []string{"a"}})
		quiet(t, m)
		assert.Equal(t, 1, revoked)
		assert.Len(t, h.poll(other), 5, "what was sought on the way out is where the next owner begins")
		time.Sleep(time.Hour)
		h.poll(m)
		assert.Equal(t, 1, lost)
	})
}

func TestPauseKeepsOwnershipAndPlace(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 2)
		h.produce("a", 0, 20)
		m := h.join("g", MemberConfig{Topics: []string{"a"}, MaxPollInterval: time.Second})
		zero, one := TopicPartition{"a", 0}, TopicPartition{"a", 1}
		n := int64(0)
		for rec, err := range m.Records(t.Context()) {
			require.NoError(t, err)
			require.Equal(t, n, rec.Offset)
			if n++; n == 5 {
				break
			}
		}
		require.NoError(t, m.Pause(zero), "in the middle of a batch")
		require.NoError(t, m.Pause(zero))
		assert.Empty(t, h.poll(m))
		h.produce("a", 0, 5)
		h.produce("a", 1, 3)
		assert.Equal(t, []string{"a-1@0", "a-1@1", "a-1@2"}, places(h.poll(m)), "the other goes on")
		_, err := m.Poll(within(time.Hour))
		require.ErrorIs(t, err, context.DeadlineExceeded, "waiting is no loop and no silence")
		assert.Len(t, m.Assignment(), 2)
		assert.NotContains(t, h.log.String(), "fenced")
		require.ErrorIs(t, m.Pause(one, TopicPartition{"b", 0}), ErrFenced)
		h.produce("a", 1, 1)
		assert.Len(t, h.poll(m), 1, "all are paused or none")
		got := make(chan []record.Record)
		go func() { got <- h.pollOnce(m) }()
		synctest.Wait()
		require.NoError(t, m.Resume(zero, one))
		recs := <-got
		assert.EqualValues(t, 5, recs[0].Offset)
		assert.Len(t, recs, 20)
		require.NoError(t, m.Close())
		assert.EqualValues(t, 25, h.committed("g", "a", 0))
		require.ErrorIs(t, m.Pause(zero), log.ErrClosed)
		require.ErrorIs(t, m.Resume(zero), log.ErrClosed)
		require.ErrorIs(t, m.Seek("a", 0, partition.Earliest), log.ErrClosed)
	})
}

func TestAPausedPartitionMovesOnResumed(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 1)
		h.produce("a", 0, 10)
		m := h.join("g", MemberConfig{Topics: []string{"a"}, MaxPollRecords: 4})
		require.Len(t, h.pollOnce(m), 4)
		require.NoError(t, m.Pause(TopicPartition{"a", 0}))
		_, err := m.Poll(within(time.Second)) // the four are processed
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, m.Close())
		assert.EqualValues(t, 4, h.committed("g", "a", 0))
		assert.Len(t, h.poll(h.join("g", MemberConfig{Topics: []string{"a"}})), 6)
	})
}

func TestCommitOffsets(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 2)
		h.produce("a", 0, 10)
		h.produce("a", 1, 10)
		zero, one := TopicPartition{"a", 0}, TopicPartition{"a", 1}
		m := h.join("g", MemberConfig{Topics: []string{"a"}, ManualCommit: true})
		require.Len(t, h.poll(m), 20)
		require.NoError(t, m.CommitOffsets(t.Context(), nil))
		require.NoError(t, m.CommitOffsets(t.Context(), map[TopicPartition]int64{zero: 3, one: 10}))
		assert.EqualValues(t, 3, h.committed("g", "a", 0))
		assert.EqualValues(t, 10, h.committed("g", "a", 1))
		for _, bad := range []map[TopicPartition]int64{{zero: 5, one: 11}, {zero: 5, {"b", 0}: 1}} {
			require.ErrorIs(t, m.CommitOffsets(t.Context(), bad), ErrFenced)
		}
		require.NoError(t, m.CommitOffsets(t.Context(), map[TopicPartition]int64{zero: -7, one: 2}))
		assert.EqualValues(t, 3, h.committed("g", "a", 0), "all or none")
		assert.EqualValues(t, 10, h.committed("g", "a", 1), "never back")
	})
}

// The vectors say what Kafka and its clients do. Where the log lost its end, they begin anew under "earliest", and a group
// with policy "none" has nowhere to begin; here it goes on at the end, and Start decides.
func TestResetPolicyVectors(t *testing.T) {
	data, err := os.ReadFile("testdata/offset_reset.json")
	require.NoError(t, err)
	var cases []struct {
		Name, Policy string
		Committed    *int64
		Start        int64 `json:"log_start_offset"`
		End          int64 `json:"log_end_offset"`
		Expect       struct {
			Start *int64 `json:"start_offset"`
			Error string
		}
	}
	require.NoError(t, json.Unmarshal(data, &cases))
	policies := map[string]ResetPolicy{"earliest": ResetEarliest, "latest": ResetLatest, "none": ResetNone}
	for _, tc := range cases {
		if tc.Committed == nil {
			continue
		}
		to, ok := policies[tc.Policy].resolve(*tc.Committed, tc.Start, tc.End)
		switch {
		case tc.Expect.Error != "":
			assert.False(t, ok, tc.Name)
		case *tc.Committed > tc.End:
			assert.Equal(t, tc.End, to, tc.Name)
		default:
			assert.True(t, ok, tc.Name)
			assert.Equal(t, *tc.Expect.Start, to, tc.Name)
		}
	}
	assert.Len(t, cases, 36)
}

func TestResetPolicies(t *testing.T) {
	for policy, want := range map[ResetPolicy]int64{ResetEarliest: 50, ResetLatest: 60, ResetNone: -1} {
		for _, when := range []string{"reading", "taking"} {
			t.Run(fmt.Sprint(policy, " ", when), func(t *testing.T) {
				inBubble(t, func(t *testing.T, h *house) {
					a := h.topic("a", 2)
					h.produce("a", 0, 60)
					h.produce("a", 1, 1)
					m := h.join("g", MemberConfig{Topics: []string{"a"}, Reset: policy, MaxPollRecords: 10})
					require.NotEmpty(t, h.pollOnce(m))
					require.NoError(t, m.Commit(t.Context()))
					at := h.committed("g", "a", 0)
					if when == "taking" {
						require.NoError(t, m.Close())
						m = h.join("g", MemberConfig{Topics: []string{"a"}, Reset: policy, MaxPollRecords: 10})
					}
					require.NoError(t, a.Partition(0).DeleteBefore(t.Context(), 50))
					if policy == ResetNone {
						recs, err := m.Poll(within(time.Second))
						for err == nil { // what it had read ahead
							recs, err = m.Poll(within(time.Second))
						}
						var oe *log.OffsetError
						require.ErrorAs(t, err, &oe)
						assert.EqualValues(t, []int64{50, 60}, []int64{oe.Start, oe.End})
						assert.Empty(t, recs)
						h.produce("a", 1, 1)
						assert.Len(t, h.poll(m), 1, "the other partition goes on")
						assert.Equal(t, at, h.committed("g", "a", 0), "nothing is skipped by itself")
						require.NoError(t, m.Seek("a", 0, partition.Earliest))
						assert.Len(t, h.poll(m), 10)
						return
					}
					h.poll(m)
					time.Sleep(time.Second)
					h.poll(m)
					assert.GreaterOrEqual(t, h.committed("g", "a", 0), want, "also if no record was handed out")
					h.produce("a", 0, 1)
					recs := h.poll(m)
					assert.EqualValues(t, 60, recs[len(recs)-1].Offset)
					assert.Contains(t, h.log.String(), fmt.Sprintf("to=%d", want))
					require.NoError(t, m.Close())
					assert.EqualValues(t, 61, h.committed("g", "a", 0))
				})
			})
		}
	}
}

func TestAResetToTheEndIsKept(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		a := h.topic("a", 1)
		h.produce("a", 0, 10)
		m := h.join("g", MemberConfig{Topics: []string{"a"}, MaxPollRecords: 2})
		require.Len(t, h.pollOnce(m), 2)
		require.NoError(t, m.Close())
		require.NoError(t, a.Partition(0).DeleteBefore(t.Context(), 8))
		m = h.join("g", MemberConfig{Topics: []string{"a"}, Reset: ResetLatest})
		require.Empty(t, h.poll(m))
		h.reopen() // before anything was handed out
		h.produce("a", 0, 3)
		assert.Len(t, h.poll(h.join("g", MemberConfig{Topics: []string{"a"}, Reset: ResetLatest})), 3, "what came after isn't skipped")
	})
}

// TestALogStartThatHasPassedWhatIsCommittedCanBeCommitted: Commit means the position, also where nothing was handed out.
func TestALogStartThatHasPassedWhatIsCommittedCanBeCommitted(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		tp := h.topic("a", 1)
		h.produce("a", 0, 5)
		cfg := MemberConfig{Topics: []string{"a"}, ManualCommit: true, MaxPollRecords: 2}
		m := h.join("g", cfg)
		require.Len(t, h.pollOnce(m), 2)
		require.NoError(t, m.Commit(t.Context()))
		require.NoError(t, m.Close())
		require.NoError(t, tp.Partition(0).DeleteBefore(t.Context(), 5))

		m = h.join("g", cfg)
		_, err := m.Poll(within(time.Second))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		at, _ := m.Position("a", 0)
		require.EqualValues(t, 5, at)
		require.NoError(t, m.Commit(t.Context()))
		require.EqualValues(t, 5, h.committed("g", "a", 0))
		require.NoError(t, m.Close())
	})
}
