// Package directory claims a folder as one failure domain of a broker: it takes the lock, and reads or writes the file meta
// that says which folder this is.
//
// A folder becomes a directory of ottla when meta is durable, and meta is written last: what a creation that was cut short
// leaves has no meta and no records, and is finished by the next one. A folder with records and without meta is refused.
package directory

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/ottlalog/ottla/internal/vfs"
)

var (
	// ErrLocked says that a broker has the directory open; the text names its process.
	ErrLocked = errors.New("directory is in use")
	// ErrFormat says that the folder was written by another version of ottla, or that its files don't fit together.
	ErrFormat = errors.New("not a directory that this version can open")
)

// Format is the version of all that is in a directory.
const Format = 1

const (
	lockFile = "ottla.lock"
	metaFile = "meta"
)

// Meta says which directory this is.
type Meta struct {
	Format    int    `json:"format"`
	Broker    string `json:"broker"`    // shared by all directories of a broker
	Directory string `json:"directory"` // this one's
}

// Directory is a claimed folder.
type Directory struct {
	fs   vfs.FS
	path string
	lock vfs.Lock
	meta Meta
	new  bool
}

// Claim takes the lock of the folder path, which is made if it isn't there, and reads meta. ErrLocked when another broker
// holds it, in this process or another; ErrFormat when it isn't one of this version. For a new directory nothing is
// written but the lock file: see Create.
func Claim(fsys vfs.FS, path string) (*Directory, error) {
	if info, err := fsys.Stat(path); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("%s: is a file, not a folder", path)
	}
	if err := makeFolder(fsys, path); err != nil {
		return nil, err
	}
	lock, err := fsys.Lock(filepath.Join(path, lockFile))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("%s: %w by %s", path, ErrLocked, holder(fsys, path))
	}
	if err != nil {
		return nil, err
	}
	d := &Directory{fs: fsys, path: path, lock: lock}
	if err := d.identify(); err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	return d, nil
}

// makeFolder makes a folder and its missing parents, durably.
func makeFolder(fsys vfs.FS, path string) error {
	var missing []string // the deepest first
	for p := path; ; p = filepath.Dir(p) {
		if _, err := fsys.Stat(p); !errors.Is(err, fs.ErrNotExist) || p == filepath.Dir(p) {
			break
		}
		missing = append(missing, p)
	}
	if err := fsys.MkdirAll(path); err != nil {
		return err
	}
	for _, p := range slices.Backward(missing) {
		if err := fsys.SyncDir(filepath.Dir(p)); err != nil {
			return err
		}
	}
	return nil
}

func (d *Directory) identify() error {
	host, _ := os.Hostname()
	who, err := json.Marshal(lockHolder{PID: os.Getpid(), Host: host, Since: time.Now().UTC()})
	if err != nil {
		return err
	}
	_ = d.lock.SetHolder(append(who, '\n')) // only for people to read: a full disk must not keep the records from readers
	d.meta, err = ReadMeta(d.fs, d.path)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	d.new = true
	return d.checkVacant()
}

// checkVacant refuses a folder that has records and no meta.
func (d *Directory) checkVacant() error {
	entries, err := d.fs.ReadDir(d.path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.Contains(e.Name(), "-") {
			continue
		}
		inside, err := d.fs.ReadDir(filepath.Join(d.path, e.Name()))
		if err != nil {
			return err
		}
		for _, f := range inside {
			if strings.HasSuffix(f.Name(), ".log") {
				return fmt.Errorf("%s: %w: the file %s is missing, but %s has records",
					d.path, ErrFormat, metaFile, filepath.Join(e.Name(), f.Name()))
			}
		}
	}
	return nil
}

// New says whether the directory has no meta yet.
func (d *Directory) New() bool { return d.new }

// Meta returns which directory this is.
func (d *Directory) Meta() Meta { return d.meta }

// Create writes meta, durably, of a new broker: the last step of making a directory.
func (d *Directory) Create() error {
	// Whoever may not read the parent hasn't made the folder in it either.
	if err := d.fs.SyncDir(filepath.Dir(d.path)); err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	d.meta = Meta{Format: Format, Broker: newID(), Directory: newID()}
	body, err := json.Marshal(d.meta)
	if err != nil {
		return err
	}
	name := filepath.Join(d.path, metaFile)
	temp := name + ".tmp"
	if err := d.fs.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := d.fs.Create(temp)
	if err != nil {
		return err
	}
	content := fmt.Appendf(nil, "%s\n%016x\n", body, xxhash.Sum64(body))
	if _, err = f.WriteAt(content, 0); err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := d.fs.Rename(temp, name); err != nil {
		return err
	}
	if err := d.fs.SyncDir(d.path); err != nil {
		return err
	}
	d.new = false
	return nil
}

// Release gives the lock up. The lock file stays: only the lock counts.
func (d *Directory) Release() error { return d.lock.Release() }

// ReadMeta reads the file meta in a folder: fs.ErrNotExist, or ErrFormat naming what is wrong with it.
func ReadMeta(fsys vfs.FS, path string) (Meta, error) {
	name := filepath.Join(path, metaFile)
	f, err := fsys.OpenRead(name)
	if err != nil {
		return Meta{}, err
	}
	defer f.Close()
	b := make([]byte, 4096)
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return Meta{}, err
	}
	body, sum, _ := strings.Cut(string(b[:n]), "\n")
	if sum != fmt.Sprintf("%016x\n", xxhash.Sum64String(body)) {
		return Meta{}, fmt.Errorf("%s: %w: checksum mismatch", name, ErrFormat)
	}
	var m Meta
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		return Meta{}, fmt.Errorf("%s: %w: %w", name, ErrFormat, err)
	}
	if m.Format != Format {
		return Meta{}, fmt.Errorf("%s: %w: format version %d, this is ottla for version %d", name, ErrFormat, m.Format, Format)
	}
	return m, nil
}

// lockHolder is the content of the lock file: for people, and for the error of who comes second.
type lockHolder struct {
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
}

func holder(fsys vfs.FS, path string) string {
	unknown := "an unknown process"
	f, err := fsys.OpenRead(filepath.Join(path, lockFile))
	if err != nil {
		return unknown
	}
	defer f.Close()
	b := make([]byte, 1024)
	n, _ := f.ReadAt(b, 0)
	var h lockHolder
	if err := json.Unmarshal(b[:n], &h); err != nil {
		return unknown
	}
	if h.PID == os.Getpid() {
		return fmt.Sprintf("this process (pid %d), since %s", h.PID, h.Since.Format(time.RFC3339))
	}
	return fmt.Sprintf("process %d on %s, since %s", h.PID, h.Host, h.Since.Format(time.RFC3339))
}

func newID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}
