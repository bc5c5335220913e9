package ottla_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ottlalog/ottla"
	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/internal/vfs/vfstest"
)

func open(t testing.TB, dir string, opts ottla.Options) *ottla.Broker {
	t.Helper()
	b, err := ottla.Open(dir, opts)
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func send(t testing.TB, b *ottla.Broker, topic string, values ...string) {
	t.Helper()
	p, err := b.NewProducer(ottla.ProducerConfig{})
	require.NoError(t, err)
	for _, v := range values {
		_, err := p.Send(t.Context(), topic, ottla.Record{Value: []byte(v)})
		require.NoError(t, err)
	}
}

func TestOneDirectoryOneBroker(t *testing.T) {
	if dir := os.Getenv("OTTLA_TEST_LOCK_DIR"); dir != "" { // the other process
		_, err := ottla.Open(dir, ottla.Options{})
		fmt.Println(err)
		if errors.Is(err, ottla.ErrLocked) {
			os.Exit(42)
		}
		os.Exit(1)
	}
	dir := t.TempDir()
	b := open(t, dir, ottla.Options{})
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(dir, link))
	for _, same := range []string{dir, dir + "/.", link} {
		_, err := ottla.Open(same, ottla.Options{})
		require.ErrorIs(t, err, ottla.ErrLocked)
		require.ErrorContains(t, err, fmt.Sprintf("pid %d", os.Getpid()))
	}
	other := exec.Command(os.Args[0], "-test.run", "^TestOneDirectoryOneBroker$")
	other.Env = append(os.Environ(), "OTTLA_TEST_LOCK_DIR="+dir)
	out, err := other.CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 42, exit.ExitCode(), string(out))
	require.Contains(t, string(out), fmt.Sprintf("process %d", os.Getpid()))

	require.NoError(t, b.Close())
	open(t, dir, ottla.Options{})
}

func TestDirectoriesThatAreRefused(t *testing.T) {
	made := func(t *testing.T) string {
		dir := t.TempDir()
		b := open(t, dir, ottla.Options{})
		_, err := b.CreateTopic(t.Context(), "a", ottla.TopicConfig{})
		require.NoError(t, err)
		send(t, b, "a", "x")
		require.NoError(t, b.Close())
		return dir
	}
	overwrite := func(name, content string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
		}
	}
	remove := func(name string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) { require.NoError(t, os.RemoveAll(filepath.Join(dir, name))) }
	}
	for name, c := range map[string]struct {
		damage func(t *testing.T, dir string)
		names  string
	}{
		"meta of another version": {overwrite("meta", "{\"format\":2}\nfd1358bd3fbb7aa6\n"), "meta"},
		"meta empty":              {overwrite("meta", ""), "meta"},
		"meta nonsense":           {overwrite("meta", "hello\nworld\n"), "meta"},
		"meta missing":            {remove("meta"), "meta"},
		"journal missing":         {remove("journal"), "journal"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := made(t)
			c.damage(t, dir)
			before := listing(t, dir)
			for range 2 {
				_, err := ottla.Open(dir, ottla.Options{})
				require.ErrorIs(t, err, ottla.ErrFormat)
				require.ErrorContains(t, err, c.names)
			}
			require.Equal(t, before, listing(t, dir), "nothing was changed")
		})
	}
	t.Run("a file", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		_, err := ottla.Open(file, ottla.Options{})
		require.ErrorContains(t, err, file)
	})
	t.Run("not writable", func(t *testing.T) {
		if os.Getuid() == 0 {
			t.Skip("root may write everywhere")
		}
		dir := t.TempDir()
		require.NoError(t, os.Chmod(dir, 0o500))
		_, err := ottla.Open(dir, ottla.Options{})
		require.ErrorIs(t, err, os.ErrPermission)
	})
}

// listing is every file with its content, but for the lock file.
func listing(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "ottla.lock" {
			return err
		}
		b, err := os.ReadFile(path)
		files[path] = string(b)
		return err
	}))
	return files
}

