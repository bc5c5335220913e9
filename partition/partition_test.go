package partition_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/partition"
	"github.com/ottlalog/ottla/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB, fs vfs.FS, cfg log.Config) *partition.Partition {
	t.Helper()
	cfg.SegmentBytes = 8 << 10
	p, err := partition.Open(fs, partition.Config{Topic: "orders", Number: 3, Dir: "orders-3", Epoch: 7, Log: cfg})
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func newMem(t testing.TB) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem("")
	require.NoError(t, mem.MkdirAll("orders-3"))
	return mem
}

func send(t testing.TB, p *partition.Partition, values ...string) {
	t.Helper()
	for _, v := range values {
		_, err := p.Append(t.Context(), []record.Record{{Value: []byte(v)}})
		require.NoError(t, err)
	}
}

func TestRecordsComeBackAsTheyWereSent(t *testing.T) {
	p := open(t, newMem(t), log.Config{})
	sent := []record.Record{
		{Time: time.UnixMilli(-5), Key: nil, Value: nil},
		{Time: time.UnixMilli(math.MaxInt64), Key: []byte{}, Value: []byte{}},
		{Time: time.UnixMilli(1), Key: []byte("k"), Value: bytes.Repeat([]byte("v"), 20_000), Headers: []record.Header{
			{Key: "a", Value: []byte("1")}, {Key: "", Value: nil}, {Key: "a", Value: []byte{}}}},
	}
	at, err := p.Append(t.Context(), sent)
	require.NoError(t, err)
	require.Equal(t, log.Appended{Base: 0, Next: 3}, at)

	r, err := p.NewReader(partition.Earliest)
	require.NoError(t, err)
	defer r.Close()
	got, err := r.Read(nil, 10)
	require.NoError(t, err)
	require.Len(t, got, 3)
	for i, want := range sent {
		require.Equal(t, "orders", got[i].Topic)
		require.Equal(t, 3, got[i].Partition)
		require.EqualValues(t, i, got[i].Offset)
		require.Equal(t, want.Time.UnixMilli(), got[i].Time.UnixMilli())
		require.Equal(t, want.Key, got[i].Key, "nil and empty differ")
		require.Equal(t, want.Value, got[i].Value)
		require.Len(t, got[i].Headers, len(want.Headers))
		for j, h := range want.Headers {
			require.Equal(t, h, got[i].Headers[j])
		}
	}
}

func TestRecordsThatWereReadAreTheCallersOwn(t *testing.T) {
	p := open(t, newMem(t), log.Config{})
	send(t, p, "first", "second")
	r, err := p.NewReader(partition.Earliest)
	require.NoError(t, err)
	for view, err := range r.Views(t.Context()) { // Views first: its batch isn't the caller's
		require.NoError(t, err)
		require.Equal(t, "first", string(view.Value))
		break
	}
	rec, err := r.Next(t.Context())
	require.NoError(t, err)
	require.NoError(t, r.Close())
	for range 3000 {
		send(t, p, "another")
	}
	require.NoError(t, p.DeleteBefore(t.Context(), 2000))
	require.NoError(t, p.Close())
	require.Equal(t, "second", string(rec.Value))
}

func TestNextWaitsForARecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, newMem(t), log.Config{})
		r, err := p.NewReader(partition.Latest)
		require.NoError(t, err)
		got := make(chan string)
		go func() {
			for rec, err := range r.Records(t.Context()) {
				if err != nil {
					require.ErrorIs(t, err, log.ErrClosed)
					close(got)
					return
				}
				got <- string(rec.Value)
			}
		}()
		for i := range 3 {
			synctest.Wait()
			send(t, p, fmt.Sprint(i))
			require.Equal(t, fmt.Sprint(i), <-got)
		}
		synctest.Wait()
		require.NoError(t, p.Close())
		_, more := <-got
		require.False(t, more, "Close wakes who waits")
		require.NoError(t, r.Close())
	})
}

