package group

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/partition"
	"github.com/ottlalog/ottla/record"
)

func TestAMemberReadsEverythingInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 2)
		h.produce("a", 0, 3)
		h.produce("a", 1, 2)
		m := h.join("g", MemberConfig{Topics: []string{"a"}})
		assert.Empty(t, m.Assignment(), "nothing before the first poll")
		recs := h.poll(m)
		assert.ElementsMatch(t, []string{"a-0@0", "a-0@1", "a-0@2", "a-1@0", "a-1@1"}, places(recs))
		for _, r := range recs {
			assert.Equal(t, places([]record.Record{r})[0], string(r.Value))
		}
		assert.Equal(t, "a-0 a-1", names(m.Assignment()))
		require.NoError(t, m.Close())
		require.NoError(t, m.Close())
		_, err := m.Poll(t.Context())
		require.ErrorIs(t, err, log.ErrClosed)
		require.ErrorIs(t, m.Commit(t.Context()), log.ErrClosed)
		assert.EqualValues(t, 3, h.committed("g", "a", 0))
		assert.EqualValues(t, 2, h.committed("g", "a", 1))
	})
}

func TestAutoCommitCoversEarlierPollsOnly(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 1)
		h.produce("a", 0, 30)
		m := h.join("g", MemberConfig{Topics: []string{"a"}, MaxPollRecords: 10, AutoCommitInterval: time.Millisecond})
		require.Len(t, h.pollOnce(m), 10)
		time.Sleep(time.Second)
		assert.EqualValues(t, -1, h.committed("g", "a", 0), "it has polled once")
		require.Len(t, h.pollOnce(m), 10)
		time.Sleep(time.Second)
		require.Len(t, h.pollOnce(m), 10)
		assert.EqualValues(t, 20, h.committed("g", "a", 0))
		h.reopen() // a crash: what the last poll returned comes again
		assert.Len(t, h.poll(h.join("g", MemberConfig{Topics: []string{"a"}})), 10)
	})
}

func TestAWaitingMemberCommitsWhenItIsDue(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 1)
		h.produce("a", 0, 3)
		m := h.join("g", MemberConfig{Topics: []string{"a"}})
		require.Len(t, h.pollOnce(m), 3)
		_, err := m.Poll(within(900 * time.Millisecond))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.EqualValues(t, -1, h.committed("g", "a", 0))
		_, err = m.Poll(within(time.Second))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.EqualValues(t, 3, h.committed("g", "a", 0))
	})
}

func TestManualCommitCommitsNothingByItself(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 1)
		h.produce("a", 0, 10)
		m := h.join("g", MemberConfig{Topics: []string{"a"}, ManualCommit: true, MaxPollRecords: 5})
		recs := h.pollOnce(m)
		require.NoError(t, m.Commit(t.Context()))
		require.Len(t, h.pollOnce(m), 5)
		time.Sleep(time.Minute)
		assert.Empty(t, h.poll(m))
		require.NoError(t, m.CommitRecords(t.Context(), recs[1]), "behind what is committed: nothing")
		require.NoError(t, m.Close())
		assert.EqualValues(t, 5, h.committed("g", "a", 0))
		m = h.join("g", MemberConfig{Topics: []string{"a"}, ManualCommit: true})
		recs = h.poll(m)
		require.Len(t, recs, 5)
		require.NoError(t, m.CommitRecords(t.Context(), recs[0], recs[2]))
		require.NoError(t, m.Close())
		assert.EqualValues(t, 8, h.committed("g", "a", 0))
	})
}

func TestRecordsCountsWhatTheLoopHasAskedBeyond(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 1)
		h.produce("a", 0, 10)
		m := h.join("g", MemberConfig{Topics: []string{"a"}, AutoCommitInterval: time.Millisecond})
		for rec, err := range m.Records(t.Context()) {
			require.NoError(t, err)
			time.Sleep(10 * time.Millisecond)
			committed := max(h.committed("g", "a", 0), 0)
			assert.LessOrEqual(t, committed, rec.Offset, "never the record that the loop is at")
			assert.GreaterOrEqual(t, committed, rec.Offset-2, "what is due is committed when the loop asks for more")
			if rec.Offset == 4 {
				break
			}
		}
		assert.Equal(t, []string{"a-0@5", "a-0@6", "a-0@7", "a-0@8", "a-0@9"}, places(h.pollOnce(m)), "the rest of the batch")
	})
}

