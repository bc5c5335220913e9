package ottla_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/ottlalog/ottla"
)

// mounts are small file systems of their own. They need root, as in CI; elsewhere these tests are skipped.
var mounts = map[string]func(t *testing.T, bytes int64) (dir string){"tmpfs": mountTmpfs, "ext4": mountExt4}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
}

func mountTmpfs(t *testing.T, bytes int64) string {
	needRoot(t)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		t.Skipf("can't mount a tmpfs here: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, 0)) })
	return dir
}

func mountExt4(t *testing.T, bytes int64) string {
	needRoot(t)
	image := filepath.Join(t.TempDir(), "image")
	require.NoError(t, os.WriteFile(image, nil, 0o600))
	require.NoError(t, os.Truncate(image, bytes))
	if out, err := exec.Command("mkfs.ext4", "-q", image).CombinedOutput(); err != nil {
		t.Skipf("can't make an ext4 here: %v: %s", err, out)
	}
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-o", "loop", image, dir).CombinedOutput(); err != nil {
		t.Skipf("can't mount a loop device here: %v: %s", err, out)
	}
	t.Cleanup(func() { require.NoError(t, exec.Command("umount", dir).Run()) })
	return dir
}

// TestARealFullDisk fills a file system to the last byte. The kernel answers a store into a page that it has no room for with
// SIGBUS: none may come, with either way of reserving space.
func TestARealFullDisk(t *testing.T) {
	for name, mount := range mounts {
		for _, sync := range []ottla.SyncPolicy{ottla.SyncAlways, ottla.SyncNever} {
			t.Run(fmt.Sprintf("%s, %v", name, sync), func(t *testing.T) {
				dir := mount(t, 24<<20)
				f := fullDisk{t: t, dir: dir, opts: ottla.Options{Sync: sync, MinFreeBytes: 1 << 20}, sent: map[int64]int{}}
				f.test()
			})
		}
	}
}

type fullDisk struct {
	t    *testing.T
	dir  string
	opts ottla.Options
	b    *ottla.Broker
	p    *ottla.Producer
	sent map[int64]int // offset → size
}

func (f *fullDisk) open() *ottla.Partition {
	f.b = open(f.t, filepath.Join(f.dir, "data"), f.opts)
	tp, err := f.b.Topic("a")
	if errors.Is(err, ottla.ErrUnknownTopic) {
		tp, err = f.b.CreateTopic(f.t.Context(), "a", ottla.TopicConfig{SegmentBytes: 2 << 20})
	}
	require.NoError(f.t, err)
	f.p, err = f.b.NewProducer(ottla.ProducerConfig{})
	require.NoError(f.t, err)
	return tp.Partition(0)
}

// send sends until the disk is full or n records were sent.
func (f *fullDisk) send(n int) (full bool) {
	for i := range n {
		size := 20_000 + i%50*1000
		at, err := f.p.Send(f.t.Context(), "a", ottla.Record{Value: make([]byte, size)})
		if err == nil {
			f.sent[at.Offset] = size
			continue
		}
		require.ErrorIs(f.t, err, ottla.ErrNoSpace)
		var failed *ottla.SendError
		require.ErrorAs(f.t, err, &failed)
		require.Equal(f.t, ottla.NotStored, failed.Outcome)
		return true
	}
	return false
}

func (f *fullDisk) checkFrom(p *ottla.Partition, start int64) {
	values := readPartition(f.t, p)
	for offset, size := range f.sent {
		if offset >= start {
			require.Len(f.t, values[offset], size, "offset %d", offset)
		}
	}
}

func (f *fullDisk) test() {
	t := f.t
	p := f.open()
	require.True(t, f.send(1<<20))
	f.checkFrom(p, 0)
	m, err := f.b.Group("g").Join(t.Context(), ottla.MemberConfig{Topics: []string{"a"}})
	require.NoError(t, err)
	recs, err := m.Poll(t.Context())
	require.NoError(t, err)
	require.NoError(t, m.Commit(t.Context()), "what is kept free is for this")
	require.NoError(t, m.Close())
	committed := recs[len(recs)-1].Offset + 1

	ballast := f.fill()
	require.True(t, f.send(1<<20))
	f.checkFrom(p, 0)
	require.NoError(t, f.b.Close())
	require.NoError(t, os.Remove(ballast))

	p = f.open()
	at, ok := f.b.Group("g").Committed("a", 0)
	require.True(t, ok)
	require.Equal(t, committed, at)
	f.checkFrom(p, 0)
	f.send(1 << 20)
	start := p.EndOffset() - 100
	require.NoError(t, p.DeleteBefore(t.Context(), start))
	require.False(t, f.send(200), "room, and no restart")
	f.checkFrom(p, start)

	f.opts.MinFreeBytes = -1 // nothing is kept free
	require.NoError(t, f.b.Close())
	p = f.open()
	require.True(t, f.send(1<<20))
	f.checkFrom(p, start)
	require.NoError(t, f.b.Close())
	p = f.open()
	f.checkFrom(p, start)
	require.Empty(t, f.b.Health())
	require.NoError(t, f.b.Close())
}

// fill takes what is free, as another program may.
func (f *fullDisk) fill() (path string) {
	path = filepath.Join(f.dir, "ballast")
	file, err := os.Create(path)
	require.NoError(f.t, err)
	defer file.Close()
	for size := 1 << 20; size > 0; {
		if _, err := file.Write(make([]byte, size)); err != nil {
			require.ErrorIs(f.t, err, unix.ENOSPC)
			size /= 2
		}
	}
	_ = file.Sync() // delayed allocation
	return path
}

