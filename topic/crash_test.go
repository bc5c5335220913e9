package topic_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/internal/journal"
	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/internal/vfs/vfstest"
	"github.com/ottlalog/ottla/topic"
)

// sweepAdministration runs the script with the power cut before operation n, boots and checks. It returns true when the
// script ended before operation n came.
func sweepAdministration(t *testing.T, script func(house, func(string)) error, n int, seed uint64) (ended bool) {
	t.Helper()
	mem := vfs.NewMem(vfstest.HostDir(t))
	require.NoError(t, mem.MkdirAll(dir))
	j, err := journal.Create(mem, dir, journal.Options{})
	require.NoError(t, err)
	require.NoError(t, j.Close())
	require.NoError(t, mem.SyncDir("."))

	decide, boot := vfs.CutBefore(mem, n, rand.New(rand.NewPCG(seed, uint64(n))))
	fault := vfs.NewFault(mem, decide)
	acked := map[string]bool{}
	last := ""
	err = func() error {
		j, _, err := journal.Open(fault, dir, journal.Options{})
		if err != nil {
			return err
		}
		s, err := topic.Open(fault, dir, j, topic.Options{})
		if err != nil {
			return err
		}
		h := house{s, j}
		defer h.Set.Close()
		return script(h, func(step string) { acked[step] = true; last = step })
	}()
	ended = err == nil && fault.Ops() < n
	disk := boot()
	what := fmt.Sprintf("cut before operation %d, seed %d, after %q: %v", n, seed, last, err)
	for range 2 { // the second time finds what the first has left
		checkAdministration(t, disk, acked, what)
	}
	return ended
}

func checkAdministration(t *testing.T, disk *vfs.Mem, acked map[string]bool, what string) {
	t.Helper()
	h := open(t, disk, topic.Options{})
	a, errA := h.Topic("a")
	if acked["create a"] {
		require.NoError(t, errA, what)
	}
	if errA == nil {
		total := int64(0)
		for i := range a.Partitions() {
			require.NoError(t, a.Partition(i).Err(), what)
			total += int64(len(values(t, a.Partition(i))))
		}
		if acked["send"] {
			require.EqualValues(t, 4, total, what)
		}
		if acked["grow a"] {
			require.Equal(t, 3, a.Partitions(), what)
		}
	}
	b, errB := h.Topic("b")
	switch {
	case acked["recreate b"]:
		require.NoError(t, errB, what)
		require.Equal(t, 2, b.Partitions(), what)
	case acked["delete b"]:
		if errB == nil {
			require.Equal(t, 2, b.Partitions(), "%s: recreated, or gone", what)
		}
	case acked["create b"] && errB == nil:
		require.Equal(t, 1, b.Partitions(), what)
	}
	for _, tp := range h.Topics() { // whatever is there works
		for i := range tp.Partitions() {
			require.NoError(t, tp.Partition(i).Err(), what)
		}
	}
	require.NoError(t, h.Close(), what)
}
