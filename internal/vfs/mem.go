package vfs

import (
	"errors"
	"io/fs"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

var (
	// ErrPowerCut is what every operation of a [Mem] returns after its power was cut.
	ErrPowerCut = errors.New("power cut")
	// ErrKilled is what every operation of a [Mem] returns after its process was killed.
	ErrKilled = errors.New("process killed")
)

// Mem is a file system in memory that knows which of its state is durable. It stands for one run of one process on one
// machine: [Mem.PowerCut] and [Mem.Kill] end it and return what the next run finds.
//
// A file's cached content is Go memory that all mappings and all file operations share, so that the race detector sees
// who touches what. Syncs and cuts read it behind the detector's back, as the kernel does: they may run beside stores.
// What memory can't do is to fault. In place of that a store beyond the end of the file panics at the next operation
// that can see it (Sync, growth, Unmap); a store into a read-only mapping goes unseen; and the last Unmap of a file
// overwrites the memory that it gives up, so that a late reader finds rubbish.
//
// Two things differ from a real system: while a file is mapped no larger mapping of it can be made, and pages are 4 KiB.
type Mem struct {
	hostDir string // for the twins of foreign folders

	mu struct {
		sync.Mutex
		dead     error // why the machine is off; nil: it runs
		root     *memDir
		pending  []nameChange          // not yet durable, oldest first
		handles  map[*inode]*memHandle // what is open
		capacity int64                 // negative: boundless
		used     int64
	}
}

// memHandle counts what holds an inode beside its names.
type memHandle struct {
	files, mappings int
	locked          bool
}

// memNode is what a name stands for: an *inode or a *memDir.
type memNode interface {
	info(name string) fs.FileInfo
}

// memDir is a folder.
type memDir struct {
	entries map[string]memNode // as the running system sees them
	synced  map[string]memNode // as they are on disk
	twin    *memTwin
}

func newMemDir() *memDir {
	return &memDir{entries: map[string]memNode{}, synced: map[string]memNode{}}
}

// NewMem returns an empty file system, which has a root folder only; relative names start there too. hostDir is an
// existing folder of the host for [Mem.Foreign] to work in; it may be empty where that isn't used.
func NewMem(hostDir string) *Mem {
	m := &Mem{hostDir: hostDir}
	m.mu.root = newMemDir()
	m.mu.handles = map[*inode]*memHandle{}
	m.mu.capacity = -1
	return m
}

// SetCapacity makes a disk of so many bytes of it: what needs more blocks fails with ErrNoSpace. Negative: boundless.
func (m *Mem) SetCapacity(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.capacity = bytes
}

// Handles returns how many files, mappings and locks are open; none on a machine that is off.
func (m *Mem) Handles() (files, mappings, locks int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.dead != nil {
		return 0, 0, 0
	}
	for _, h := range m.mu.handles {
		files += h.files
		mappings += h.mappings
		if h.locked {
			locks++
		}
	}
	return files, mappings, locks
}

// Free returns the capacity not yet used.
func (m *Mem) Free(name string) (free int64, err error) {
	err = m.do("statfs", name, func() error {
		free = m.freeLocked()
		_, err := m.nodeLocked(name)
		return err
	})
	return free, err
}

func (m *Mem) freeLocked() int64 {
	if m.mu.capacity < 0 {
		return math.MaxInt64 / 2
	}
	return max(0, m.mu.capacity-m.mu.used)
}

// do runs one operation on the running machine, under its lock.
func (m *Mem) do(op, name string, body func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.dead != nil {
		return wrap(op, name, m.mu.dead)
	}
	return wrap(op, name, body())
}

// handleLocked returns the counts for what is open of ino.
func (m *Mem) handleLocked(ino *inode) *memHandle {
	h := m.mu.handles[ino]
	if h == nil {
		h = &memHandle{}
		m.mu.handles[ino] = h
	}
	return h
}

// releaseLocked gives up ino's counts when nothing of it is open, and its blocks when it has no name either.
func (m *Mem) releaseLocked(ino *inode) {
	if h := m.mu.handles[ino]; h != nil {
		if h.files > 0 || h.mappings > 0 || h.locked {
			return
		}
		delete(m.mu.handles, ino)
	}
	if ino.links == 0 {
		m.mu.used -= ino.blocks.free(0)
	}
}

// reserveLocked gives ino the blocks that [off, off+n) lacks, all or none.
func (m *Mem) reserveLocked(ino *inode, off, n int64) error {
	if lacks := ino.blocks.lacks(off, n); lacks > m.freeLocked() {
		return ErrNoSpace
	} else if lacks > 0 {
		ino.blocks.take(off, n)
		m.mu.used += lacks
	}
	return nil
}

// splitPath returns the names on the way from the root.
func splitPath(name string) []string {
	name = filepath.Clean(name)
	name = filepath.ToSlash(name[len(filepath.VolumeName(name)):])
	name = strings.Trim(name, "/")
	if name == "" || name == "." {
		return nil
	}
	return strings.Split(name, "/")
}

// nodeLocked returns what name stands for.
func (m *Mem) nodeLocked(name string) (memNode, error) {
	var node memNode = m.mu.root
	for _, part := range splitPath(name) {
		dir, ok := node.(*memDir)
		if !ok {
			return nil, errNotDir
		}
		if node, ok = dir.entries[part]; !ok {
			return nil, fs.ErrNotExist
		}
	}
	return node, nil
}

func (m *Mem) dirLocked(name string) (*memDir, error) {
	node, err := m.nodeLocked(name)
	if err != nil {
		return nil, err
	}
	dir, ok := node.(*memDir)
	if !ok {
		return nil, errNotDir
	}
	return dir, nil
}

func (m *Mem) fileLocked(name string) (*inode, error) {
	node, err := m.nodeLocked(name)
	if err != nil {
		return nil, err
	}
	ino, ok := node.(*inode)
	if !ok {
		return nil, errIsDir
	}
	return ino, nil
}

// parentLocked returns the folder of name, which must exist, and the last part of name.
func (m *Mem) parentLocked(name string) (dir *memDir, base string, err error) {
	parts := splitPath(name)
	if len(parts) == 0 {
		return nil, "", syscall.EBUSY // the root
	}
	dir, err = m.dirLocked(filepath.Dir(filepath.Clean(name)))
	return dir, parts[len(parts)-1], err
}

// memInfo describes a node.
type memInfo struct {
	name  string
	size  int64
	mode  fs.FileMode
	mtime time.Time
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) Mode() fs.FileMode  { return i.mode }
func (i memInfo) ModTime() time.Time { return i.mtime }
func (i memInfo) IsDir() bool        { return i.mode.IsDir() }
func (i memInfo) Sys() any           { return nil }

func (d *memDir) info(name string) fs.FileInfo {
	return memInfo{name: name, mode: fs.ModeDir | folderMode}
}

func (ino *inode) info(name string) fs.FileInfo {
	return memInfo{name: name, size: ino.length, mode: fileMode, mtime: ino.mtime}
}
