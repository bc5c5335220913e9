package ottla_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla"
)

var (
	crashRounds    = flag.Int("crash.rounds", 100, "how often the child process is killed")
	crashSeeds     = flag.Uint64("crash.seeds", 1, "subsets of surviving pages for each moment of a power cut")
	crashStep      = flag.Int("crash.step", 4, "fail every so many-th operation; 1: each")
	crashHistories = flag.Int("crash.histories", 20, "how many random histories are searched")
	crashSeed      = flag.Uint64("crash.seed", 0, "seed of the moments at which it is, 0: the clock; and of the first random history")
)

const killVariable = "OTTLA_TEST_KILL_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(killVariable); dir != "" {
		if err := killedChild(dir, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
	}
	os.Exit(m.Run())
}

// killedChild works until it is killed, and prints each acknowledgement after it has got it.
func killedChild(dir string, out io.Writer) error {
	var mu sync.Mutex
	acknowledge := func(format string, args ...any) {
		line := fmt.Appendf(nil, format, args...)
		mu.Lock()
		defer mu.Unlock()
		_, _ = out.Write(line) // one write, so that a kill leaves whole lines
	}
	ctx := context.Background()
	b, err := ottla.Open(dir, ottla.Options{})
	if err != nil {
		return err
	}
	_, err = b.CreateTopic(ctx, "t", ottla.TopicConfig{Partitions: 3, SegmentBytes: 8 << 10})
	if err != nil && !errors.Is(err, ottla.ErrTopicExists) {
		return err
	}
	p, err := b.NewProducer(ottla.ProducerConfig{})
	if err != nil {
		return err
	}
	failed := make(chan error)
	for sender := range 3 {
		go func() {
			for i := 0; ; i++ {
				value := fmt.Sprintf("%d/%d/%d", os.Getpid(), sender, i)
				at, err := p.Send(ctx, "t", ottla.Record{Value: []byte(value)})
				if err != nil {
					failed <- err
					return
				}
				acknowledge("sent %d %d %s\n", at.Partition, at.Offset, value)
			}
		}()
	}
	for range 2 {
		go func() { failed <- consumeAndTell(ctx, b, acknowledge) }()
	}
	return <-failed
}

func consumeAndTell(ctx context.Context, b *ottla.Broker, acknowledge func(string, ...any)) error {
	m, err := b.Group("g").Join(ctx, ottla.MemberConfig{Topics: []string{"t"}, ManualCommit: true, MaxPollRecords: 10})
	if err != nil {
		return err
	}
	for {
		recs, err := m.Poll(ctx)
		if err != nil {
			return err
		}
		err = m.Commit(ctx)
		if errors.Is(err, ottla.ErrFenced) {
			continue
		}
		if err != nil {
			return err
		}
		for _, rec := range recs {
			acknowledge("committed %d %d -\n", rec.Partition, rec.Offset+1)
		}
	}
}

// acknowledged is what the parent knows.
type acknowledged struct {
	sent      map[int]map[int64]string // partition → offset → value
	committed map[int]int64            // partition → next offset
}

// read takes the child's lines until it dies.
func (a *acknowledged) read(out io.Reader) error {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var what, value string
		var partition int
		var offset int64
		if _, err := fmt.Sscanf(lines.Text(), "%s %d %d %s", &what, &partition, &offset, &value); err != nil {
			return fmt.Errorf("%q: %w", lines.Text(), err)
		}
		switch what {
		case "sent":
			if a.sent[partition] == nil {
				a.sent[partition] = map[int64]string{}
			}
			if old, taken := a.sent[partition][offset]; taken {
				return fmt.Errorf("partition %d offset %d acknowledged for %q and for %q", partition, offset, old, value)
			}
			a.sent[partition][offset] = value
		case "committed":
			a.committed[partition] = max(a.committed[partition], offset)
		}
	}
	return lines.Err()
}

// check opens the directory, looks for everything that was acknowledged, and appends.
func (a *acknowledged) check(t *testing.T, dir string, round int) {
	t.Helper()
	b, err := ottla.Open(dir, ottla.Options{})
	require.NoError(t, err, "round %d", round)
	defer func() { require.NoError(t, b.Close()) }()
	topic, err := b.Topic("t")
	if errors.Is(err, ottla.ErrUnknownTopic) {
		require.Empty(t, a.sent)
		return
	}
	require.NoError(t, err)
	for n := range topic.Partitions() {
		values := readPartition(t, topic.Partition(n))
		for offset, value := range a.sent[n] {
			require.Equal(t, value, values[offset], "round %d: partition %d offset %d", round, n, offset)
		}
		committed, _ := b.Group("g").Committed("t", n)
		require.GreaterOrEqual(t, committed, a.committed[n], "round %d: partition %d", round, n)
		require.LessOrEqual(t, committed, topic.Partition(n).EndOffset())
	}
	p, err := b.NewProducer(ottla.ProducerConfig{})
	require.NoError(t, err)
	for i := range 5 {
		value := fmt.Sprintf("parent/%d/%d", round, i)
		at, err := p.Send(t.Context(), "t", ottla.Record{Value: []byte(value)})
		require.NoError(t, err)
		if a.sent[at.Partition] == nil {
			a.sent[at.Partition] = map[int64]string{}
		}
		a.sent[at.Partition][at.Offset] = value
	}
}

// readPartition returns all values by offset, having checked that offsets are dense.
func readPartition(t *testing.T, p *ottla.Partition) map[int64]string {
	t.Helper()
	r, err := p.NewReader(ottla.Earliest)
	require.NoError(t, err)
	defer r.Close()
	values := map[int64]string{}
	next := p.StartOffset()
	for {
		recs, err := r.Read(nil, 1000)
		require.NoError(t, err)
		if len(recs) == 0 {
			require.Equal(t, p.HighWatermark(), next)
			return values
		}
		for _, rec := range recs {
			require.Equal(t, next, rec.Offset)
			values[rec.Offset] = string(rec.Value)
			next++
		}
	}
}

// TestAKilledProcessLosesNothing kills a child process at random moments, many times on one directory: the parent keeps the
// acknowledgements, opens the directory after each kill without help, finds them all, and appends.
func TestAKilledProcessLosesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("kills processes")
	}
	seed := *crashSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-crash.seed=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	self, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	acks := acknowledged{sent: map[int]map[int64]string{}, committed: map[int]int64{}}
	for round := range *crashRounds {
		child := exec.Command(self)
		child.Env = append(os.Environ(), killVariable+"="+dir)
		child.Stderr = os.Stderr
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		kill := time.AfterFunc(time.Duration(rng.Int64N(int64(60*time.Millisecond))), func() { _ = child.Process.Kill() })
		require.NoError(t, acks.read(out), "round %d", round)
		err = child.Wait()
		kill.Stop()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, -1, exit.ExitCode(), "round %d: the child failed instead of being killed", round)
		acks.check(t, dir, round)
	}
	total := 0
	for _, sent := range acks.sent {
		total += len(sent)
	}
	t.Logf("%d records acknowledged, committed up to %v", total, acks.committed)
	require.Greater(t, total, *crashRounds, "the child got to work")
}