func TestAPanicInTheBodyOfRecordsFreesThePartitions(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 1)
		h.produce("a", 0, 10)
		m := h.join("g", MemberConfig{Topics: []string{"a"}})
		assert.Panics(t, func() {
			for rec, err := range m.Records(t.Context()) {
				if require.NoError(t, err); rec.Offset == 3 {
					panic("poison")
				}
			}
		})
		assert.Equal(t, 0, h.owners.owned())
		require.ErrorIs(t, m.Commit(t.Context()), ErrFenced)
		other := h.join("g", MemberConfig{Topics: []string{"a"}})
		assert.Len(t, h.poll(other), 10, "no commit was due yet")
		require.NoError(t, other.Close())
		assert.Empty(t, h.poll(m), "it joins again")
		require.NoError(t, m.Close())
	})
}

func TestAnIdleMemberTakesOverAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 1)
		h.produce("a", 0, 10)
		first := h.join("g", MemberConfig{Topics: []string{"a"}, MaxPollRecords: 4})
		require.Len(t, h.pollOnce(first), 4)
		second := h.join("g", MemberConfig{Topics: []string{"a"}})
		got := make(chan []record.Record, 1)
		go func() { got <- h.pollOnce(second) }()
		synctest.Wait()
		begin := time.Now()
		require.NoError(t, first.Close())
		assert.Len(t, <-got, 6)
		assert.Less(t, time.Since(begin), 20*time.Millisecond)
	})
}

func TestAPartitionMovesOnlyAfterItsOwnerHasLetGo(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 2)
		h.produce("a", 0, 2)
		h.produce("a", 1, 2)
		var a *Member
		revoked := make(chan struct{})
		a = h.join("g", MemberConfig{Topics: []string{"a"}, OnRevoked: func(m *Member, ps []TopicPartition) {
			time.Sleep(200 * time.Millisecond)
			require.Len(t, ps, 1)
			assert.NoError(t, m.Commit(context.Background()), "commits of what is being revoked work")
			assert.Len(t, m.Assignment(), 2)
			close(revoked)
		}})
		require.Len(t, h.poll(a), 4)
		b := h.join("g", MemberConfig{Topics: []string{"a"}, OnAssigned: func(m *Member, ps []TopicPartition) {
			select {
			case <-revoked:
			default:
				t.Error("assigned before revoked")
			}
		}})
		_, err := b.Poll(within(time.Second))
		require.ErrorIs(t, err, context.DeadlineExceeded, "the owner is busy with its batch: it keeps what it has")
		assert.Empty(t, b.Assignment())
		go h.poll(a)
		assert.Empty(t, h.poll(b), "what the first has processed doesn't come again")
		time.Sleep(time.Second)
		assert.Empty(t, h.poll(b))
		assert.Len(t, a.Assignment(), 1)
		assert.Len(t, b.Assignment(), 1)
	})
}

func TestASlowMemberIsFencedAndJoinsAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 2)
		h.produce("a", 0, 10)
		var lost []TopicPartition
		slow := h.join("g", MemberConfig{Topics: []string{"a"}, MaxPollInterval: 200 * time.Millisecond,
			OnLost: func(_ *Member, ps []TopicPartition) { lost = ps }})
		require.Len(t, h.pollOnce(slow), 10)
		id := slow.ID()
		other := h.join("g", MemberConfig{Topics: []string{"a"}})
		begin := time.Now()
		assert.Len(t, h.pollOnce(other), 10, "nothing was committed")
		assert.Equal(t, 200*time.Millisecond, time.Since(begin))
		require.NoError(t, other.Commit(t.Context()))
		require.ErrorIs(t, slow.Commit(t.Context()), ErrFenced)
		require.ErrorIs(t, slow.CommitRecords(t.Context(), record.Record{Topic: "a", Offset: 3}), ErrFenced)
		assert.EqualValues(t, 10, h.committed("g", "a", 0))
		assert.Empty(t, lost, "told on its own goroutine")
		quiet(t, slow, other)
		assert.Equal(t, "a-0 a-1", names(lost))
		assert.NotEqual(t, id, slow.ID())
		assert.Len(t, slow.Assignment(), 1)
		assert.Len(t, other.Assignment(), 1)
		require.ErrorIs(t, slow.CommitRecords(t.Context(), record.Record{Topic: "a", Offset: 30}), ErrFenced, "never handed out")
		assert.Contains(t, h.log.String(), "member fenced")
	})
}

