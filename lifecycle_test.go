package ottla_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla"
)

// TestDeletedTopicsLeaveNothing counts descriptors and mappings in one life of a broker.
func TestDeletedTopicsLeaveNothing(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("counts in /proc")
	}
	dir := t.TempDir()
	b := open(t, dir, ottla.Options{Sync: ottla.SyncNever})
	p, err := b.NewProducer(ottla.ProducerConfig{})
	require.NoError(t, err)
	live := func() {
		tp, err := b.CreateTopic(t.Context(), "a", ottla.TopicConfig{Partitions: 2, SegmentBytes: 8 << 10})
		require.NoError(t, err)
		for range 5 {
			_, err := p.SendBatch(t.Context(), "a", []ottla.Record{{Value: make([]byte, 5000)}, {Value: make([]byte, 5000)}})
			require.NoError(t, err)
		}
		r, err := tp.Partition(0).NewReader(ottla.Earliest)
		require.NoError(t, err)
		_, err = r.Read(nil, 1)
		require.NoError(t, err)
		require.NoError(t, b.DeleteTopic(t.Context(), "a"))
		require.NoError(t, r.Close())
	}
	live()
	runtime.GC() // folders that were listed
	files, maps := countOpen(t, dir)
	goroutines := runtime.NumGoroutine()
	for range 12 {
		live()
	}
	runtime.GC()
	filesAfter, mapsAfter := countOpen(t, dir)
	require.LessOrEqual(t, filesAfter, files)
	require.Equal(t, maps, mapsAfter)
	require.LessOrEqual(t, runtime.NumGoroutine(), goroutines)
	require.NoError(t, b.Close())
}

// TestOneOfManyOpensWins: the others hear who did, and have changed nothing.
func TestOneOfManyOpensWins(t *testing.T) {
	dir := t.TempDir()
	for range 5 {
		var won atomic.Pointer[ottla.Broker]
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				b, err := ottla.Open(dir, ottla.Options{})
				switch {
				case err == nil && !won.CompareAndSwap(nil, b):
					t.Error("two have it open")
				case err != nil && !errors.Is(err, ottla.ErrLocked):
					t.Error(err)
				}
			})
		}
		wg.Wait()
		require.NotNil(t, won.Load())
		before := listing(t, dir)
		_, err := ottla.Open(dir, ottla.Options{})
		require.ErrorIs(t, err, ottla.ErrLocked)
		require.Equal(t, before, listing(t, dir))
		require.NoError(t, won.Load().Close())
	}
}

// TestOnlyTheLockCounts and not the file that it is taken on, whatever that says.
func TestOnlyTheLockCounts(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, open(t, dir, ottla.Options{}).Close())
	lock := filepath.Join(dir, "ottla.lock")
	for _, content := range []string{"", "rubbish", fmt.Sprintf(`{"pid":%d,"host":"here"}`, os.Getpid()), `{"pid":1}`} {
		require.NoError(t, os.WriteFile(lock, []byte(content), 0o600))
		require.NoError(t, open(t, dir, ottla.Options{}).Close())
	}
	require.NoError(t, os.Remove(lock))
	require.NoError(t, open(t, dir, ottla.Options{}).Close())
	require.NoError(t, os.Remove(lock))
	require.NoError(t, os.Mkdir(lock, 0o700))
	for range 2 {
		_, err := ottla.Open(dir, ottla.Options{})
		require.ErrorContains(t, err, lock)
	}
}

// TestAFolderThatIsRemovedUnderARunningBroker: its partition says so, the others and the broker go on, and it isn't made anew
// with offsets from 0, neither now nor by the next Open.
func TestAFolderThatIsRemovedUnderARunningBroker(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, ottla.Options{})
	tp, err := b.CreateTopic(t.Context(), "a", ottla.TopicConfig{Partitions: 2, SegmentBytes: 8 << 10})
	require.NoError(t, err)
	sendTo := func(n int) error {
		_, err := tp.Partition(n).Append(t.Context(), []ottla.Record{{Value: make([]byte, 3000)}})
		return err
	}
	for range 10 {
		require.NoError(t, sendTo(0))
		require.NoError(t, sendTo(1))
	}
	folder := filepath.Join(dir, "a-0")
	require.NoError(t, os.RemoveAll(folder))
	for err == nil { // what is mapped is there until the segment is full
		err = sendTo(0)
	}
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, folder)
	require.ErrorIs(t, sendTo(0), ottla.ErrFailed)
	require.ErrorIs(t, tp.Partition(0).Tick(t.Context(), time.Now()), ottla.ErrFailed)
	require.ErrorIs(t, tp.Partition(0).DeleteBefore(t.Context(), 5), ottla.ErrFailed)
	r, err := tp.Partition(0).NewReader(ottla.Earliest)
	require.NoError(t, err)
	_, err = r.Read(nil, 1)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NotErrorIs(t, err, ottla.ErrCorrupt)
	require.NoError(t, r.Close())

	require.NoError(t, sendTo(1))
	require.NoError(t, tp.Partition(1).DeleteBefore(t.Context(), 5))
	require.Len(t, b.Health().Partitions, 1)
	require.ErrorIs(t, b.Close(), ottla.ErrFailed)
	require.NoDirExists(t, folder)

	b = open(t, dir, ottla.Options{})
	tp, err = b.Topic("a")
	require.NoError(t, err)
	require.ErrorIs(t, sendTo(0), ottla.ErrNoLeader)
	require.NoError(t, sendTo(1))
	require.EqualValues(t, 12, tp.Partition(1).EndOffset())
	require.NoDirExists(t, folder)
	require.NoError(t, b.Close())
}

// TestADirectoryThatIsRemovedUnderARunningBroker: whoever needs a file of it hears that it is missing, the broker can be closed,
// and nothing of the directory comes back meanwhile.
func TestADirectoryThatIsRemovedUnderARunningBroker(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	b := open(t, dir, ottla.Options{})
	tp, err := b.CreateTopic(t.Context(), "a", ottla.TopicConfig{Partitions: 2, SegmentBytes: 8 << 10})
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(dir))
	for n := range tp.Partitions() {
		for err = nil; err == nil; {
			_, err = tp.Partition(n).Append(t.Context(), []ottla.Record{{Value: make([]byte, 3000)}})
		}
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.ErrorContains(t, err, dir)
	}
	require.ErrorIs(t, b.Close(), fs.ErrNotExist)
	require.NoDirExists(t, dir)
}