func TestStarts(t *testing.T) {
	p := open(t, newMem(t), log.Config{})
	for i := range 100 {
		_, err := p.Append(t.Context(), []record.Record{{Time: time.UnixMilli(int64(1000 + 10*i))}})
		require.NoError(t, err)
	}
	require.NoError(t, p.DeleteBefore(t.Context(), 20))
	for start, want := range map[partition.Start]int64{
		partition.Earliest:                     20,
		partition.Latest:                       100,
		partition.At(20):                       20,
		partition.At(100):                      100,
		partition.AtTime(time.UnixMilli(0)):    20,
		partition.AtTime(time.UnixMilli(1501)): 51,
		partition.AtTime(time.UnixMilli(9999)): 100,
	} {
		r, err := p.NewReader(start)
		require.NoError(t, err, start)
		require.Equal(t, want, r.Offset(), start)
		require.NoError(t, r.Close())
	}
	for _, offset := range []int64{-1, 19, 101} {
		_, err := p.NewReader(partition.At(offset))
		var e *log.OffsetError
		require.ErrorAs(t, err, &e)
		require.Equal(t, log.OffsetError{Asked: offset, Start: 20, End: 100}, *e)
	}
}

func TestUnderSyncAlwaysNothingIsSeenBeforeItIsOnTheDisk(t *testing.T) {
	mem := newMem(t)
	broken := errors.New("disk broke")
	fault := vfs.NewFault(mem, nil)
	p := open(t, fault, log.Config{})
	send(t, p, "safe")
	fault.Decide(func(op vfs.Op) vfs.Outcome {
		if op.Kind == vfs.KindMsync {
			return vfs.Outcome{Err: broken}
		}
		return vfs.Outcome{}
	})
	_, err := p.Append(t.Context(), []record.Record{{Value: []byte("not safe")}})
	require.ErrorIs(t, err, broken)
	var se *partition.SendError
	require.ErrorAs(t, err, &se)
	require.Equal(t, partition.Unknown, se.Outcome)
	require.EqualValues(t, 1, p.HighWatermark())
	r, err := p.NewReader(partition.Earliest)
	require.NoError(t, err)
	defer r.Close()
	got, err := r.Read(nil, 10)
	require.NoError(t, err)
	require.Len(t, got, 1)

	fault.Decide(nil) // the disk comes back; what was lost is lost
	_, err = p.Append(t.Context(), []record.Record{{}})
	require.ErrorIs(t, err, log.ErrFailed)
	require.ErrorIs(t, err, broken, "the first cause")
	require.ErrorAs(t, err, &se)
	require.Equal(t, partition.NotStored, se.Outcome)
	require.ErrorIs(t, p.Err(), log.ErrFailed)
}