func TestAMemberThatWaitsInPollIsAlive(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 1)
		m := h.join("g", MemberConfig{Topics: []string{"a"}, MaxPollInterval: 100 * time.Millisecond})
		_, err := m.Poll(within(time.Hour))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Len(t, m.Assignment(), 1)
		time.Sleep(99 * time.Millisecond)
		synctest.Wait()
		assert.Len(t, m.Assignment(), 1)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		assert.Empty(t, m.Assignment())
	})
}

func TestACallbackThatHangsGetsItsMemberFenced(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 1)
		h.produce("a", 0, 3)
		hang := make(chan struct{})
		m := h.join("g", MemberConfig{Topics: []string{"a"}, MaxPollInterval: time.Second,
			OnAssigned: func(*Member, []TopicPartition) { <-hang }})
		done := make(chan error, 1)
		go func() { _, err := m.Poll(within(time.Minute)); done <- err }()
		other := h.join("g", MemberConfig{Topics: []string{"a"}})
		assert.Len(t, h.pollOnce(other), 3)
		require.NoError(t, other.Close())
		close(hang)
		require.ErrorIs(t, <-done, context.DeadlineExceeded, "it has joined again and there is nothing left")
	})
}

func TestPollAndCloseInACallback(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 1)
		m := h.join("g", MemberConfig{Topics: []string{"a"}, OnAssigned: func(m *Member, _ []TopicPartition) {
			_, err := m.Poll(context.Background())
			assert.ErrorIs(t, err, ErrInCallback)
			for _, err := range m.Records(context.Background()) {
				assert.ErrorIs(t, err, ErrInCallback)
			}
			assert.NoError(t, m.Commit(context.Background()))
			_, ok := m.Position("a", 0)
			assert.True(t, ok)
			assert.ErrorIs(t, m.Close(), ErrInCallback)
		}})
		_, err := m.Poll(t.Context())
		require.ErrorIs(t, err, log.ErrClosed, "closed by the callback")
		require.NoError(t, m.Close())
		assert.Equal(t, 0, h.owners.owned())
		assert.Empty(t, h.groups.mu.groups)
	})
}

func TestAPanicOrGoexitInACallbackWedgesNobody(t *testing.T) {
	for name, end := range map[string]func(){
		"panic": func() { panic("oops") },
		"goexit": func() {
			// assert.Panics can't see it: the goroutine is gone
			goexit()
		},
	} {
		for _, when := range []string{"assigned", "revoked", "lost"} {
			t.Run(name+" "+when, func(t *testing.T) {
				inBubble(t, func(t *testing.T, h *house) {
					h.topic("a", 2)
					armed := true
					hook := func(now string) func(*Member, []TopicPartition) {
						return func(*Member, []TopicPartition) {
							if now == when && armed {
								armed = false
								end()
							}
						}
					}
					m := h.join("g", MemberConfig{Topics: []string{"a"}, MaxPollInterval: time.Second,
						OnAssigned: hook("assigned"), OnRevoked: hook("revoked"), OnLost: hook("lost")})
					other := h.join("g", MemberConfig{Topics: []string{"a"}, MaxPollInterval: time.Hour})
					done := make(chan struct{})
					go func() {
						defer close(done)
						defer func() { _ = recover() }()
						_, _ = m.Poll(within(time.Millisecond))
						_, _ = m.Poll(within(100 * time.Millisecond))
						time.Sleep(2 * time.Second)
						_, _ = m.Poll(within(time.Millisecond))
					}()
					<-done
					assert.False(t, armed)
					quiet(t, other)
					assert.Len(t, other.Assignment(), 2)
					quiet(t, m, other)
					assert.Len(t, other.Assignment(), 1)
					assert.Len(t, m.Assignment(), 1)
				})
			})
		}
	}
}

