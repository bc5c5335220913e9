package journal

import (
	"encoding/json"
	"errors"
	"io/fs"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/internal/vfs"
)

func TestReopenFindsTheSameState(t *testing.T) {
	onEach(t, func(t *testing.T, fsys vfs.FS, dir string) {
		_, _, err := Open(fsys, dir, Options{})
		require.ErrorIs(t, err, fs.ErrNotExist)
		j := mustCreate(t, fsys, dir, Options{})
		_, err = Create(fsys, dir, Options{})
		require.ErrorIs(t, err, fs.ErrExist)

		require.NoError(t, j.Append(created(1, 3), created(2, 1)))
		require.NoError(t, j.Write(committed("g", 1, 2, 77)))
		require.NoError(t, j.Write())
		require.NoError(t, j.Sync())
		require.NoError(t, j.Append())
		j.View(func(s *State) {
			topic, ok := s.Topic("topic-1")
			require.True(t, ok)
			require.Equal(t, 3, topic.Partitions)
			require.JSONEq(t, `{"a":"<b>"}`, string(topic.Config))
			require.Equal(t, int64(77), s.Groups["g"][TopicPartition{topicID(1), 2}].Next)
			require.Equal(t, uint64(2), s.Seq)
			_, ok = s.Topic("no")
			require.False(t, ok)
		})
		before := stateOf(j)
		require.NoError(t, j.Close())
		require.NoError(t, j.Close())
		require.ErrorIs(t, j.Append(created(3, 1)), ErrClosed)
		require.ErrorIs(t, j.Write(created(3, 1)), ErrClosed)
		require.ErrorIs(t, j.Sync(), ErrClosed)
		require.Equal(t, before, stateOf(j))

		for range 3 {
			j, r := mustOpen(t, fsys, dir, Options{})
			require.Equal(t, before, stateOf(j))
			require.Zero(t, r.CutBytes)
			require.Equal(t, uint64(2), r.Seq)
			require.NoError(t, j.Close())
		}
		entries := entriesOf(t, fsys, dir)
		require.Equal(t, KindMark, entries[len(entries)-1].Kind)
		require.Len(t, entries, 4) // end of snapshot, two calls, one mark
	})
}

func TestCallersMemoryIsNotShared(t *testing.T) {
	j := mustCreate(t, newMem(t), testDir, Options{})
	defer j.Close()
	e := created(1, 1)
	require.NoError(t, j.Append(e))
	before := stateOf(j)
	e.TopicCreated.Partitions = 9
	e.TopicCreated.Config[2] = 'x'
	require.Equal(t, before, stateOf(j))
}

