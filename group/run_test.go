package group

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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/partition"
	"github.com/ottlalog/ottla/record"
	"github.com/ottlalog/ottla/topic"
)

var errBad = errors.New("bad")

// journey notes what a handler got, and when.
type journey struct {
	mu    sync.Mutex
	seen  []string
	times []time.Time
	now   map[int]int // handlers at work, by partition
	most  int         // at the same time
}

func (j *journey) begin(t *testing.T, r record.Record) (attempt int, end func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.now == nil {
		j.now = make(map[int]int)
	}
	at := places([]record.Record{r})[0]
	for _, s := range j.seen {
		if s == at {
			attempt++
		}
	}
	j.seen, j.times = append(j.seen, at), append(j.times, time.Now())
	j.now[r.Partition]++
	assert.Equal(t, 1, j.now[r.Partition], "one at a time in a partition")
	total := 0
	for _, n := range j.now {
		total += n
	}
	j.most = max(j.most, total)
	return attempt + 1, func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.now[r.Partition]--
	}
}

// of returns what was seen of a partition.
func (j *journey) of(partition int) (seen []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, s := range j.seen {
		if strings.HasPrefix(s, fmt.Sprintf("a-%d@", partition)) {
			seen = append(seen, s)
		}
	}
	return seen
}

func upTo(partition, n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("a-%d@%d", partition, i))
	}
	return out
}

func TestRunHandlesPartitionsInParallelAndEachInOrder(t *testing.T) {
	for _, n := range []int{0, 1, 3, 4, 7} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			inBubble(t, func(t *testing.T, h *house) {
				h.topic("a", 4)
				for p := range 4 {
					h.produce("a", p, 25)
				}
				var j journey
				begin := time.Now()
				err := h.groups.Group("g").Run(within(10*time.Second),
					MemberConfig{Topics: []string{"a"}, InstanceID: "x", Run: RunConfig{Concurrency: n}},
					func(_ context.Context, r record.Record) error {
						_, end := j.begin(t, r)
						defer end()
						time.Sleep(time.Duration(1+rand.IntN(20)) * time.Millisecond)
						return nil
					})
				require.Equal(t, context.DeadlineExceeded, err)
				assert.Equal(t, min(max(n, 1), 4), j.most)
				for p := range 4 {
					assert.Equal(t, upTo(p, 25), j.of(p))
					assert.EqualValues(t, 25, h.committed("g", "a", p))
				}
				assert.Less(t, time.Since(begin), 11*time.Second)
				assert.Empty(t, h.groups.mu.groups)
			})
		})
	}
}

func TestAFailingRecordIsTriedAgainAndOnlyItsPartitionWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 2)
		h.produce("a", 0, 5)
		h.produce("a", 1, 5)
		var j journey
		cfg := MemberConfig{Topics: []string{"a"}, AutoCommitInterval: time.Millisecond,
			Run: RunConfig{Retries: 3, RetryBackoff: time.Second}}
		err := h.groups.Group("g").Run(within(time.Minute), cfg, func(_ context.Context, r record.Record) error {
			attempt, end := j.begin(t, r)
			defer end()
			assert.LessOrEqual(t, h.committed("g", "a", r.Partition), r.Offset, "no commit passes what isn't processed")
			if r.Partition == 0 && r.Offset == 2 && attempt <= 3 {
				if attempt == 2 {
					panic("boom")
				}
				assert.LessOrEqual(t, h.committed("g", "a", 0), int64(2))
				return errBad
			}
			return nil
		})
		require.Equal(t, context.DeadlineExceeded, err)
		assert.Equal(t, strings.Fields("a-0@0 a-0@1 a-0@2 a-0@2 a-0@2 a-0@2 a-0@3 a-0@4"), j.of(0))
		assert.Equal(t, upTo(1, 5), j.of(1))
		var tries []time.Time
		for i, s := range j.seen {
			if s == "a-0@2" {
				tries = append(tries, j.times[i])
			} else if strings.HasPrefix(s, "a-1") {
				assert.Less(t, j.times[i].Sub(j.times[0]), time.Second/2, "the other partition doesn't wait")
			}
		}
		for i, longest := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			wait := tries[i+1].Sub(tries[i])
			assert.GreaterOrEqual(t, wait, longest/2)
			assert.LessOrEqual(t, wait, longest+time.Millisecond)
		}
		assert.EqualValues(t, 5, h.committed("g", "a", 0))
	})
}

func TestRetriesComeToAnEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 1)
		h.produce("a", 0, 5)
		for lives := range 2 {
			var j journey
			err := h.groups.Group("g").Run(within(time.Hour), MemberConfig{Topics: []string{"a"}, Run: RunConfig{Retries: 2}},
				func(_ context.Context, r record.Record) error {
					_, end := j.begin(t, r)
					defer end()
					if r.Offset == 3 {
						return errBad
					}
					return nil
				})
			require.ErrorIs(t, err, errBad)
			require.ErrorContains(t, err, `topic "a" partition 0 offset 3`)
			assert.Len(t, j.seen, 6-3*lives)
			assert.EqualValues(t, 3, h.committed("g", "a", 0))
		}
	})
}

func TestBackoff(t *testing.T) {
	for range 1000 {
		for attempts, longest := range map[int]time.Duration{1: 100, 2: 200, 3: 400, 9: 25600, 10: 51200, 11: 60000, 1000: 60000} {
			wait := backoff(100*time.Millisecond, attempts)
			assert.GreaterOrEqual(t, wait, longest*time.Millisecond/2)
			assert.LessOrEqual(t, wait, longest*time.Millisecond)
		}
		assert.GreaterOrEqual(t, backoff(time.Hour, 5), time.Hour/2, "more than the longest is kept")
		assert.LessOrEqual(t, backoff(time.Hour, 5), time.Hour)
	}
	seen := make(map[time.Duration]bool)
	for range 20 {
		seen[backoff(time.Minute, 1)] = true
	}
	assert.Greater(t, len(seen), 10, "jitter")
}

func TestARestingPartitionMovesAtOnceAndNobodyIsFenced(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 2)
		h.produce("a", 0, 3)
		h.produce("a", 1, 3)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		tries := 0
		go func() {
			done <- h.groups.Group("g").Run(ctx, MemberConfig{Topics: []string{"a"}, MaxPollInterval: time.Second,
				Run: RunConfig{Retries: 9, RetryBackoff: time.Hour}},
				func(_ context.Context, r record.Record) error {
					if r.Offset == 1 {
						tries++
						return errBad
					}
					return nil
				})
		}()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		assert.Equal(t, 2, tries)
		assert.EqualValues(t, 1, h.committed("g", "a", 0))
		assert.NotContains(t, h.log.String(), "fenced")
		other := h.join("g", MemberConfig{Topics: []string{"a"}})
		begin := time.Now()
		assert.Len(t, h.pollOnce(other), 2, "from the record that failed on")
		assert.Less(t, time.Since(begin), 20*time.Millisecond)
		cancel()
		require.Equal(t, context.Canceled, <-done, "an end doesn't wait for retries")
		assert.Len(t, h.poll(other), 2)
	})
}

// headers returns the last of each key.
func headers(r record.Record) map[string]string {
	m := make(map[string]string)
	for _, h := range r.Headers {
		m[h.Key] = string(h.Value)
	}
	return m
}

func (h *house) all(name string) (recs []record.Record) {
	tp, err := h.topics.Topic(name)
	require.NoError(h.t, err)
	for i := range tp.Partitions() {
		r, err := tp.Partition(i).NewReader(partition.Earliest)
		require.NoError(h.t, err)
		got, err := r.Read(nil, 1000)
		require.NoError(h.t, err)
		recs = append(recs, got...)
		require.NoError(h.t, r.Close())
	}
	return recs
}

