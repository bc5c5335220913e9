package journal

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/internal/vfs/vfstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testDir = "/data"

func topicID(n int) string { return fmt.Sprintf("%032x", n) }

func created(n, partitions int) Event {
	return Event{TopicCreated: &TopicCreated{
		ID: topicID(n), Name: fmt.Sprintf("topic-%d", n), Partitions: partitions,
		Config: json.RawMessage(`{ "a": "<b>" }`), Time: time.UnixMilli(int64(n) * 1e9),
	}}
}

func committed(group string, topic, partition int, next int64) Event {
	return Event{OffsetsCommitted: &OffsetsCommitted{Group: group, Offsets: []Offset{{
		TopicPartition{topicID(topic), partition}, Committed{Next: next, Epoch: 3, Metadata: "m"},
	}}}}
}

// clone returns a copy of the state that stays as it is.
func (s *State) clone() *State {
	c := newState()
	for e := range s.events() {
		b, _ := json.Marshal([]Event{e})
		events, err := decodeEvents(b)
		if err != nil {
			panic(err)
		}
		c.apply(events[0])
	}
	c.Seq = s.Seq
	return c
}

// stateOf returns a copy of the journal's state.
func stateOf(j *Journal) (c *State) {
	j.View(func(s *State) { c = s.clone() })
	return c
}

func newMem(t testing.TB) *vfs.Mem {
	m := vfs.NewMem(vfstest.HostDir(t))
	require.NoError(t, m.MkdirAll(testDir))
	require.NoError(t, m.SyncDir("/"))
	return m
}

// onEach runs the test over both file systems.
func onEach(t *testing.T, test func(t *testing.T, fs vfs.FS, dir string)) {
	t.Run("mem", func(t *testing.T) { test(t, newMem(t), testDir) })
	t.Run("os", func(t *testing.T) { test(t, vfs.OS, t.TempDir()) })
}

func mustCreate(t testing.TB, fs vfs.FS, dir string, opts Options) *Journal {
	j, err := Create(fs, dir, opts)
	require.NoError(t, err)
	return j
}

func mustOpen(t testing.TB, fs vfs.FS, dir string, opts Options) (*Journal, Report) {
	j, r, err := Open(fs, dir, opts)
	require.NoError(t, err)
	return j, r
}

// journalFile returns the path and content of the file in force.
func journalFile(t testing.TB, fs vfs.FS, dir string) (string, []byte) {
	l, err := list(fs, dir)
	require.NoError(t, err)
	name := fileIn(l.path(l.newest()))
	return name, readFile(t, fs, name)
}

func readFile(t testing.TB, fs vfs.FS, name string) []byte {
	f, err := fs.OpenRead(name)
	require.NoError(t, err)
	defer f.Close()
	size, err := f.Size()
	require.NoError(t, err)
	b := make([]byte, size)
	if size > 0 {
		_, err = f.ReadAt(b, 0)
		require.NoError(t, err)
	}
	return b
}

// setFile replaces a file's content.
func setFile(t testing.TB, fs vfs.FS, name string, content []byte) {
	f, err := fs.Open(name)
	if os.IsNotExist(err) {
		f, err = fs.Create(name)
	}
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Truncate(0))
	if len(content) > 0 {
		_, err = f.WriteAt(content, 0)
		require.NoError(t, err)
	}
	require.NoError(t, f.Sync())
}

// entriesOf scans all frames.
func entriesOf(t testing.TB, fs vfs.FS, dir string) (entries []Entry) {
	_, err := Scan(fs, dir, func(e Entry) error {
		entries = append(entries, e)
		return nil
	})
	require.NoError(t, err)
	return entries
}

// randomCall returns a call that fits the state, most of the time with several events.
func randomCall(rng *rand.Rand, s *State) (events []Event) {
	d := draft{state: s}
	for want := 1 + rng.IntN(3); len(events) < want; {
		if e := randomEvent(rng); d.admit([]Event{e}) == nil {
			events = append(events, e)
		}
	}
	return events
}

func randomEvent(rng *rand.Rand) Event {
	const topics, partitions = 6, 5
	id, p := topicID(rng.IntN(topics)), TopicPartition{topicID(rng.IntN(topics)), rng.IntN(partitions)}
	group := fmt.Sprintf("group-%d", rng.IntN(4))
	switch rng.IntN(12) {
	case 0, 1:
		return created(rng.IntN(topics), 1+rng.IntN(partitions))
	case 2:
		return Event{PartitionsAdded: &PartitionsAdded{id, 1 + rng.IntN(partitions)}}
	case 3:
		return Event{TopicConfigured: &TopicConfigured{id, json.RawMessage(fmt.Sprintf(`[%d, null]`, rng.IntN(9)))}}
	case 4:
		return Event{TopicDeleted: &TopicDeleted{id}}
	case 5:
		return Event{TopicPurged: &TopicPurged{id}}
	case 6:
		return Event{PartitionChanged: &PartitionChanged{p, PartitionState{rng.Int32N(5), "a", []string{"a", "b"}}}}
	case 7:
		return Event{OffsetsDeleted: &OffsetsDeleted{group, []TopicPartition{p}}}
	case 8:
		return Event{GroupDeleted: &GroupDeleted{group}}
	default:
		return Event{OffsetsCommitted: &OffsetsCommitted{group, []Offset{
			{p, Committed{Next: rng.Int64N(1e6), Epoch: rng.Int32N(4) - 1, Metadata: "é\n\x00"}},
		}}}
	}
}
