package vfs

import (
	"errors"
	"io"
	"io/fs"
)

// PageSize is the unit in which a power cut keeps or loses unsynced bytes: the page of the kernel's cache.
const PageSize = 4096

var (
	// ErrLocked is returned by [FS.Lock] when another holder, in this process or another, has the lock.
	ErrLocked = errors.New("locked")

	// ErrNoSpace is matched by every error that says that the disk or the quota is full.
	ErrNoSpace = errors.New("no space left on device")

	// ErrShortage is matched by errors of opening and mapping that say that the process or the system has no more
	// descriptors, mappings or memory to give: nothing was done, and it may be tried again.
	ErrShortage = errors.New("shortage")
)

// FS is one file system. Its methods are safe for concurrent use, names are paths as in package os, and every error
// names the path. Nothing that a method does is durable by its return, except where it says so: a file's content is
// durable after [File.Sync] or [Mapping.Sync], a created, renamed or removed name after [FS.SyncDir] of its folder.
type FS interface {
	// Create makes a new file and opens it for reading and writing; fs.ErrExist when the name is taken.
	Create(name string) (File, error)
	// Open opens an existing file for reading and writing.
	Open(name string) (File, error)
	// OpenRead opens an existing file for reading only.
	OpenRead(name string) (File, error)

	// MkdirAll makes a folder and its missing parents.
	MkdirAll(name string) error
	// ReadDir lists a folder, sorted by name.
	ReadDir(name string) ([]fs.DirEntry, error)
	// Stat describes a file or folder.
	Stat(name string) (fs.FileInfo, error)
	// Rename moves a file or folder within the file system, replacing a file of the new name.
	Rename(from, to string) error
	// Remove deletes a file or an empty folder.
	Remove(name string) error
	// RemoveAll deletes a folder and all in it; nothing there is no error.
	RemoveAll(name string) error
	// SyncDir makes the names in a folder durable.
	SyncDir(name string) error

	// Lock takes an exclusive lock on the named file, creating it if missing, without waiting: ErrLocked when it is held.
	// The lock ends with the process at the latest. The file's content is the caller's, and stays when the lock is released.
	Lock(name string) (Lock, error)
	// Free returns the bytes that an unprivileged process can still allocate on the disk that holds name.
	Free(name string) (int64, error)

	// Foreign runs op, which does its own file operations in the existing folder dir, as one operation of this file
	// system: for a library that knows nothing of vfs. op gets the folder's path on the host and must leave files there
	// that it may have open appended to, not replaced. What op wrote is durable after Sync of the file and SyncDir of
	// the folder through this FS, like all else.
	Foreign(dir string, op func(hostDir string) error) error
}

// File is an open file. Safe for concurrent use, except for Close.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Name is the path under which the file was opened.
	Name() string
	// Size is the file's length in bytes.
	Size() (int64, error)
	// Truncate sets the length; bytes beyond a smaller length are gone, those up to a larger one read as zero.
	Truncate(size int64) error
	// Allocate reserves the blocks of [off, off+n) and extends the file to cover them, so that a later store into a
	// mapping of them can't meet a full disk. It changes no byte. ErrNoSpace when the disk is full: nothing is extended then.
	Allocate(off, n int64) error
	// Sync makes content and length durable, stores through mappings included.
	Sync() error
	// Map maps the first size bytes, which may lie beyond the end of the file: an access beyond the end is a memory
	// fault. The mapping outlives Close of the file.
	Map(size int64, mode MapMode) (Mapping, error)
}

// MapMode says what a mapping is for.
type MapMode int

const (
	// MapRead maps for reading: a store is a memory fault.
	MapRead MapMode = iota
	// MapWrite maps for reading and writing, shared with the file.
	MapWrite
)

// Mapping is a part of a file in memory.
type Mapping interface {
	// Bytes is the mapped memory, the same slice on every call. It is gone after Unmap.
	Bytes() []byte
	// Populate readies the pages of [off, off+n) for storing without page faults, and reserves their blocks. It is a hint
	// where the system has no such call. ErrNoSpace when the disk is full.
	Populate(off, n int64) error
	// WillRead asks for the pages of [off, off+n) to be in memory soon. It is a hint.
	WillRead(off, n int64)
	// Sync makes the bytes of [off, off+n) durable, and the file's length.
	Sync(off, n int64) error
	// Unmap ends the mapping. The caller has made sure that no one uses Bytes.
	Unmap() error
}

// Lock is a held lock on a file.
type Lock interface {
	// SetHolder replaces the content of the lock file: who holds it.
	SetHolder(content []byte) error
	// Release gives the lock up and leaves the file.
	Release() error
}
