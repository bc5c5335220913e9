package segment

import (
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/internal/vfs"
)

// large are the options of segments that are readied ahead, by both ways to grow a file.
var large = []Options{{Capacity: 16 << 20}, {Capacity: 16 << 20, SmallPages: true}}

// fillTo appends until the segment has so many bytes.
func fillTo(t testing.TB, s *Segment, bytes int64) {
	t.Helper()
	for s.Size() < bytes {
		require.NoError(t, put(s, 50_000, 1))
	}
}

func TestSpaceIsReadiedAhead(t *testing.T) {
	for _, o := range large {
		mem := newMem(t)
		s := create(t, mem, 0, o)
		fillTo(t, s, 12<<20)
		before := content(t, s)
		found, err := Inspect(mem, s.Path(), Place{}, math.MaxInt64)
		require.NoError(t, err)
		require.Empty(t, found.Holes, "readying overwrites nothing")
		require.Equal(t, Place{s.Size(), s.Next()}, found.End)
		require.NoError(t, found.Tail)
		require.NoError(t, s.Sync())
		require.NoError(t, s.Seal())
		require.Equal(t, before, content(t, s))
		require.Equal(t, before, readFile(t, mem, s.Path()), "what was readied and not used is given back")
		requireNoHandles(t, mem)
	}
}

// TestOwnerWaitsForWhatIsReadied: however it lets go, no goroutine is left with the file.
func TestOwnerWaitsForWhatIsReadied(t *testing.T) {
	for _, o := range large {
		for name, letGo := range map[string]func(*Segment) error{
			"seal": (*Segment).Seal, "abandon": (*Segment).Abandon, "remove": (*Segment).Remove,
		} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					mem := newMem(t)
					fault := vfs.NewFault(mem, nil)
					s, err := Create(fault, dir, 0, o)
					require.NoError(t, err)
					fillTo(t, s, 1<<20)
					var slow atomic.Int64
					fault.Decide(func(op vfs.Op) (o vfs.Outcome) {
						if op.Kind == vfs.KindAllocate || op.Kind == vfs.KindWrite && op.Name == s.path {
							o.Delay = time.Hour
							slow.Add(1)
						}
						return o
					})
					for s.w.ahead == nil || slow.Load() == 0 {
						require.NoError(t, put(s, 50_000, 1))
						synctest.Wait()
					}
					end := s.Size()
					began := time.Now()
					require.NoError(t, letGo(s))
					require.GreaterOrEqual(t, time.Since(began), time.Hour)
					if name == "seal" {
						info, err := mem.Stat(s.Path())
						require.NoError(t, err)
						require.Equal(t, end, info.Size())
					}
					requireNoHandles(t, mem)
				})
			})
		}
	}
}

// TestNoSpaceAhead is no error of who doesn't need the space yet.
func TestNoSpaceAhead(t *testing.T) {
	for _, o := range large {
		mem := newMem(t)
		mem.SetCapacity(5 << 20)
		s := create(t, mem, 0, o)
		var err error
		for err == nil {
			err = put(s, 700, 1)
		}
		require.ErrorIs(t, err, vfs.ErrNoSpace)
		require.Greater(t, s.Size(), int64(5<<20-vfs.PageSize))
		mem.SetCapacity(-1)
		fillTo(t, s, 10<<20)
		require.NoError(t, s.Seal())
		require.Equal(t, s.Size(), int64(len(content(t, s))))
	}
}