func TestClosingTheBrokerEndsEverything(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 2)
		h.produce("a", 0, 1)
		g := h.groups.Group("g")
		idle := h.join("g", MemberConfig{Topics: []string{"a"}})
		handling := h.join("h", MemberConfig{Topics: []string{"a"}})
		require.Len(t, h.pollOnce(handling), 1)
		inCallback := h.join("i", MemberConfig{Topics: []string{"a"}, OnAssigned: func(*Member, []TopicPartition) { time.Sleep(time.Hour) }})
		require.Len(t, h.pollOnce(idle), 1)
		ends := make(chan error, 3)
		go func() { _, err := idle.Poll(context.Background()); ends <- err }()
		go func() { _, err := inCallback.Poll(context.Background()); ends <- err }()
		go func() {
			ends <- g.Run(context.Background(), MemberConfig{Topics: []string{"a"}}, func(context.Context, record.Record) error { return nil })
		}()
		synctest.Wait()
		begin := time.Now()
		require.NoError(t, h.groups.Close())
		require.NoError(t, h.groups.Close())
		assert.Zero(t, time.Since(begin))
		assert.ErrorIs(t, <-ends, log.ErrClosed)
		assert.ErrorIs(t, <-ends, log.ErrClosed)
		for range 2 {
			_, err := handling.Poll(t.Context())
			assert.ErrorIs(t, err, log.ErrClosed)
			assert.ErrorIs(t, handling.Commit(t.Context()), log.ErrClosed)
			assert.ErrorIs(t, handling.CommitRecords(t.Context(), record.Record{Topic: "a"}), log.ErrClosed)
			assert.ErrorIs(t, handling.Skip("a", 0), log.ErrClosed)
			_, err = g.Join(t.Context(), MemberConfig{Topics: []string{"a"}})
			assert.ErrorIs(t, err, log.ErrClosed)
			assert.ErrorIs(t, g.Run(t.Context(), MemberConfig{Topics: []string{"a"}}, func(context.Context, record.Record) error { return nil }), log.ErrClosed)
		}
		assert.ErrorIs(t, handling.Close(), log.ErrClosed, "it has records that can't be committed now")
		assert.NoError(t, handling.Close())
		assert.ErrorIs(t, <-ends, log.ErrClosed, "after its callback")
		assert.EqualValues(t, -1, h.committed("h", "a", 0))
	})
}

func TestCloseWakesAPollOfAnotherGoroutine(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 1)
		m := h.join("g", MemberConfig{Topics: []string{"a"}})
		end := make(chan error, 1)
		go func() { _, err := m.Poll(context.Background()); end <- err }()
		synctest.Wait()
		_, err := m.Poll(t.Context())
		require.ErrorIs(t, err, ErrConcurrentPoll)
		require.NoError(t, m.Close())
		require.ErrorIs(t, <-end, log.ErrClosed)
	})
}

func TestBadUse(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 1)
		for _, name := range []string{"", "a\nb", string([]byte{0xff}), string(make([]byte, 250))} {
			_, err := h.groups.Group(name).Join(t.Context(), MemberConfig{Topics: []string{"a"}})
			require.ErrorIs(t, err, ErrInvalidGroup)
		}
		for _, cfg := range []MemberConfig{
			{},
			{Topics: []string{"a/b"}},
			{Topics: []string{"a"}, MaxPollRecords: -1},
			{Topics: []string{"a"}, MaxPollInterval: -1},
			{Topics: []string{"a"}, MaxPollInterval: 1},
			{Topics: []string{"a"}, AutoCommitInterval: -1},
		} {
			_, err := h.groups.Group("g").Join(t.Context(), cfg)
			require.ErrorIs(t, err, ErrInvalidMember)
		}
		require.ErrorIs(t, h.groups.Group("g").Run(t.Context(), MemberConfig{Topics: []string{"a"}}, nil), ErrInvalidMember)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := h.groups.Group("g").Join(ended, MemberConfig{Topics: []string{"a"}})
		require.ErrorIs(t, err, context.Canceled)
		m := h.join("g", MemberConfig{Topics: []string{"a"}})
		_, err = m.Poll(ended)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, m.Commit(ended), context.Canceled)
		require.ErrorIs(t, m.CommitRecords(t.Context(), record.Record{Topic: "b", Partition: 7}), ErrFenced)
		require.ErrorIs(t, m.Skip("a", 3), ErrFenced)
		_, ok := m.Position("a", -1)
		assert.False(t, ok)
		assert.Empty(t, h.groups.Group("none").Members())
		require.NoError(t, m.Close())
		assert.Empty(t, h.groups.mu.groups, "a group without members takes no memory")
	})
}