func TestAfterCloseEverythingReturnsErrClosed(t *testing.T) {
	b := open(t, t.TempDir(), ottla.Options{})
	topic, err := b.CreateTopic(t.Context(), "a", ottla.TopicConfig{})
	require.NoError(t, err)
	p, err := b.NewProducer(ottla.ProducerConfig{})
	require.NoError(t, err)
	m, err := b.Group("g").Join(t.Context(), ottla.MemberConfig{Topics: []string{"a"}})
	require.NoError(t, err)
	r, err := topic.Partition(0).NewReader(ottla.Earliest)
	require.NoError(t, err)
	require.NoError(t, b.Close())
	require.NoError(t, b.Close(), "closing twice is harmless")
	for range 2 {
		for what, err := range map[string]error{
			"CreateTopic":   second(b.CreateTopic(t.Context(), "b", ottla.TopicConfig{})),
			"Topic":         second(b.Topic("a")),
			"DeleteTopic":   b.DeleteTopic(t.Context(), "a"),
			"AddPartitions": second(b.AddPartitions(t.Context(), "a", 2)),
			"NewProducer":   second(b.NewProducer(ottla.ProducerConfig{})),
			"Send":          second(p.Send(t.Context(), "a", ottla.Record{})),
			"SendBatch":     second(p.SendBatch(t.Context(), "a", make([]ottla.Record, 1))),
			"SendAsync":     p.SendAsync(t.Context(), "a", ottla.Record{}, nil),
			"Join":          second(b.Group("g").Join(t.Context(), ottla.MemberConfig{Topics: []string{"a"}})),
			"Poll":          second(m.Poll(t.Context())),
			"Commit":        m.Commit(t.Context()),
			"Next":          second(r.Next(t.Context())),
			"NewReader":     second(topic.Partition(0).NewReader(ottla.Earliest)),
		} {
			require.ErrorIs(t, err, ottla.ErrClosed, what)
		}
	}
	require.NoError(t, r.Close())
	require.NoError(t, p.Close())
}

func second[T any](_ T, err error) error { return err }

func TestCloseDuringPollAndSend(t *testing.T) {
	defer goleak.VerifyNone(t)
	for range 20 {
		b := open(t, t.TempDir(), ottla.Options{})
		topic, err := b.CreateTopic(t.Context(), "a", ottla.TopicConfig{Partitions: 2, SegmentBytes: 8 << 10})
		require.NoError(t, err)
		var wg sync.WaitGroup
		started := make(chan struct{}, 16)
		run := func(do func() error) {
			wg.Go(func() {
				started <- struct{}{}
				for {
					if err := do(); err != nil {
						if !errors.Is(err, ottla.ErrClosed) {
							t.Error(err)
						}
						return
					}
				}
			})
		}
		p, err := b.NewProducer(ottla.ProducerConfig{})
		require.NoError(t, err)
		run(func() error { return second(p.Send(context.Background(), "a", ottla.Record{Value: make([]byte, 100)})) })
		run(func() error { return second(p.SendBatch(context.Background(), "a", make([]ottla.Record, 10))) })
		for range 3 {
			m, err := b.Group("g").Join(t.Context(), ottla.MemberConfig{Topics: []string{"a"}})
			require.NoError(t, err)
			run(func() error { return second(m.Poll(context.Background())) })
		}
		r, err := topic.Partition(1).NewReader(ottla.Earliest)
		require.NoError(t, err)
		run(func() error { return second(r.Next(context.Background())) })
		for range 6 {
			<-started
		}
		time.Sleep(time.Millisecond)
		require.NoError(t, b.Close())
		wg.Wait()
		require.NoError(t, r.Close())
		require.NoError(t, p.Close())
	}
}