func TestEventsThatDontFit(t *testing.T) {
	fsys := newMem(t)
	j := mustCreate(t, fsys, testDir, Options{})
	require.NoError(t, j.Append(created(1, 3), created(2, 3), committed("g", 1, 1, 5)))
	require.NoError(t, j.Append(Event{TopicDeleted: &TopicDeleted{topicID(2)}},
		Event{PartitionChanged: &PartitionChanged{TopicPartition{topicID(1), 0}, PartitionState{Epoch: 4}}}))
	before := stateOf(j)

	sameName := created(7, 1)
	sameName.TopicCreated.Name = "topic-1"
	nameOfDeleted := created(7, 1)
	nameOfDeleted.TopicCreated.Name = "topic-2"
	badConfig := created(7, 1)
	badConfig.TopicCreated.Config = json.RawMessage(`{`)
	badName := created(7, 1)
	badName.TopicCreated.Name = "\xff"
	badTime := created(7, 1)
	badTime.TopicCreated.Time = time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC)
	badMetadata := committed("g", 1, 0, 1)
	badMetadata.OffsetsCommitted.Offsets[0].Metadata = "\xff"
	huge := committed("g", 1, 0, 1)
	huge.OffsetsCommitted.Offsets[0].Metadata = strings.Repeat("x", maxPayload)
	two := created(7, 1)
	two.GroupDeleted = &GroupDeleted{"g"}
	partition := func(p int) TopicPartition { return TopicPartition{topicID(1), p} }

	for name, c := range map[string]struct {
		event Event
		want  error
	}{
		"nothing":            {Event{}, ErrInvalid},
		"two members":        {two, ErrInvalid},
		"same ID":            {created(1, 1), ErrTopicExists},
		"ID of a deleted":    {created(2, 1), ErrTopicExists},
		"same name":          {sameName, ErrTopicExists},
		"name of a deleted":  {nameOfDeleted, ErrTopicExists},
		"no partitions":      {created(7, 0), ErrInvalid},
		"config":             {badConfig, ErrInvalid},
		"name":               {badName, ErrInvalid},
		"time":               {badTime, ErrInvalid},
		"ID":                 {Event{TopicDeleted: &TopicDeleted{"x"}}, ErrInvalid},
		"ID in capitals":     {Event{TopicDeleted: &TopicDeleted{strings.Repeat("A", 32)}}, ErrInvalid},
		"unknown deleted":    {Event{TopicDeleted: &TopicDeleted{topicID(9)}}, ErrUnknownTopic},
		"deleted deleted":    {Event{TopicDeleted: &TopicDeleted{topicID(2)}}, ErrUnknownTopic},
		"live purged":        {Event{TopicPurged: &TopicPurged{topicID(1)}}, ErrUnknownTopic},
		"unknown configured": {Event{TopicConfigured: &TopicConfigured{ID: topicID(9)}}, ErrUnknownTopic},
		"fewer partitions":   {Event{PartitionsAdded: &PartitionsAdded{topicID(1), 3}}, ErrInvalid},
		"unknown grown":      {Event{PartitionsAdded: &PartitionsAdded{topicID(9), 3}}, ErrUnknownTopic},
		"unknown partition":  {committed("g", 1, 3, 0), ErrUnknownPartition},
		"negative partition": {committed("g", 1, -1, 0), ErrUnknownPartition},
		"unknown topic":      {committed("g", 9, 0, 0), ErrUnknownTopic},
		"deleted topic":      {committed("g", 2, 0, 0), ErrUnknownTopic},
		"negative offset":    {committed("g", 1, 0, -1), ErrInvalid},
		"no group":           {committed("", 1, 0, 1), ErrInvalid},
		"metadata":           {badMetadata, ErrInvalid},
		"size":               {huge, ErrInvalid},
		"no offsets":         {Event{OffsetsCommitted: &OffsetsCommitted{Group: "g"}}, ErrInvalid},
		"epoch falls":        {Event{PartitionChanged: &PartitionChanged{partition(0), PartitionState{Epoch: 3}}}, ErrInvalid},
		"negative epoch":     {Event{PartitionChanged: &PartitionChanged{partition(1), PartitionState{Epoch: -1}}}, ErrInvalid},
		"state of unknown":   {Event{PartitionChanged: &PartitionChanged{partition(3), PartitionState{}}}, ErrUnknownPartition},
		"group of no name":   {Event{GroupDeleted: &GroupDeleted{}}, ErrInvalid},
		"offsets of bad ID":  {Event{OffsetsDeleted: &OffsetsDeleted{"g", []TopicPartition{{"x", 0}}}}, ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, j.Append(c.event), c.want)
			require.ErrorIs(t, j.Write(created(8, 1), committed("g", 8, 0, 1), c.event), c.want) // none of the call
			require.Equal(t, before, stateOf(j))
		})
	}
	require.NoError(t, j.Append(Event{TopicPurged: &TopicPurged{topicID(2)}}, nameOfDeleted)) // in one call
	require.NoError(t, j.Close())
	j, _ = mustOpen(t, fsys, testDir, Options{})
	defer j.Close()
	j.View(func(s *State) { require.Equal(t, topicID(7), s.names["topic-2"]) })
}

// The calls of one turn are judged in their order, with what those before change.
func TestDraftAcrossCalls(t *testing.T) {
	d := draft{state: newState()}
	p := TopicPartition{topicID(1), 4}
	epoch := func(e int32) Event { return Event{PartitionChanged: &PartitionChanged{p, PartitionState{Epoch: e}}} }
	require.ErrorIs(t, d.admit([]Event{created(1, 2), created(1, 2)}), ErrTopicExists)
	require.NoError(t, d.admit([]Event{created(1, 2)}))
	require.ErrorIs(t, d.admit([]Event{{PartitionsAdded: &PartitionsAdded{topicID(1), 5}}, epoch(7), epoch(6)}), ErrInvalid)
	require.ErrorIs(t, d.admit([]Event{epoch(6)}), ErrUnknownPartition)
	require.NoError(t, d.admit([]Event{{PartitionsAdded: &PartitionsAdded{topicID(1), 5}}, epoch(6)}))
	require.ErrorIs(t, d.admit([]Event{epoch(5)}), ErrInvalid)
	require.NoError(t, d.admit([]Event{committed("g", 1, 4, 1), {TopicDeleted: &TopicDeleted{topicID(1)}}}))
	require.ErrorIs(t, d.admit([]Event{committed("g", 1, 4, 1)}), ErrUnknownTopic)
	require.ErrorIs(t, d.admit([]Event{{TopicPurged: &TopicPurged{topicID(1)}}, created(1, 0), epoch(1)}), ErrUnknownPartition)
	require.ErrorIs(t, d.admit([]Event{created(1, 2)}), ErrTopicExists)
	require.NoError(t, d.admit([]Event{{TopicPurged: &TopicPurged{topicID(1)}}, created(1, 2)}))
	require.Equal(t, newState(), d.state)
}