func TestGroupsAreIndependent(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 1)
		h.produce("a", 0, 5)
		one, two := h.join("one", MemberConfig{Topics: []string{"a"}}), h.join("two", MemberConfig{Topics: []string{"a"}})
		assert.Len(t, h.poll(one), 5)
		assert.Len(t, h.poll(two), 5)
		require.NoError(t, one.Close())
		assert.EqualValues(t, 5, h.committed("one", "a", 0))
		assert.Equal(t, map[TopicPartition]int64{{"a", 0}: 0}, h.groups.Group("one").Lag())
		assert.Equal(t, []string{"one", "two"}, h.groups.List())
		h.produce("a", 0, 2)
		assert.Equal(t, map[TopicPartition]int64{{"a", 0}: 2}, h.groups.Group("one").Lag())
		d := h.groups.Group("two").Members()
		require.Len(t, d, 1)
		assert.Equal(t, MemberDescription{ID: two.ID(), Topics: []string{"a"}, Assigned: []TopicPartition{{"a", 0}},
			Target: []TopicPartition{{"a", 0}}, Epoch: 1}, d[0])
	})
}

func TestAStaticMemberReplacesTheOneBefore(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 1)
		h.produce("a", 0, 5)
		cfg := MemberConfig{Topics: []string{"a"}, InstanceID: "x"}
		old := h.join("g", cfg)
		require.Len(t, h.pollOnce(old), 5)
		fresh := h.join("g", cfg)
		assert.Len(t, h.pollOnce(fresh), 5)
		_, err := old.Poll(t.Context())
		require.ErrorIs(t, err, ErrFenced)
		end := make(chan error)
		go func() { _, err := fresh.Poll(context.Background()); end <- err }()
		synctest.Wait()
		newest := h.join("g", cfg)
		require.ErrorIs(t, <-end, ErrFenced, "also one that waits")
		quiet(t, newest)
		assert.Len(t, newest.Assignment(), 1)
		require.ErrorIs(t, old.Close(), ErrFenced)
		require.NoError(t, newest.Close())
	})
}

func TestRunCommitsWhatWasHandled(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 1)
		h.produce("a", 0, 10)
		ctx, cancel := context.WithCancel(t.Context())
		var seen []int64
		err := h.groups.Group("g").Run(ctx, MemberConfig{Topics: []string{"a"}}, func(_ context.Context, r record.Record) error {
			if seen = append(seen, r.Offset); len(seen) == 4 {
				cancel()
			}
			return nil
		})
		assert.Equal(t, context.Canceled, err)
		assert.EqualValues(t, 4, h.committed("g", "a", 0))
		bad := errors.New("bad")
		err = h.groups.Group("g").Run(t.Context(), MemberConfig{Topics: []string{"a"}}, func(_ context.Context, r record.Record) error {
			if r.Offset == 7 {
				return bad
			}
			return nil
		})
		require.ErrorIs(t, err, bad)
		require.ErrorContains(t, err, `topic "a" partition 0 offset 7`)
		assert.EqualValues(t, 7, h.committed("g", "a", 0))
		assert.Equal(t, 0, h.owners.owned())
	})
}

func TestAPanicInRunIsAnErrorAndFreesThePartitions(t *testing.T) {
	for name, end := range map[string]func(){
		"string": func() { panic("boom") },
		"error":  func() { panic(context.Canceled) },
		"nil":    func() { panic(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, h *house) {
				h.topic("a", 1)
				h.produce("a", 0, 5)
				err := h.groups.Group("g").Run(t.Context(), MemberConfig{Topics: []string{"a"}}, func(_ context.Context, r record.Record) error {
					if r.Offset == 3 {
						end()
					}
					return nil
				})
				var p *PanicError
				require.ErrorAs(t, err, &p)
				assert.Contains(t, string(p.Stack), "member_test.go")
				assert.EqualValues(t, 3, h.committed("g", "a", 0))
				assert.Equal(t, 0, h.owners.owned())
				assert.Empty(t, h.groups.mu.groups)
			})
		})
	}
}

