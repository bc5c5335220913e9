package vfs

import (
	"io/fs"
	"os"
)

// OS is the host's file system. New files have mode 0640, new folders 0750, before the umask.
//
// On Windows a mapping can't reach beyond the end of its file: mapping for writing extends the file, mapping for reading
// maps what is there (Bytes may be shorter than asked), a mapped file can't be shortened, and SyncDir does nothing.
var OS FS = osFS{}

const (
	fileMode   = 0o640
	folderMode = 0o750
)

type osFS struct{}

func (osFS) Create(name string) (File, error) {
	return openOS(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
}

func (osFS) Open(name string) (File, error) { return openOS(name, os.O_RDWR) }

func (osFS) OpenRead(name string) (File, error) { return openOS(name, os.O_RDONLY) }

func openOS(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag, fileMode)
	if err != nil {
		return nil, wrap("open", name, err)
	}
	// A folder opens for reading like a file.
	if flag == os.O_RDONLY {
		info, err := f.Stat()
		if err == nil && info.IsDir() {
			err = errIsDir
		}
		if err != nil {
			f.Close()
			return nil, wrap("open", name, err)
		}
	}
	return &osFile{f: f}, nil
}

func (osFS) MkdirAll(name string) error {
	return wrap("mkdir", name, os.MkdirAll(name, folderMode))
}

func (osFS) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := os.ReadDir(name)
	return entries, wrap("readdir", name, err)
}

func (osFS) Stat(name string) (fs.FileInfo, error) {
	info, err := os.Stat(name)
	return info, wrap("stat", name, err)
}

func (osFS) Rename(from, to string) error {
	return wrap("rename", from, os.Rename(from, to))
}

func (osFS) Remove(name string) error    { return wrap("remove", name, os.Remove(name)) }
func (osFS) RemoveAll(name string) error { return wrap("remove", name, os.RemoveAll(name)) }

func (osFS) SyncDir(name string) error { return wrap("syncdir", name, syncDir(name)) }

func (osFS) Free(name string) (int64, error) {
	n, err := freeBytes(name)
	return n, wrap("statfs", name, err)
}

func (osFS) Foreign(dir string, op func(hostDir string) error) error {
	info, err := os.Stat(dir)
	if err != nil {
		return wrap("foreign", dir, err)
	}
	if !info.IsDir() {
		return wrap("foreign", dir, errNotDir)
	}
	return op(dir)
}
