package group

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/internal/vfs/vfstest"
	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/partition"
	"github.com/ottlalog/ottla/record"
	"github.com/ottlalog/ottla/topic"
)

func benchHouse(b *testing.B, sync log.SyncPolicy) *house {
	return newHouseOn(b, vfs.OS, b.TempDir(), Options{Sync: sync})
}

// loaded has a topic with n records of 100 bytes in batches of 100.
func loaded(b *testing.B, h *house, partitions, n int) {
	t, err := h.topics.Create(b.Context(), "a", topic.Config{Partitions: partitions})
	require.NoError(b, err)
	batch := make([]record.Record, 100)
	for i := range batch {
		batch[i].Value = make([]byte, 100)
	}
	for i := range n / len(batch) {
		_, err := t.Partition(i%partitions).Append(b.Context(), batch)
		require.NoError(b, err)
	}
}

// The reader without a group is what Poll and Records are to be compared with.
func BenchmarkRead(b *testing.B) {
	const n = 1 << 18 / 100 * 100
	h := benchHouse(b, log.SyncNever)
	loaded(b, h, 4, n)
	t, err := h.topics.Topic("a")
	require.NoError(b, err)
	perRecord := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/record")
	}
	b.Run("reader", func(b *testing.B) {
		for b.Loop() {
			for i := range 4 {
				r, err := t.Partition(i).NewReader(partition.Earliest)
				require.NoError(b, err)
				for recs := make([]record.Record, 1); len(recs) > 0; {
					recs, err = r.Read(nil, 500)
					require.NoError(b, err)
				}
				r.Close()
			}
		}
		perRecord(b)
	})
	member := func(b *testing.B, read func(m *Member) int) {
		for i := 0; b.Loop(); i++ {
			m := h.join(fmt.Sprint(b.Name(), i), MemberConfig{Topics: []string{"a"}, ManualCommit: true})
			for left := n; left > 0; {
				left -= read(m)
			}
			require.NoError(b, m.Close())
		}
		perRecord(b)
	}
	b.Run("poll", func(b *testing.B) {
		member(b, func(m *Member) int {
			recs, err := m.Poll(context.Background())
			require.NoError(b, err)
			return len(recs)
		})
	})
	b.Run("records", func(b *testing.B) {
		member(b, func(m *Member) int {
			got := 0
			for _, err := range m.Records(context.Background()) {
				require.NoError(b, err)
				if got++; got == n {
					break
				}
			}
			return got
		})
	})
}

// A record that comes while the member waits.
func BenchmarkTail(b *testing.B) {
	h := benchHouse(b, log.SyncNever)
	t, err := h.topics.Create(b.Context(), "a", topic.Config{Partitions: 1})
	require.NoError(b, err)
	m := h.join("g", MemberConfig{Topics: []string{"a"}, ManualCommit: true})
	got := make(chan struct{})
	ctx, cancel := context.WithCancel(b.Context())
	go func() {
		for _, err := range m.Records(ctx) {
			if err != nil {
				close(got)
				return
			}
			got <- struct{}{}
		}
	}()
	rec := []record.Record{{Value: make([]byte, 100)}}
	for b.Loop() {
		_, err := t.Partition(0).Append(b.Context(), rec)
		require.NoError(b, err)
		<-got
	}
	cancel()
	<-got
}

func BenchmarkCommit(b *testing.B) {
	for _, sync := range []log.SyncPolicy{log.SyncNever, log.SyncAlways} {
		b.Run(sync.String(), func(b *testing.B) {
			h := benchHouse(b, sync)
			loaded(b, h, 1, 100)
			m := h.join("g", MemberConfig{Topics: []string{"a"}, ManualCommit: true})
			require.Len(b, h.pollOnce(m), 100)
			cl := m.claims[TopicPartition{"a", 0}]
			for b.Loop() {
				cl.handed++ // as if a record had been handed out
				require.NoError(b, m.Commit(b.Context()))
			}
		})
	}
}

// BenchmarkRebalance is the time from a leave until everybody has what was left, with all members waiting in Poll.
func BenchmarkRebalance(b *testing.B) {
	for _, size := range []struct{ members, partitions int }{{2, 10}, {10, 100}, {100, 1000}} {
		b.Run(fmt.Sprintf("%dmembers/%dpartitions", size.members, size.partitions), func(b *testing.B) {
			h := newHouseOn(b, vfs.NewMem(vfstest.HostDir(b)), "data", Options{Sync: log.SyncNever})
			h.topic("a", size.partitions)
			ctx, cancel := context.WithCancel(b.Context())
			var wg sync.WaitGroup
			join := func() *Member {
				m := h.join("g", MemberConfig{Topics: []string{"a"}})
				wg.Go(func() { _, _ = m.Poll(ctx) })
				return m
			}
			var ms []*Member
			for range size.members {
				ms = append(ms, join())
			}
			all := func() {
				for h.owners.owned() < size.partitions {
					time.Sleep(50 * time.Microsecond)
				}
			}
			all()
			for b.Loop() {
				b.StopTimer()
				time.Sleep(2 * mergeWindow)
				all()
				b.StartTimer()
				require.NoError(b, ms[0].Close())
				all()
				b.StopTimer()
				ms = append(ms[1:], join())
				time.Sleep(2 * mergeWindow)
				all()
				b.StartTimer()
			}
			cancel()
			wg.Wait()
		})
	}
}