func TestGoexitInRunFreesThePartitions(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 1)
		h.produce("a", 0, 5)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = h.groups.Group("g").Run(t.Context(), MemberConfig{Topics: []string{"a"}}, func(_ context.Context, r record.Record) error {
				if r.Offset == 3 {
					goexit()
				}
				return nil
			})
		}()
		<-done
		assert.EqualValues(t, 3, h.committed("g", "a", 0))
		assert.Empty(t, h.groups.mu.groups)
	})
}

func TestRunGoesOnAfterItsMemberWasFenced(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 1)
		h.produce("a", 0, 5)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		tries := 0
		err := h.groups.Group("g").Run(ctx, MemberConfig{Topics: []string{"a"}, MaxPollInterval: time.Second}, func(ctx context.Context, r record.Record) error {
			if tries++; tries == 3 {
				<-ctx.Done()
				assert.Equal(t, ErrFenced, context.Cause(ctx))
				return ctx.Err()
			}
			return nil
		})
		require.Equal(t, context.DeadlineExceeded, err)
		assert.Equal(t, 8, tries, "3 that count for nothing, and all 5")
		assert.EqualValues(t, 5, h.committed("g", "a", 0))
	})
}

func TestStartsAreKept(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 3)
		for p := range 3 {
			h.produce("a", p, 10)
		}
		time.Sleep(time.Second)
		for _, tc := range []struct {
			name  string
			start partition.Start
			want  int
		}{
			{"latest", partition.Latest, 0},
			{"earliest", partition.Earliest, 30},
			{"at", partition.At(8), 6},
			{"beyond", partition.At(100), 0},
			{"time", partition.AtTime(time.Now()), 0},
			{"long ago", partition.AtTime(time.Now().Add(-time.Hour)), 30},
		} {
			m := h.join(tc.name, MemberConfig{Topics: []string{"a"}, Start: tc.start})
			assert.Len(t, h.poll(m), tc.want, tc.name)
		}
		h.reopen() // nobody has committed anything by itself
		for p := range 3 {
			h.produce("a", p, 1)
		}
		for name, want := range map[string]int{"latest": 3, "at": 9, "beyond": 3, "time": 3} {
			m := h.join(name, MemberConfig{Topics: []string{"a"}, Start: partition.Latest})
			n := h.join(name, MemberConfig{Topics: []string{"a"}, Start: partition.Latest})
			var got []record.Record
			for range 4 {
				got = append(append(got, h.poll(m)...), h.poll(n)...)
			}
			assert.Len(t, got, want, name)
		}
	})
}

func TestWhatAppearsLaterIsReadFromItsBeginning(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 1)
		m := h.join("g", MemberConfig{Topics: []string{"a", "b"}, Start: partition.Latest})
		assert.Empty(t, h.poll(m))
		h.topic("b", 1)
		h.produce("b", 0, 2)
		_, err := h.topics.AddPartitions(t.Context(), "a", 3)
		require.NoError(t, err)
		h.produce("a", 2, 2)
		assert.ElementsMatch(t, []string{"b-0@0", "b-0@1", "a-2@0", "a-2@1"}, places(h.poll(m)))
		require.NoError(t, m.Close())
		_, err = h.topics.AddPartitions(t.Context(), "a", 4)
		require.NoError(t, err)
		h.produce("a", 3, 1)
		m = h.join("g", MemberConfig{Topics: []string{"a"}, Start: partition.Latest})
		assert.Equal(t, []string{"a-3@0"}, places(h.poll(m)), "also while nobody was there")
	})
}

