package vfs

import (
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
)

// ChangeKind says what of a change that isn't durable can be lost by itself.
type ChangeKind int

const (
	// ChangeName is a name created or removed, or a rename, which is one change of two names.
	ChangeName ChangeKind = iota
	// ChangeLength is a file's length.
	ChangeLength
	// ChangePage is the content of one page.
	ChangePage
)

// Change is something not durable at the moment of a power cut.
type Change struct {
	Kind ChangeKind
	// Name is the path: for pages and lengths as the next boot finds it, for names as it was changed.
	Name string
	// Off is the position of a page, or a length.
	Off int64
}

// KeepAll and KeepNone are the two extremes for [Mem.PowerCutWith]: the disk had written everything, or nothing, of what
// wasn't synced.
func KeepAll(Change) bool { return true }

// KeepNone keeps nothing but what was synced.
func KeepNone(Change) bool { return false }

// KeepRandom decides by rng, with odds of its own for names, lengths and pages: from never over rarely and evenly to
// always, so that a few dozen seeds see each extreme and each mixture. rng nil: KeepNone.
func KeepRandom(rng *rand.Rand) func(Change) bool {
	if rng == nil {
		return KeepNone
	}
	odds := []float64{0, 0.1, 0.5, 0.5, 0.9, 1}
	var of [ChangePage + 1]float64
	for kind := range of {
		of[kind] = odds[rng.IntN(len(odds))]
	}
	return func(c Change) bool { return rng.Float64() < of[c.Kind] }
}

// PowerCut is PowerCutWith(KeepRandom(rng)).
func (m *Mem) PowerCut(rng *rand.Rand) *Mem { return m.PowerCutWith(KeepRandom(rng)) }

// PowerCutWith turns the machine off, so that all that is done with m fails with [ErrPowerCut] from now on, and returns
// the file system that the next boot finds. What was synced is there. Of what wasn't, keep is asked for each page, each
// length that a file has had since its last sync, and each change of a name:
//
//   - A page has its old or its new content. Beyond the length that survived nothing is seen; where a shortening
//     survived, what lay beyond is zero.
//   - A rename is one change, kept or lost. Changes of the same name keep their order: one is lost if an earlier one is.
//   - A name that is kept of a file that was never synced stands for an empty file, or any part of its content.
//
// It may be called again, for another possible outcome of the same cut.
func (m *Mem) PowerCutWith(keep func(Change) bool) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.dead == ErrKilled {
		panic("vfs.Mem: power cut of a machine whose state went to the next process: cut the one that Kill returned")
	}
	m.mu.dead = ErrPowerCut

	names := map[*memDir]map[string]memNode{}
	view := func(d *memDir) map[string]memNode {
		if names[d] == nil {
			names[d] = maps.Clone(d.synced)
		}
		return names[d]
	}
	lost := map[nameKey]bool{}
	for _, c := range m.mu.pending {
		if c.touches(lost) || !keep(Change{Kind: ChangeName, Name: c.path}) {
			c.addTo(lost)
		} else {
			c.applyTo(view)
		}
	}

	next := NewMem(m.hostDir)
	next.mu.capacity = m.mu.capacity
	next.mu.root = next.bootLocked("/", m.mu.root, view, keep)
	return next
}

// bootLocked builds a folder of the next boot.
func (m *Mem) bootLocked(path string, old *memDir, view func(*memDir) map[string]memNode, keep func(Change) bool) *memDir {
	dir := newMemDir()
	entries := view(old)
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		child := filepath.Join(path, name)
		switch node := entries[name].(type) {
		case *memDir:
			dir.entries[name] = m.bootLocked(child, node, view, keep)
		case *inode:
			ino := node.survive(child, keep)
			ino.links = 1
			m.mu.used += ino.blocks.bytes()
			dir.entries[name] = ino
		}
	}
	dir.synced = maps.Clone(dir.entries)
	return dir
}

// Kill ends the process but not the machine: all that is done with m fails with [ErrKilled] from now on, and what is
// returned holds all content and all names as they were, durable as far as they were, with nothing open or locked.
func (m *Mem) Kill() *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.dead != nil {
		panic("vfs.Mem: killed a process that was dead")
	}
	m.mu.dead = ErrKilled

	next := NewMem(m.hostDir)
	next.mu.root, next.mu.pending = m.mu.root, m.mu.pending
	next.mu.capacity, next.mu.used = m.mu.capacity, m.mu.used
	for ino := range m.mu.handles {
		if ino.mapped > 0 {
			ino.detach()
		}
		next.releaseLocked(ino)
	}
	return next
}

// DropUnsynced does to the named file what a failed sync does on Linux: the pages that aren't on disk stay readable, but
// the system takes them for written, so that later syncs succeed without them. Only a new store makes a page dirty again.
func (m *Mem) DropUnsynced(name string) error {
	return m.do("drop", name, func() error {
		ino, err := m.fileLocked(name)
		if err == nil {
			ino.drop()
		}
		return err
	})
}