// TestCloseLeavesNothing counts goroutines, files and mappings over many lives of a broker.
func TestCloseLeavesNothing(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("counts in /proc")
	}
	defer goleak.VerifyNone(t)
	dir := t.TempDir()
	live := func(i int) {
		b := open(t, dir, ottla.Options{})
		name := fmt.Sprintf("t%d", i%3)
		if _, err := b.CreateTopic(t.Context(), name, ottla.TopicConfig{Partitions: 3, SegmentBytes: 8 << 10}); err != nil {
			require.ErrorIs(t, err, ottla.ErrTopicExists)
		}
		p, err := b.NewProducer(ottla.ProducerConfig{})
		require.NoError(t, err)
		for range 5 {
			_, err := p.SendBatch(t.Context(), name, []ottla.Record{{Value: make([]byte, 5000)}, {Value: make([]byte, 5000)}})
			require.NoError(t, err)
		}
		m, err := b.Group("g").Join(t.Context(), ottla.MemberConfig{Topics: []string{name}})
		require.NoError(t, err)
		_, err = m.Poll(t.Context())
		require.NoError(t, err)
		if i%2 == 0 {
			require.NoError(t, m.Close())
		}
		if i%5 == 4 {
			require.NoError(t, b.DeleteTopic(t.Context(), name))
		}
		require.NoError(t, b.Close())
		_, err = ottla.Open(filepath.Join(dir, "meta"), ottla.Options{})
		require.Error(t, err, "failed opens leave nothing either")
	}
	live(0)
	files, maps := countOpen(t, dir)
	for i := range 30 {
		live(i)
	}
	filesAfter, mapsAfter := countOpen(t, dir)
	require.Equal(t, files, filesAfter)
	require.Equal(t, maps, mapsAfter)
	require.Zero(t, maps)
}

// countOpen counts this process's descriptors and its mappings of files under dir.
func countOpen(t *testing.T, dir string) (files, maps int) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	b, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	return len(fds), strings.Count(string(b), dir)
}

func TestAFullDiskIsAnErrorAndTheServiceGoesOn(t *testing.T) {
	mem := vfs.NewMem(vfstest.HostDir(t))
	b := open(t, "/data", ottla.Options{MinFreeBytes: 256 << 10}.On(mem))
	topic, err := b.CreateTopic(t.Context(), "a", ottla.TopicConfig{SegmentBytes: 64 << 10})
	require.NoError(t, err)
	mem.SetCapacity(1 << 20)
	p, err := b.NewProducer(ottla.ProducerConfig{})
	require.NoError(t, err)
	stored := int64(0)
	for {
		at, err := p.Send(t.Context(), "a", ottla.Record{Value: make([]byte, 1000)})
		if err != nil {
			require.ErrorIs(t, err, ottla.ErrNoSpace)
			var se *ottla.SendError
			require.ErrorAs(t, err, &se)
			require.Equal(t, ottla.NotStored, se.Outcome)
			break
		}
		require.Equal(t, stored, at.Offset)
		stored++
	}
	require.Greater(t, stored, int64(100))
	m, err := b.Group("g").Join(t.Context(), ottla.MemberConfig{Topics: []string{"a"}})
	require.NoError(t, err, "reading and committing go on")
	recs, err := m.Poll(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, recs)
	require.NoError(t, m.Commit(t.Context()))
	require.NoError(t, topic.Partition(0).DeleteBefore(t.Context(), stored-100), "and so does making room")

	at, err := p.Send(t.Context(), "a", ottla.Record{Value: make([]byte, 1000)})
	require.NoError(t, err, "without a restart")
	require.Equal(t, stored, at.Offset, "no hole")
	require.NoError(t, b.Close())
	b = open(t, "/data", ottla.Options{MinFreeBytes: 256 << 10}.On(mem))
	topic, err = b.Topic("a")
	require.NoError(t, err)
	require.Equal(t, stored+1, topic.Partition(0).EndOffset())
}

func TestAnIdleTopicCostsNoCPU(t *testing.T) {
	b := open(t, t.TempDir(), ottla.Options{})
	_, err := b.CreateTopic(t.Context(), "a", ottla.TopicConfig{Partitions: 8})
	require.NoError(t, err)
	m, err := b.Group("g").Join(t.Context(), ottla.MemberConfig{Topics: []string{"a"}})
	require.NoError(t, err)
	start := time.Now()
	polls := 0
	for ; polls < 100_000 && time.Since(start) < 20*time.Second; polls++ {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := m.Poll(ctx)
		require.ErrorIs(t, err, context.Canceled)
	}
	require.Equal(t, 100_000, polls)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	before := cpuTime(t)
	_, err = m.Poll(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, cpuTime(t)-before, 100*time.Millisecond, "waiting wakes, it doesn't spin")
}

