package vfs

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// memTwin is the folder of the host in which a foreign library works on a folder of one Mem.
type memTwin struct {
	mu    sync.Mutex // one operation at a time; taken before Mem.mu
	owner *Mem       // the run that it belongs to: the next one gets another
	path  string
}

// twinFile is a file of a twin as it was before the operation.
type twinFile struct {
	dir  *memDir
	name string
	ino  *inode
	host *os.File // open during the operation, so that a new file can't get its identity
	info fs.FileInfo
}

// Foreign runs op in a twin of the folder on the host: it brings the twin level with the folder before, where they
// differ, writing into existing files so that op may have them open, and takes over what op has changed after, as
// unsynced: pages of a file, new and removed names, renames. What op synced doesn't count as synced.
//
// The machine runs on during op. If it is off when op returns, nothing is taken over.
func (m *Mem) Foreign(dir string, op func(hostDir string) error) error {
	var folder *memDir
	var twin *memTwin
	err := m.do("foreign", dir, func() (err error) {
		if folder, err = m.dirLocked(dir); err == nil {
			twin, err = m.twinLocked(folder)
		}
		return err
	})
	if err != nil {
		return err
	}
	twin.mu.Lock()
	defer twin.mu.Unlock()

	var before []twinFile
	defer func() {
		for _, f := range before {
			f.host.Close()
		}
	}()
	err = m.do("foreign", dir, func() error { return exportTwin(folder, twin.path, &before) })
	if err != nil {
		return err
	}
	opErr := op(twin.path)
	err = m.do("foreign", dir, func() error {
		a := absorber{fs: m, before: before}
		return a.absorb(folder, twin.path, filepath.Clean(dir))
	})
	return errors.Join(opErr, err)
}

func (m *Mem) twinLocked(folder *memDir) (*memTwin, error) {
	if folder.twin != nil && folder.twin.owner == m {
		return folder.twin, nil
	}
	if m.hostDir == "" {
		return nil, errors.New("vfs.Mem was made without a host folder for Foreign")
	}
	path, err := os.MkdirTemp(m.hostDir, "twin-")
	if err != nil {
		return nil, err
	}
	folder.twin = &memTwin{owner: m, path: path}
	return folder.twin, nil
}

// exportTwin makes the host's folder equal to dir and appends its files, opened, to files.
func exportTwin(dir *memDir, path string, files *[]twinFile) error {
	hosts, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, h := range hosts {
		node, ok := dir.entries[h.Name()]
		_, isDir := node.(*memDir)
		if !ok || isDir != h.IsDir() {
			if err := os.RemoveAll(filepath.Join(path, h.Name())); err != nil {
				return err
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(dir.entries)) {
		child := filepath.Join(path, name)
		switch node := dir.entries[name].(type) {
		case *memDir:
			err = os.MkdirAll(child, folderMode)
			if err == nil {
				err = exportTwin(node, child, files)
			}
		case *inode:
			var f *os.File
			if f, err = exportFile(node, child); err != nil {
				break
			}
			*files = append(*files, twinFile{dir: dir, name: name, ino: node, host: f})
			last := &(*files)[len(*files)-1]
			last.info, err = f.Stat()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// exportFile writes the file's content to the host where it differs, and returns the open file.
func exportFile(ino *inode, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, err
	}
	have, err := os.ReadFile(path)
	if err == nil {
		content := make([]byte, ino.length)
		ino.read(content, 0)
		if !slices.Equal(have, content) {
			if _, err = f.WriteAt(content, 0); err == nil {
				err = f.Truncate(ino.length)
			}
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// absorber takes over into memory what has changed in a twin.
type absorber struct {
	fs     *Mem // locked
	before []twinFile
}

func (a *absorber) absorb(dir *memDir, path, name string) error {
	hosts, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	infos := map[string]fs.FileInfo{}
	for _, h := range hosts {
		if infos[h.Name()], err = h.Info(); err != nil {
			return err
		}
		if !h.IsDir() {
			a.rename(dir, h.Name(), infos[h.Name()], name)
		}
	}
	for _, base := range slices.Sorted(maps.Keys(infos)) {
		host, child := filepath.Join(path, base), filepath.Join(name, base)
		if infos[base].IsDir() {
			err = a.absorb(a.folder(dir, base, child), host, child)
		} else {
			err = a.file(dir, base, host, child)
		}
		if err != nil {
			return err
		}
	}
	for _, base := range slices.Sorted(maps.Keys(dir.entries)) {
		if infos[base] == nil {
			a.fs.removeTreeLocked(filepath.Join(name, base), dir, base, dir.entries[base])
		}
	}
	return nil
}

// rename makes dir's entry stand for the file that the host has under that name now: the one it stood for, another one
// that op has moved there, or a new one, for which the entry is removed first if it stood for another.
func (a *absorber) rename(dir *memDir, base string, now fs.FileInfo, name string) {
	path := filepath.Join(name, base)
	i := slices.IndexFunc(a.before, func(f twinFile) bool { return os.SameFile(f.info, now) })
	if i < 0 {
		if _, ok := dir.entries[base].(*inode); ok {
			a.fs.changeLocked(path, nameSet{dir, base, newInode()})
		}
		return
	}
	was := a.before[i]
	if dir.entries[base] == memNode(was.ino) {
		return
	}
	sets := []nameSet{{dir, base, was.ino}}
	if was.dir.entries[was.name] == memNode(was.ino) {
		sets = []nameSet{{was.dir, was.name, nil}, sets[0]}
	}
	a.fs.changeLocked(was.name+" to "+path, sets...)
}

// folder returns the folder that stands in dir under the name, a new one if none does.
func (a *absorber) folder(dir *memDir, base, path string) *memDir {
	if d, ok := dir.entries[base].(*memDir); ok {
		return d
	}
	d := newMemDir()
	a.fs.changeLocked(path, nameSet{dir, base, d})
	return d
}

// file writes the pages that differ.
func (a *absorber) file(dir *memDir, base, host, path string) error {
	content, err := os.ReadFile(host)
	if err != nil {
		return err
	}
	ino, ok := dir.entries[base].(*inode)
	if !ok {
		ino = newInode()
		a.fs.changeLocked(path, nameSet{dir, base, ino})
	}
	size := int64(len(content))
	if size < ino.length {
		ino.setLength(size)
		a.fs.mu.used -= ino.blocks.free(size)
	}
	for at := int64(0); at < size; at += PageSize {
		page := content[at:min(at+PageSize, size)]
		if at+int64(len(page)) <= ino.length {
			cached := make([]byte, len(page))
			ino.read(cached, at)
			if slices.Equal(cached, page) {
				continue
			}
		}
		if err := a.fs.reserveLocked(ino, at, int64(len(page))); err != nil {
			return err
		}
		ino.write(page, at)
	}
	return nil
}