func TestACancelledContextStoresNothing(t *testing.T) {
	p := open(t, newMem(t), log.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := p.Append(ctx, []record.Record{{}})
	require.ErrorIs(t, err, context.Canceled)
	var se *partition.SendError
	require.ErrorAs(t, err, &se)
	require.Equal(t, partition.NotStored, se.Outcome)
	require.Zero(t, p.EndOffset())
}

func TestAnUnavailablePartitionSaysWhyInEveryMethod(t *testing.T) {
	p, err := partition.Open(vfs.NewMem(""), partition.Config{Topic: "orders", Dir: "missing"})
	require.NoError(t, err, "not the broker's end")
	for range 2 {
		require.ErrorIs(t, p.Err(), partition.ErrNoLeader)
		_, err = p.Append(t.Context(), []record.Record{{}})
		require.ErrorIs(t, err, partition.ErrNoLeader)
		require.ErrorIs(t, p.Await(t.Context(), 1), partition.ErrNoLeader)
		_, err = p.NewReader(partition.Earliest)
		require.ErrorIs(t, err, partition.ErrNoLeader)
		_, err = p.OffsetForTime(time.Now())
		require.ErrorIs(t, err, partition.ErrNoLeader)
		require.ErrorIs(t, p.DeleteBefore(t.Context(), 1), partition.ErrNoLeader)
		require.ErrorIs(t, p.Sync(t.Context()), partition.ErrNoLeader)
		require.Zero(t, p.StartOffset()+p.HighWatermark()+p.EndOffset()+p.Size())
		require.NoError(t, p.Tick(t.Context(), time.Now()))
		require.NoError(t, p.Close())
	}
}

func TestEpochIsStampedIntoEachBatch(t *testing.T) {
	mem := newMem(t)
	p := open(t, mem, log.Config{})
	require.EqualValues(t, 7, p.Epoch())
	send(t, p, "x")
	require.NoError(t, p.Close())
	f, err := mem.OpenRead("orders-3/00000000000000000000.log")
	require.NoError(t, err)
	defer f.Close()
	b := make([]byte, 61)
	_, err = f.ReadAt(b, 0)
	require.NoError(t, err)
	h, err := record.ParseHeader(b)
	require.NoError(t, err)
	require.EqualValues(t, 7, h.LeaderEpoch)
}

func TestViewsAllocateNothing(t *testing.T) {
	p := open(t, newMem(t), log.Config{Sync: log.SyncNever})
	const n = 1000
	recs := make([]record.Record, n)
	for i := range recs {
		recs[i] = record.Record{Key: []byte("key"), Value: make([]byte, 100), Time: time.UnixMilli(1)}
	}
	_, err := p.Append(t.Context(), recs)
	require.NoError(t, err)
	r, err := p.NewReader(partition.Earliest)
	require.NoError(t, err)
	defer r.Close()
	perRun := testing.AllocsPerRun(20, func() {
		require.NoError(t, r.SeekTo(partition.Earliest))
		read := 0
		for _, err := range r.Views(t.Context()) {
			if err != nil {
				t.Error(err)
			}
			if read++; read == n {
				break
			}
		}
	})
	require.Less(t, perRun, 20.0, "for a thousand records")
}

func TestAContextThatHasEndedStopsAReaderThatHasMoreToRead(t *testing.T) {
	p := open(t, newMem(t), log.Config{})
	for range 3 { // batches
		_, err := p.Append(t.Context(), make([]record.Record, 10))
		require.NoError(t, err)
	}
	r, err := p.NewReader(partition.Earliest)
	require.NoError(t, err)
	defer r.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	read := 0
	for _, err = range r.Records(ctx) {
		if err == nil {
			read++
		}
		cancel()
	}
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, read)

	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	read = 0
	for _, err = range r.Views(ctx) {
		if err == nil {
			read++
		}
		cancel()
	}
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 9, read, "to the end of the batch")
	recs, err := r.Read(nil, 100)
	require.NoError(t, err)
	require.Len(t, recs, 20, "it stayed where it was")
}

func TestAClosedReaderHoldsNothing(t *testing.T) {
	mem := newMem(t)
	p := open(t, mem, log.Config{})
	send(t, p, "x", "y")
	_, before, _ := mem.Handles()
	r, err := p.NewReader(partition.Earliest)
	require.NoError(t, err)
	_, err = r.Next(t.Context())
	require.NoError(t, err)
	require.NoError(t, r.Close())
	_, err = r.Next(t.Context())
	require.ErrorIs(t, err, log.ErrClosed)
	_, err = r.Read(nil, 1)
	require.ErrorIs(t, err, log.ErrClosed)
	require.ErrorIs(t, r.SeekTo(partition.Earliest), log.ErrClosed)
	require.NoError(t, r.Close())
	_, after, _ := mem.Handles()
	require.Equal(t, before, after)
}

// TestEarliestIsThereWhileRetentionRuns opens readers while the start offset moves: it may move between the question where
// the log starts and the answer's use.
func TestEarliestIsThereWhileRetentionRuns(t *testing.T) {
	p := open(t, newMem(t), log.Config{Sync: log.SyncNever})
	const n = 3000
	_, err := p.Append(t.Context(), make([]record.Record, n))
	require.NoError(t, err)
	moved := make(chan error, 1)
	go func() {
		var err error
		for i := int64(1); i <= n && err == nil; i++ {
			err = p.DeleteBefore(context.Background(), i)
		}
		moved <- err
	}()
	for {
		for _, start := range []partition.Start{partition.Earliest, partition.AtTime(time.Unix(0, 0))} {
			r, err := p.NewReader(start)
			require.NoError(t, err)
			require.NoError(t, r.SeekTo(start))
			require.NoError(t, r.Close())
		}
		select {
		case err := <-moved:
			require.NoError(t, err)
			return
		default:
		}
	}
}