func TestDeadLetters(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		a := h.topic("a", 2)
		h.topic("dead", 3)
		h.produce("a", 1, 2)
		_, err := a.Partition(1).Append(t.Context(), []record.Record{
			{Key: []byte("k"), Value: []byte("v"), Headers: []record.Header{{Key: "mine", Value: []byte("1")}, {Key: "mine"}}},
			{}, // key and value are null
		})
		require.NoError(t, err)
		h.produce("a", 1, 1)
		time.Sleep(time.Hour)
		tries := make(map[int64]int)
		err = h.groups.Group("g").Run(within(time.Minute), MemberConfig{Topics: []string{"a"},
			Run: RunConfig{Retries: 2, DeadLetter: "dead"}},
			func(_ context.Context, r record.Record) error {
				switch tries[r.Offset]++; r.Offset {
				case 2:
					return errBad
				case 3:
					panic("boom")
				}
				return nil
			})
		require.Equal(t, context.DeadlineExceeded, err)
		assert.Equal(t, map[int64]int{0: 1, 1: 1, 2: 3, 3: 3, 4: 1}, tries)
		assert.EqualValues(t, 5, h.committed("g", "a", 1), "a dead letter is processed")
		dead := h.all("dead")
		require.Len(t, dead, 2)
		for _, d := range dead {
			got := headers(d)
			assert.Equal(t, []string{"g", "3", "a", "1"},
				[]string{got[HeaderGroup], got[HeaderAttempts], got[HeaderTopic], got[HeaderPartition]})
			assert.Less(t, time.Since(d.Time), 2*time.Minute, "its time is now")
			if got[HeaderOffset] == "2" {
				assert.Equal(t, "k v", string(d.Key)+" "+string(d.Value))
				assert.Equal(t, []record.Header{{Key: "mine", Value: []byte("1")}, {Key: "mine"}}, d.Headers[:2])
				assert.Contains(t, got[HeaderError], `topic "a" partition 1 offset 2: handler: bad`)
			} else {
				assert.Equal(t, "3", got[HeaderOffset])
				assert.Nil(t, d.Key)
				assert.Nil(t, d.Value)
				assert.Contains(t, got[HeaderError], "panic: boom")
				assert.LessOrEqual(t, len(got[HeaderError]), 4<<10)
			}
		}
	})
}

func TestADeadLetterThatCannotBeStoredEndsRun(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 1)
		h.produce("a", 0, 3)
		cfg := MemberConfig{Topics: []string{"a"}, Run: RunConfig{DeadLetter: "dead"}}
		handler := func(_ context.Context, r record.Record) error {
			if r.Offset == 1 {
				return errBad
			}
			return nil
		}
		require.ErrorIs(t, h.groups.Group("g").Run(t.Context(), cfg, handler), topic.ErrUnknownTopic)
		assert.Empty(t, h.groups.mu.groups, "nobody has joined")
		_, err := h.topics.Create(t.Context(), "dead", topic.Config{MaxRecordBytes: 50})
		require.NoError(t, err)
		err = h.groups.Group("g").Run(within(time.Minute), cfg, handler)
		require.ErrorIs(t, err, errBad)
		require.ErrorIs(t, err, log.ErrRecordTooLarge)
		assert.EqualValues(t, 1, h.committed("g", "a", 0))
	})
}

func TestTheEndOfRunDrains(t *testing.T) {
	for _, tc := range []struct {
		drain  time.Duration
		lasted time.Duration
		done   int64
	}{{0, time.Second, 0}, {500 * time.Millisecond, 1500 * time.Millisecond, 0}, {time.Minute, 3 * time.Second, 1}} {
		t.Run(tc.drain.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, h *house) {
				h.topic("a", 2)
				h.topic("dead", 1)
				h.produce("a", 0, 2)
				h.produce("a", 1, 2)
				begin := time.Now()
				err := h.groups.Group("g").Run(within(time.Second), MemberConfig{Topics: []string{"a"},
					Run: RunConfig{Concurrency: 2, DrainTimeout: tc.drain, DeadLetter: "dead"}},
					func(ctx context.Context, r record.Record) error {
						select {
						case <-time.After(3 * time.Second):
							return nil
						case <-ctx.Done():
							return ctx.Err()
						}
					})
				require.Equal(t, context.DeadlineExceeded, err, "and no handler's")
				assert.Equal(t, tc.lasted, time.Since(begin))
				for p := range 2 {
					assert.Equal(t, tc.done, max(h.committed("g", "a", p), 0), "nothing new is begun, and what is done is committed")
				}
				assert.Empty(t, h.all("dead"), "an end is no failure of a record")
			})
		})
	}
}