func TestHealthTellsWhatIsNotAsItShouldBe(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, ottla.Options{})
	_, err := b.CreateTopic(t.Context(), "a", ottla.TopicConfig{Partitions: 3})
	require.NoError(t, err)
	send(t, b, "a", "0", "1", "2", "3", "4", "5")
	require.Zero(t, b.Health())
	require.NoError(t, b.Close())

	require.NoError(t, os.RemoveAll(filepath.Join(dir, "a-1")))
	segment := filepath.Join(dir, "a-2", "00000000000000000000.log")
	content, err := os.ReadFile(segment)
	require.NoError(t, err)
	content[65] ^= 1 // in the first of two batches of 69 bytes
	require.NoError(t, os.WriteFile(segment, content, 0o600))
	require.NoError(t, os.Remove(filepath.Join(dir, "a-2", "recovery-point")), "else nobody looks at it")

	b = open(t, dir, ottla.Options{})
	h := b.Health()
	require.Len(t, h.Partitions, 2)
	require.Equal(t, 1, h.Partitions[0].Partition)
	require.ErrorIs(t, h.Partitions[0].Err, ottla.ErrNoLeader)
	require.Equal(t, 2, h.Partitions[1].Partition)
	require.NoError(t, h.Partitions[1].Err, "takes records all the same")
	require.Len(t, h.Partitions[1].Recovery.Damage, 1)
	require.EqualValues(t, 0, h.Partitions[1].Recovery.Damage[0].FirstOffset)
	require.EqualValues(t, 1, h.Partitions[1].Recovery.Damage[0].NextOffset)
	require.Equal(t, h.Partitions[1].Recovery.Damage, h.Partitions[1].Damage)

	topic, err := b.Topic("a")
	require.NoError(t, err)
	r, err := topic.Partition(2).NewReader(ottla.Earliest)
	require.NoError(t, err)
	defer r.Close()
	for range 2 {
		_, err = r.Next(t.Context())
		require.ErrorIs(t, err, ottla.ErrCorrupt)
	}
	require.NoError(t, r.Skip())
	rec, err := r.Next(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, rec.Offset)
}

// TestHealthTellsOfDamageThatAReaderHasMet: what lies below the recovery point isn't looked at by Open.
func TestHealthTellsOfDamageThatAReaderHasMet(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, ottla.Options{})
	_, err := b.CreateTopic(t.Context(), "a", ottla.TopicConfig{})
	require.NoError(t, err)
	send(t, b, "a", "0", "1", "2")
	require.NoError(t, b.Close())
	segment := filepath.Join(dir, "a-0", "00000000000000000000.log")
	content, err := os.ReadFile(segment)
	require.NoError(t, err)
	content[69+65] ^= 1 // in the second batch of 69 bytes
	require.NoError(t, os.WriteFile(segment, content, 0o600))

	b = open(t, dir, ottla.Options{})
	require.Zero(t, b.Health())
	topic, err := b.Topic("a")
	require.NoError(t, err)
	for range 2 { // readers, one report
		r, err := topic.Partition(0).NewReader(ottla.Earliest)
		require.NoError(t, err)
		for range 2 {
			_, err = r.Next(t.Context())
		}
		require.ErrorIs(t, err, ottla.ErrCorrupt)
		require.NoError(t, r.Close())
	}
	h := b.Health()
	require.Len(t, h.Partitions, 1)
	require.Len(t, h.Partitions[0].Damage, 1)
	require.Equal(t, segment, h.Partitions[0].Damage[0].Path)
	require.EqualValues(t, 1, h.Partitions[0].Damage[0].FirstOffset)
	require.EqualValues(t, 2, h.Partitions[0].Damage[0].NextOffset)

	require.NoError(t, topic.Partition(0).DeleteBefore(t.Context(), 2))
	require.Zero(t, b.Health(), "it is gone")
}
