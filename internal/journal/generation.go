package journal

import (
	"errors"
	"fmt"
	"math"

	"github.com/tidwall/wal"

	"github.com/ottlalog/ottla/internal/vfs"
)

// openWAL keeps the library to one file that it only appends to: all that makes things durable is done here.
func openWAL(host string) (*wal.Log, error) {
	return wal.Open(host, &wal.Options{NoSync: true, SegmentSize: math.MaxInt, NoCopy: true})
}

// generation is one folder with one file, open for appending. After an error of any method it is good for close only:
// the library's memory may be ahead of the file, and the file ahead of the disk.
type generation struct {
	fs       vfs.FS
	dir      string
	log      *wal.Log // writes the file
	file     vfs.File // syncs it
	index    uint64   // the library's number of the last frame
	size     int64
	synced   int64 // the first bytes, which are known to be on disk
	base     int64 // size of the snapshot
	unmarked bool  // no frame states a synced position that covers the last call
}

// build writes a file with these frames into the folder dir, which it makes anew, durable but for its name.
func build(fsys vfs.FS, dir string, frames [][]byte) error {
	if err := fsys.RemoveAll(dir); err != nil {
		return err
	}
	if err := fsys.MkdirAll(dir); err != nil {
		return err
	}
	size := int64(0)
	err := fsys.Foreign(dir, func(host string) error {
		log, err := openWAL(host)
		if err != nil {
			return err
		}
		for i, f := range frames {
			size += entrySize(f)
			if err = log.Write(uint64(i+1), f); err != nil {
				break
			}
		}
		return errors.Join(err, log.Close())
	})
	if err != nil {
		return err
	}
	if err := syncFile(fsys, fileIn(dir), size); err != nil {
		return err
	}
	return fsys.SyncDir(dir)
}

// syncFile makes a file durable that should have that size.
func syncFile(fsys vfs.FS, name string, size int64) error {
	f, err := fsys.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if have, err := f.Size(); err != nil {
		return err
	} else if have != size {
		return fmt.Errorf("journal: %s has %d bytes, %d were written", name, have, size)
	}
	return f.Sync()
}

// openGeneration opens the generation in the folder dir, all of whose file is intact and durable: so many frames, of
// which the first base bytes are the snapshot.
func openGeneration(fsys vfs.FS, dir string, frames int, size, base int64) (g *generation, err error) {
	g = &generation{fs: fsys, dir: dir, index: uint64(frames), size: size, synced: size, base: base}
	defer func() {
		if err != nil {
			g.close()
			g = nil
		}
	}()
	err = fsys.Foreign(dir, func(host string) (err error) {
		g.log, err = openWAL(host)
		return err
	})
	if err != nil {
		return g, err
	}
	if last, err := g.log.LastIndex(); err != nil {
		return g, err
	} else if last != g.index {
		return g, fmt.Errorf("journal: %s: %d frames were read and then %d", fileIn(dir), g.index, last)
	}
	g.file, err = fsys.Open(fileIn(dir))
	return g, err
}

// write appends frames, not durable yet.
func (g *generation) write(frames [][]byte) error {
	var batch wal.Batch
	size := g.size
	for i, f := range frames {
		batch.Write(g.index+uint64(i)+1, f)
		size += entrySize(f)
	}
	err := g.fs.Foreign(g.dir, func(string) error { return g.log.WriteBatch(&batch) })
	if err != nil {
		return err
	}
	g.index += uint64(len(frames))
	g.size = size
	g.unmarked = true
	return nil
}

// sync makes all that was written durable.
func (g *generation) sync() error {
	if g.synced == g.size {
		return nil
	}
	if err := g.file.Sync(); err != nil {
		return err
	}
	g.synced = g.size
	return nil
}

// mark states at the end of a file that is durable that it is: damage of the last calls is then told from a torn tail.
// It needs no sync: if it is lost, no more is lost than the distinction.
func (g *generation) mark(seq uint64) error {
	if !g.unmarked {
		return nil
	}
	f := frame{kind: KindMark, seq: seq, synced: g.synced}
	if err := g.write([][]byte{f.encode()}); err != nil {
		return err
	}
	g.unmarked = false
	return nil
}

// close gives up the handles, whatever happens.
func (g *generation) close() error {
	var errs [3]error
	if g.log != nil {
		ran := false
		errs[0] = g.fs.Foreign(g.dir, func(string) error {
			ran = true
			return g.log.Close()
		})
		if !ran {
			errs[1] = g.log.Close() // nothing of the file system is touched but the handle
		}
	}
	if g.file != nil {
		errs[2] = g.file.Close()
	}
	return errors.Join(errs[:]...)
}