func TestAFailureEndsAllWorkersOfARun(t *testing.T) {
	for name, fail := range map[string]func() error{
		"error":  func() error { return errBad },
		"panic":  func() error { panic(errBad) },
		"goexit": func() error { goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, h *house) {
				h.topic("a", 2)
				h.produce("a", 0, 3)
				h.produce("a", 1, 3)
				begin := time.Now()
				err := h.groups.Group("g").Run(t.Context(), MemberConfig{Topics: []string{"a"},
					Run: RunConfig{Concurrency: 2, DrainTimeout: time.Minute}},
					func(ctx context.Context, r record.Record) error {
						time.Sleep(time.Second + time.Duration(r.Partition)*100*time.Millisecond)
						if r.Partition == 0 && r.Offset == 1 {
							return fail()
						}
						return nil
					})
				if name == "goexit" {
					require.ErrorIs(t, err, errGoexit)
				} else {
					require.ErrorIs(t, err, errBad)
				}
				assert.NotErrorIs(t, err, context.Canceled)
				assert.Equal(t, 2200*time.Millisecond, time.Since(begin), "the other has done with its record")
				assert.EqualValues(t, 1, h.committed("g", "a", 0))
				assert.EqualValues(t, 2, h.committed("g", "a", 1))
				assert.Empty(t, h.groups.mu.groups)
			})
		})
	}
}

func TestAHungHandlerOfManyLosesItsPartitionsAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 3)
		for p := range 3 {
			h.produce("a", p, 10)
		}
		hung := false
		var j journey
		err := h.groups.Group("g").Run(within(time.Minute), MemberConfig{Topics: []string{"a"}, MaxPollInterval: time.Second,
			Run: RunConfig{Concurrency: 3}},
			func(ctx context.Context, r record.Record) error {
				if r.Partition == 1 && r.Offset == 4 && !hung {
					hung = true
					<-ctx.Done()
					assert.Equal(t, ErrFenced, context.Cause(ctx))
					time.Sleep(20 * time.Second)
					return errBad // counts for nothing
				}
				_, end := j.begin(t, r)
				defer end()
				return nil
			})
		require.Equal(t, context.DeadlineExceeded, err)
		for p := range 3 {
			assert.Subset(t, j.of(p), upTo(p, 10))
			assert.EqualValues(t, 10, h.committed("g", "a", p))
		}
	})
}

func TestRunConfigsThatMakeNoSense(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 1)
		for want, run := range map[string]RunConfig{
			"Run.Concurrency is -1":     {Concurrency: -1},
			"Run.Retries is -1":         {Retries: -1},
			"Run.RetryBackoff is -1ns":  {RetryBackoff: -1},
			"Run.DrainTimeout is -1ns":  {DrainTimeout: -1},
			`"a" is one of Topics`:      {DeadLetter: "a"},
			"Run.Retries is -2; Run.Re": {Retries: -2, RetryBackoff: -2},
		} {
			err := h.groups.Group("g").Run(t.Context(), MemberConfig{Topics: []string{"a"}, Run: run},
				func(context.Context, record.Record) error { return nil })
			require.ErrorIs(t, err, ErrInvalidMember)
			require.ErrorContains(t, err, want)
		}
	})
}

func TestWorkersOfARunHaveNamesOfTheirOwn(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.topic("a", 2)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- h.groups.Group("g").Run(ctx, MemberConfig{Topics: []string{"a"}, InstanceID: "x", Run: RunConfig{Concurrency: 2}},
				func(context.Context, record.Record) error { return nil })
		}()
		synctest.Wait()
		ms := h.groups.Group("g").Members()
		require.Len(t, ms, 2)
		assert.Equal(t, "x-0 x-1", ms[0].Instance+" "+ms[1].Instance)
		cancel()
		require.Equal(t, context.Canceled, <-done)
		require.NoError(t, h.groups.Close())
		require.Equal(t, log.ErrClosed, h.groups.Group("g").Run(t.Context(), MemberConfig{Topics: []string{"a"}, Run: RunConfig{Concurrency: 2}},
			func(context.Context, record.Record) error { return nil }))
	})
}
