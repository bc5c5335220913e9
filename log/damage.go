package log

import (
	"cmp"
	"slices"
	"sync"

	"github.com/ottlalog/ottla/segment"
)

// damages are the damaged ranges of a log that are known.
type damages struct {
	mu   sync.Mutex // guards list
	list []*segment.CorruptionError
}

// maxDamages bounds the list: who has so many needs a look at the whole log.
const maxDamages = 1000

// add takes a range in, once. Its end may become known better.
func (d *damages) add(e *segment.CorruptionError) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.IndexFunc(d.list, func(k *segment.CorruptionError) bool {
		return k.Path == e.Path && k.FirstOffset == e.FirstOffset
	})
	switch {
	case i >= 0:
		d.list[i] = e
	case len(d.list) < maxDamages:
		d.list = append(d.list, e)
	}
}

// Damage returns the damaged ranges that opening has found or a reader has met so far, in the order of their offsets, but
// not those that retention has removed.
func (l *Log) Damage() []*segment.CorruptionError {
	l.damages.mu.Lock()
	defer l.damages.mu.Unlock()
	start := l.start.Load()
	list := slices.DeleteFunc(slices.Clone(l.damages.list), func(e *segment.CorruptionError) bool {
		return e.NextOffset <= start
	})
	slices.SortFunc(list, func(a, b *segment.CorruptionError) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
	return list
}
