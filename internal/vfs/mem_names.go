package vfs

import (
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// nameChange is one change of names that isn't durable yet. It becomes durable, or is lost, as a whole; a rename has two
// sets.
type nameChange struct {
	path string
	sets []nameSet
}

// nameSet is one entry of a folder set to a node, or removed.
type nameSet struct {
	dir  *memDir
	name string
	node memNode // nil: removed
}

// nameKey is the place that a nameSet changes. Changes of one place keep their order.
type nameKey struct {
	dir  *memDir
	name string
}

func (s nameSet) key() nameKey { return nameKey{s.dir, s.name} }

// applyTo carries the change out in the folders that view returns.
func (c nameChange) applyTo(view func(*memDir) map[string]memNode) {
	for _, s := range c.sets {
		if s.node == nil {
			delete(view(s.dir), s.name)
		} else {
			view(s.dir)[s.name] = s.node
		}
	}
}

// touches tells whether the change sets one of the places.
func (c nameChange) touches(places map[nameKey]bool) bool {
	return slices.ContainsFunc(c.sets, func(s nameSet) bool { return places[s.key()] })
}

func (c nameChange) addTo(places map[nameKey]bool) {
	for _, s := range c.sets {
		places[s.key()] = true
	}
}

// changeLocked makes a change of names, not durable yet.
func (m *Mem) changeLocked(path string, sets ...nameSet) {
	var unlinked []*inode
	for _, s := range sets {
		if old, ok := s.dir.entries[s.name].(*inode); ok {
			old.links--
			unlinked = append(unlinked, old)
		}
		if ino, ok := s.node.(*inode); ok {
			ino.links++
		}
	}
	c := nameChange{path, sets}
	c.applyTo(func(d *memDir) map[string]memNode { return d.entries })
	m.mu.pending = append(m.mu.pending, c)
	for _, ino := range unlinked {
		m.releaseLocked(ino)
	}
}

// newNameLocked fails where a disk that is full to the last block can't take one more name.
func (m *Mem) newNameLocked() error {
	if m.freeLocked() < PageSize {
		return ErrNoSpace
	}
	return nil
}

func (m *Mem) createLocked(name string) (*inode, error) {
	dir, base, err := m.parentLocked(name)
	if err != nil {
		return nil, err
	}
	if _, ok := dir.entries[base]; ok {
		return nil, fs.ErrExist
	}
	if err := m.newNameLocked(); err != nil {
		return nil, err
	}
	ino := newInode()
	m.changeLocked(name, nameSet{dir, base, ino})
	return ino, nil
}

// MkdirAll makes a folder and its missing parents: one unsynced change in each parent.
func (m *Mem) MkdirAll(name string) error {
	return m.do("mkdir", name, func() error {
		dir, path := m.mu.root, ""
		for _, part := range splitPath(name) {
			path += "/" + part
			node, ok := dir.entries[part]
			if !ok {
				if err := m.newNameLocked(); err != nil {
					return err
				}
				node = newMemDir()
				m.changeLocked(path, nameSet{dir, part, node})
			}
			if dir, ok = node.(*memDir); !ok {
				return errNotDir
			}
		}
		return nil
	})
}

// ReadDir lists a folder, sorted by name.
func (m *Mem) ReadDir(name string) (entries []fs.DirEntry, err error) {
	err = m.do("readdir", name, func() error {
		dir, err := m.dirLocked(name)
		if err != nil {
			return err
		}
		for _, base := range slices.Sorted(maps.Keys(dir.entries)) {
			entries = append(entries, fs.FileInfoToDirEntry(dir.entries[base].info(base)))
		}
		return nil
	})
	return entries, err
}

// Stat describes a file or folder.
func (m *Mem) Stat(name string) (info fs.FileInfo, err error) {
	err = m.do("stat", name, func() error {
		node, err := m.nodeLocked(name)
		if err == nil {
			info = node.info(filepath.Base(name))
		}
		return err
	})
	return info, err
}

// Rename moves a file or folder: one unsynced change of both folders.
func (m *Mem) Rename(from, to string) error {
	return m.do("rename", from+" to "+to, func() error {
		node, err := m.nodeLocked(from)
		if err != nil {
			return err
		}
		fromDir, fromBase, err := m.parentLocked(from)
		if err != nil {
			return err
		}
		toDir, toBase, err := m.parentLocked(to)
		if err != nil {
			return err
		}
		if fromDir == toDir && fromBase == toBase {
			return nil
		}
		_, movesDir := node.(*memDir)
		switch toDir.entries[toBase].(type) {
		case *memDir:
			return fs.ErrExist
		case *inode:
			if movesDir {
				return errNotDir
			}
		}
		if movesDir && isBelow(to, from) {
			return syscall.EINVAL
		}
		m.changeLocked(from+" to "+to, nameSet{fromDir, fromBase, nil}, nameSet{toDir, toBase, node})
		return nil
	})
}

func isBelow(name, dir string) bool {
	n, d := splitPath(name), splitPath(dir)
	return len(n) > len(d) && strings.Join(n[:len(d)], "/") == strings.Join(d, "/")
}

// Remove deletes a file or an empty folder.
func (m *Mem) Remove(name string) error {
	return m.do("remove", name, func() error {
		node, err := m.nodeLocked(name)
		if err != nil {
			return err
		}
		dir, base, err := m.parentLocked(name)
		if err != nil {
			return err
		}
		if d, ok := node.(*memDir); ok && len(d.entries) > 0 {
			return syscall.ENOTEMPTY
		}
		m.changeLocked(name, nameSet{dir, base, nil})
		return nil
	})
}

// RemoveAll deletes a folder and all in it: one unsynced change for each name.
func (m *Mem) RemoveAll(name string) error {
	return m.do("remove", name, func() error {
		node, err := m.nodeLocked(name)
		if err == fs.ErrNotExist {
			return nil
		}
		if err != nil {
			return err
		}
		dir, base, err := m.parentLocked(name)
		if err != nil {
			return err
		}
		m.removeTreeLocked(name, dir, base, node)
		return nil
	})
}

func (m *Mem) removeTreeLocked(path string, dir *memDir, base string, node memNode) {
	if d, ok := node.(*memDir); ok {
		for _, child := range slices.Sorted(maps.Keys(d.entries)) {
			m.removeTreeLocked(filepath.Join(path, child), d, child, d.entries[child])
		}
	}
	m.changeLocked(path, nameSet{dir, base, nil})
}

// SyncDir makes the changes in a folder durable, and with them the other half of renames and whatever came before at the
// same places.
func (m *Mem) SyncDir(name string) error {
	return m.do("syncdir", name, func() error {
		dir, err := m.dirLocked(name)
		if err != nil {
			return err
		}
		places := map[nameKey]bool{}
		durable := make([]bool, len(m.mu.pending))
		for i, c := range slices.Backward(m.mu.pending) {
			here := slices.ContainsFunc(c.sets, func(s nameSet) bool { return s.dir == dir })
			if here || c.touches(places) {
				durable[i] = true
				c.addTo(places)
			}
		}
		var left []nameChange
		for i, c := range m.mu.pending {
			if durable[i] {
				c.applyTo(func(d *memDir) map[string]memNode { return d.synced })
			} else {
				left = append(left, c)
			}
		}
		m.mu.pending = left
		return nil
	})
}