func TestRandomHistories(t *testing.T) {
	onEach(t, func(t *testing.T, fsys vfs.FS, dir string) {
		rng := rand.New(rand.NewPCG(1, 2))
		j := mustCreate(t, fsys, dir, Options{SnapshotBytes: 2000})
		model := newState()
		for step := range 600 {
			events := randomCall(rng, model)
			write := j.Append
			if rng.IntN(3) > 0 {
				write = j.Write
			}
			require.NoError(t, write(events...))
			_, decoded, err := prepare(events)
			require.NoError(t, err)
			require.NoError(t, model.replay(Entry{Seq: model.Seq + 1, Events: decoded}))
			if step%20 == 0 {
				require.NoError(t, j.Close())
				require.Equal(t, model, stateOf(j))
				j, _ = mustOpen(t, fsys, dir, Options{SnapshotBytes: 2000})
			}
		}
		require.Equal(t, model.clone(), stateOf(j))
		require.NoError(t, j.Close())
		l, err := list(fsys, dir)
		require.NoError(t, err)
		require.Greater(t, l.newest(), uint64(10), "snapshots were taken")
		require.Len(t, l.generations, 1)
		require.Empty(t, l.building)
	})
}

// A big state doesn't snapshot on each call, and its snapshot has many frames.
func TestSnapshotOfBigState(t *testing.T) {
	fsys := vfs.OS
	dir := t.TempDir()
	j := mustCreate(t, fsys, dir, Options{SnapshotBytes: 1000})
	var offsets []Offset
	require.NoError(t, j.Append(created(1, 5000)))
	for p := range 5000 {
		offsets = append(offsets, Offset{TopicPartition{topicID(1), p}, Committed{Next: 1, Metadata: strings.Repeat("m", p%100)}})
	}
	offsets[17].Metadata = strings.Repeat("<", 1<<17) // six times as long in JSON
	require.NoError(t, j.Append(Event{OffsetsCommitted: &OffsetsCommitted{"g", offsets}}))
	l, err := list(fsys, dir)
	require.NoError(t, err)
	taken := l.newest()
	for range 50 {
		require.NoError(t, j.Write(committed("g", 1, 0, 5)))
	}
	l, err = list(fsys, dir)
	require.NoError(t, err)
	require.Equal(t, taken, l.newest())
	before := stateOf(j)
	require.NoError(t, j.Close())
	j, _ = mustOpen(t, fsys, dir, Options{})
	require.Equal(t, before, stateOf(j))
	require.NoError(t, j.Close())
	require.Greater(t, len(entriesOf(t, fsys, dir)), 60)
}

func TestConcurrentAppendersShareSyncs(t *testing.T) {
	var syncs atomic.Int64
	fsys := vfs.NewFault(vfs.OS, func(op vfs.Op) (o vfs.Outcome) {
		if op.Kind == vfs.KindSync {
			syncs.Add(1)
			o.Delay = time.Millisecond
		}
		return o
	})
	dir := t.TempDir()
	j := mustCreate(t, fsys, dir, Options{SnapshotBytes: 20000})
	require.NoError(t, j.Append(created(0, 64)))
	const workers, rounds = 64, 20
	syncs.Store(0)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for n := range rounds {
				if err := j.Append(committed("g", 0, w, int64(n))); err != nil {
					t.Error(err)
				}
				j.View(func(s *State) {
					if got := s.Groups["g"][TopicPartition{topicID(0), w}].Next; got != int64(n) {
						t.Errorf("after commit of %d: %d", n, got)
					}
				})
				if n%7 == 0 {
					if err := errors.Join(j.Write(committed("h", 0, w, 1)), j.Sync()); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	require.Less(t, syncs.Load(), int64(workers*rounds/4))
	before := stateOf(j)
	require.NoError(t, j.Close())
	j, _ = mustOpen(t, fsys, dir, Options{})
	require.Equal(t, before, stateOf(j))
	require.NoError(t, j.Close())
}

// Nobody who waits for a sync blocks a reader, nor the clock of synctest.
func TestViewDoesntWaitForTheDisk(t *testing.T) {
	mem := newMem(t)
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.NewFault(mem, nil)
		j := mustCreate(t, fsys, testDir, Options{})
		fsys.Decide(func(op vfs.Op) (o vfs.Outcome) {
			if op.Kind == vfs.KindSync {
				o.Delay = time.Hour
			}
			return o
		})
		start := time.Now()
		var wg sync.WaitGroup
		for n := range 3 {
			wg.Go(func() {
				if err := j.Append(created(n, 1)); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		j.View(func(s *State) { require.Empty(t, s.Topics) }) // written, not durable, not visible
		require.Zero(t, time.Since(start))
		wg.Wait()
		require.Equal(t, 2*time.Hour, time.Since(start)) // the first, then the others together
		fsys.Decide(nil)
		require.NoError(t, j.Close())
	})
}

func TestCloseDuringCalls(t *testing.T) {
	for range 20 {
		fsys := newMem(t)
		j := mustCreate(t, fsys, testDir, Options{})
		var stored atomic.Int64
		var wg sync.WaitGroup
		for n := range 16 {
			wg.Go(func() {
				switch err := j.Append(created(n, 1)); {
				case err == nil:
					stored.Add(1)
				case !errors.Is(err, ErrClosed):
					t.Error(err)
				}
			})
		}
		for range 2 {
			wg.Go(func() {
				if err := j.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		files, _, _ := fsys.Handles()
		require.Zero(t, files)
		j, _ = mustOpen(t, fsys, testDir, Options{})
		require.Len(t, stateOf(j).Topics, int(stored.Load()))
		require.NoError(t, j.Close())
	}
}