func TestAReadOnlyFileSystemIsRefusedAndLeftAlone(t *testing.T) {
	dir := mountTmpfs(t, 8<<20)
	b := open(t, filepath.Join(dir, "data"), ottla.Options{MinFreeBytes: -1})
	_, err := b.CreateTopic(t.Context(), "a", ottla.TopicConfig{})
	require.NoError(t, err)
	send(t, b, "a", "one")
	require.NoError(t, b.Close())
	require.NoError(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	_, err = ottla.Open(filepath.Join(dir, "data"), ottla.Options{MinFreeBytes: -1})
	require.ErrorIs(t, err, unix.EROFS)
	require.ErrorContains(t, err, dir)
	_, err = ottla.Open(filepath.Join(dir, "new"), ottla.Options{MinFreeBytes: -1})
	require.ErrorIs(t, err, unix.EROFS)
	require.NoError(t, unix.Mount("", dir, "", unix.MS_REMOUNT, ""))
	b = open(t, filepath.Join(dir, "data"), ottla.Options{MinFreeBytes: -1})
	tp, err := b.Topic("a")
	require.NoError(t, err)
	require.EqualValues(t, 1, tp.Partition(0).EndOffset())
	require.NoError(t, b.Close())
}

// TestTooManyOpenFiles: a shortage is an error, never taken for damage, and over when there are descriptors again.
func TestTooManyOpenFiles(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, ottla.Options{})
	tp, err := b.CreateTopic(t.Context(), "a", ottla.TopicConfig{SegmentBytes: 4096})
	require.NoError(t, err)
	p, err := b.NewProducer(ottla.ProducerConfig{})
	require.NoError(t, err)
	n := int64(0)
	sendOne := func() error {
		at, err := p.Send(t.Context(), "a", ottla.Record{Value: make([]byte, 1000)})
		if err == nil {
			require.Equal(t, n, at.Offset)
			n++
		}
		return err
	}
	for range 20 {
		require.NoError(t, sendOne())
	}
	release := takeAllDescriptors(t)
	r, err := tp.Partition(0).NewReader(ottla.Earliest)
	require.NoError(t, err)
	_, err = r.Read(nil, 1)
	require.ErrorIs(t, err, unix.EMFILE)
	require.NotErrorIs(t, err, ottla.ErrCorrupt)
	for err = sendOne(); err == nil; { // until a new segment is wanted
		err = sendOne()
	}
	require.ErrorIs(t, err, unix.EMFILE)
	_, err = b.CreateTopic(t.Context(), "b", ottla.TopicConfig{})
	require.ErrorIs(t, err, unix.EMFILE)
	release()

	recs, err := r.Read(nil, 1)
	require.NoError(t, err, "the same reader")
	require.Len(t, recs, 1)
	require.NoError(t, r.Close())
	_, err = b.CreateTopic(t.Context(), "b", ottla.TopicConfig{})
	require.NoError(t, err)
	require.NoError(t, b.Close())

	b = open(t, dir, ottla.Options{})
	require.Empty(t, b.Health())
	tp, err = b.Topic("a")
	require.NoError(t, err)
	require.Len(t, readPartition(t, tp.Partition(0)), int(n))
}

// takeAllDescriptors opens files until no more can be opened.
func takeAllDescriptors(t *testing.T) (release func()) {
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	low := limit
	low.Cur = min(limit.Cur, 256)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &low))
	var files []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			require.ErrorIs(t, err, unix.EMFILE)
			break
		}
		files = append(files, f)
	}
	released := false
	release = func() {
		if released {
			return
		}
		released = true
		for _, f := range files {
			require.NoError(t, f.Close())
		}
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	}
	t.Cleanup(release)
	return release
}

// TestASegmentCutShortByAnotherProgram: what is gone is an error that names the file, for readers and senders; the process
// lives, other partitions don't notice, and after a reopening what was lost is damage and not a reason to reuse its offsets.
func TestASegmentCutShortByAnotherProgram(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, ottla.Options{})
	tp, err := b.CreateTopic(t.Context(), "a", ottla.TopicConfig{Partitions: 2})
	require.NoError(t, err)
	p, err := b.NewProducer(ottla.ProducerConfig{Partitioner: ottla.Explicit()})
	require.NoError(t, err)
	sendTo := func(partition int) error {
		_, err := p.Send(t.Context(), "a", ottla.Record{Partition: partition, Value: make([]byte, 1000)})
		return err
	}
	for range 100 {
		require.NoError(t, sendTo(0))
		require.NoError(t, sendTo(1))
	}
	segments, err := filepath.Glob(filepath.Join(dir, "a-0", "*.log"))
	require.NoError(t, err)
	require.Len(t, segments, 1)
	require.NoError(t, os.Truncate(segments[0], 8192))

	r, err := tp.Partition(0).NewReader(ottla.Earliest)
	require.NoError(t, err)
	good := 0
	for err == nil {
		var recs []ottla.Record
		recs, err = r.Read(nil, 1)
		good += len(recs)
	}
	require.ErrorContains(t, err, segments[0])
	require.Positive(t, good, "what is left can be read")
	require.NoError(t, r.Close())
	err = sendTo(0)
	require.ErrorContains(t, err, segments[0])
	require.ErrorIs(t, sendTo(0), ottla.ErrFailed, "and it stays so")
	require.NoError(t, sendTo(1))
	require.Len(t, b.Health().Partitions, 1)
	require.Error(t, b.Close())

	b = open(t, dir, ottla.Options{})
	tp, err = b.Topic("a")
	require.NoError(t, err)
	require.EqualValues(t, 101, tp.Partition(1).EndOffset())
	require.GreaterOrEqual(t, tp.Partition(0).EndOffset(), int64(100))
	require.NotEmpty(t, b.Health().Partitions[0].Recovery.Damage)
	require.NoError(t, b.Close())
}