func TestWaitingForARecordAllocatesNothing(t *testing.T) {
	p := open(t, newMem(t), log.Config{Sync: log.SyncNever})
	r, err := p.NewReader(partition.Latest)
	require.NoError(t, err)
	defer r.Close()
	got := make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, err := range r.Views(ctx) {
			if err != nil {
				return
			}
			got <- err
		}
	}()
	recs := []record.Record{{Value: []byte("x"), Time: time.UnixMilli(1)}}
	perWait := testing.AllocsPerRun(1000, func() {
		_, err := p.Append(ctx, recs)
		if err = errors.Join(err, <-got); err != nil {
			t.Error(err)
		}
	})
	require.Less(t, perWait, 1.0)
	cancel()
	<-done
}

// TestABatchWithoutRecordsAtTheEndIsWaitedBehind: compaction and repairs leave such batches. Who has read them waits for the
// next record; in a bubble, time stands still for who doesn't wait.
func TestABatchWithoutRecordsAtTheEndIsWaitedBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := newMem(t)
		p := open(t, mem, log.Config{})
		_, err := p.Append(t.Context(), make([]record.Record, 3))
		require.NoError(t, err)
		require.NoError(t, p.Close())
		h := record.HeaderAt(0, 0)
		h.LastOffsetDelta = 2
		layout, err := record.Replan(h, nil)
		require.NoError(t, err)
		b := make([]byte, layout.Size)
		layout.Put(b, h, nil)
		f, err := mem.Open("orders-3/00000000000000000000.log")
		require.NoError(t, err)
		require.NoError(t, f.Truncate(int64(len(b))))
		_, err = f.WriteAt(b, 0)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		require.NoError(t, log.StorePoint(mem, "orders-3", log.RecoveryPoint{Offset: 3, Pos: int64(len(b))}))

		p = open(t, mem, log.Config{})
		r, err := p.NewReader(partition.Earliest)
		require.NoError(t, err)
		defer r.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = r.Next(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.EqualValues(t, 3, r.Offset())
		send(t, p, "x")
		rec, err := r.Next(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 3, rec.Offset)
	})
}

// TestTheStartMayLieInsideABatch: what is below it can't be read, whether the start moved before the reader came or under it,
// and also by the next process.
func TestTheStartMayLieInsideABatch(t *testing.T) {
	mem := newMem(t)
	p := open(t, mem, log.Config{})
	recs := make([]record.Record, 10)
	for i := range recs {
		recs[i] = record.Record{Value: fmt.Append(nil, i), Time: time.UnixMilli(int64(i))}
	}
	_, err := p.Append(t.Context(), recs)
	require.NoError(t, err)
	early, err := p.NewReader(partition.Earliest)
	require.NoError(t, err)
	require.NoError(t, p.DeleteBefore(t.Context(), 4))
	_, err = early.Read(nil, 10)
	require.ErrorIs(t, err, log.ErrOffsetOutOfRange)
	require.NoError(t, early.SeekTo(partition.Earliest))
	for range 2 {
		for _, start := range []partition.Start{partition.Earliest, partition.At(4), partition.AtTime(time.UnixMilli(1))} {
			r, err := p.NewReader(start)
			require.NoError(t, err)
			got, err := r.Read(nil, 10)
			require.NoError(t, err)
			require.Len(t, got, 6, start)
			require.EqualValues(t, 4, got[0].Offset, start)
			require.Equal(t, "4", string(got[0].Value), start)
			require.NoError(t, r.Close())
		}
		if early != nil {
			got, err := early.Read(nil, 10)
			require.NoError(t, err)
			require.Len(t, got, 6)
			require.NoError(t, early.Close())
			early = nil
		}
		require.NoError(t, p.Close())
		p = open(t, mem, log.Config{})
	}
}