func TestADeletedTopicIsLostAndItsNameIsNotEnough(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 2)
		h.topic("b", 1)
		h.produce("a", 0, 5)
		h.produce("b", 0, 5)
		var lost []TopicPartition
		m := h.join("g", MemberConfig{Topics: []string{"a", "b"}, ManualCommit: true,
			OnLost: func(_ *Member, ps []TopicPartition) { lost = append(lost, ps...) }})
		recs := h.poll(m)
		require.Len(t, recs, 10)
		require.NoError(t, h.topics.Delete(t.Context(), "a"))
		h.topic("a", 2)
		h.produce("a", 0, 1)
		synctest.Wait()
		require.ErrorIs(t, m.CommitRecords(t.Context(), record.Record{Topic: "a", Offset: 4}), ErrFenced)
		require.ErrorIs(t, m.Commit(t.Context()), ErrFenced)
		assert.EqualValues(t, 5, h.committed("g", "b", 0), "what it owns still is committed")
		assert.EqualValues(t, -1, h.committed("g", "a", 0))
		assert.Equal(t, []string{"a-0@0"}, places(h.poll(m)))
		assert.Equal(t, "a-0 a-1", names(lost))
		require.NoError(t, m.Commit(t.Context()))
		assert.EqualValues(t, 1, h.committed("g", "a", 0))
		require.NoError(t, h.topics.Delete(t.Context(), "a"))
		assert.Empty(t, h.poll(m))
		h.produce("b", 0, 1)
		assert.Equal(t, []string{"b-0@5"}, places(h.poll(m)))
	})
}

func TestAPositionBelowTheLogStartGoesOnThere(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		a := h.topic("a", 1)
		h.produce("a", 0, 100)
		m := h.join("g", MemberConfig{Topics: []string{"a"}, MaxPollRecords: 5})
		require.Len(t, h.pollOnce(m), 5)
		require.NoError(t, a.Partition(0).DeleteBefore(t.Context(), 95))
		recs := h.poll(m)
		assert.EqualValues(t, 99, recs[len(recs)-1].Offset)
		require.NoError(t, m.Close())
		h.produce("a", 0, 100)
		require.NoError(t, a.Partition(0).DeleteBefore(t.Context(), 190))
		m = h.join("g", MemberConfig{Topics: []string{"a"}, Start: partition.Latest})
		recs = h.poll(m)
		assert.EqualValues(t, 190, recs[0].Offset)
		assert.Contains(t, h.log.String(), "from=100 to=190 skipped=90")
	})
}

func TestAPositionBeyondTheEndGoesBackToIt(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		a := h.topic("a", 1)
		h.produce("a", 0, 10)
		c, err := h.groups.acquire("g", 1)
		require.NoError(t, err)
		require.NoError(t, c.store([]mark{{claim: &claim{slot: &slot{topicID: a.ID(), tp: TopicPartition{"a", 0}}}, to: 1000}}))
		m := h.join("g", MemberConfig{Topics: []string{"a"}, ManualCommit: true})
		assert.Empty(t, h.poll(m))
		assert.EqualValues(t, 10, h.committed("g", "a", 0), "or what comes would be skipped after a restart")
		h.produce("a", 0, 5)
		assert.Len(t, h.poll(m), 5)
		require.NoError(t, m.Commit(t.Context()))
		assert.EqualValues(t, 15, h.committed("g", "a", 0))
		assert.Contains(t, h.log.String(), "from=1000 to=10")
	})
}

func TestPartitionsAreServedInTurn(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 3)
		h.produce("a", 0, 100)
		h.produce("a", 1, 1)
		h.produce("a", 2, 100)
		m := h.join("g", MemberConfig{Topics: []string{"a"}, MaxPollRecords: 9})
		count := make(map[int]int)
		for _, r := range h.pollOnce(m) {
			count[r.Partition]++
		}
		assert.Equal(t, 1, count[1])
		assert.GreaterOrEqual(t, count[2], 3)
		m2 := h.join("g2", MemberConfig{Topics: []string{"a"}, MaxPollRecords: 1})
		seen := make(map[int]bool)
		for range 3 {
			seen[h.pollOnce(m2)[0].Partition] = true
		}
		assert.Len(t, seen, 3, "one poll each")
	})
}

func TestJoinsInABurstAreOneOrTwoRebalances(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 10)
		var ms []*Member
		for range 10 {
			ms = append(ms, h.join("g", MemberConfig{Topics: []string{"a"}}))
		}
		quiet(t, ms...)
		for _, m := range ms {
			assert.Len(t, m.Assignment(), 1)
		}
		assert.LessOrEqual(t, h.groups.Group("g").Members()[0].Epoch, int64(2))
	})
}
