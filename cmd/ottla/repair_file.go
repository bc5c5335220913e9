package main

import (
	"errors"
	"io"
	"io/fs"
	"math"

	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/record"
)

// copyAside keeps a copy of a file beside it.
func (r *repairer) copyAside(path string) error {
	name, err := log.AsideName(host, path)
	if err != nil {
		return err
	}
	err = writeFile(name, func(w io.Writer) error {
		return copyRange(w, path, 0, math.MaxInt64)
	})
	if err != nil {
		return err
	}
	return r.out.printf("kept  %s\n", name)
}

// moveAway renames a file that is derived; one that isn't there needs nothing.
func (r *repairer) moveAway(path string) error {
	name, err := log.AsideName(host, path)
	if err != nil {
		return err
	}
	err = host.Rename(path, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return r.out.printf("kept  %s\n", name)
}

// writeRepaired writes what is left of a segment without the ranges to a new file, durably.
func writeRepaired(path, to string, drops []finding) error {
	return writeFile(to, func(w io.Writer) error {
		pos := int64(0)
		for _, f := range drops {
			if err := copyRange(w, path, pos, f.Start); err != nil {
				return err
			}
			if err := writeFiller(w, f); err != nil {
				return err
			}
			pos = f.End
		}
		return copyRange(w, path, pos, math.MaxInt64)
	})
}

// writeFiller writes the batch that has the offsets of a range and no records; nothing for a range without offsets.
func writeFiller(w io.Writer, f finding) error {
	if f.Next <= f.First {
		return nil
	}
	h := record.HeaderAt(f.First, f.epoch)
	h.LastOffsetDelta = int32(f.Next - f.First - 1)
	h.BaseTimestamp, h.MaxTimestamp = record.NoTimestamp, record.NoTimestamp
	layout, err := record.Replan(h, nil)
	if err != nil {
		return err
	}
	b := make([]byte, layout.Size)
	layout.Put(b, h, nil)
	_, err = w.Write(b)
	return err
}

// copyRange writes a file's bytes from start up to end, or to its own end.
func copyRange(w io.Writer, path string, start, end int64) error {
	f, err := host.OpenRead(path)
	if err != nil {
		return err
	}
	size, err := f.Size()
	if err == nil {
		_, err = io.Copy(w, io.NewSectionReader(f, start, min(end, size)-start))
	}
	return errors.Join(err, f.Close())
}

// writeFile makes a file durable but for its name, or leaves none.
func writeFile(path string, write func(io.Writer) error) error {
	f, err := host.Create(path)
	if err != nil {
		return err
	}
	err = write(&fileWriter{file: f})
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, host.Remove(path))
	}
	return nil
}

// fileWriter writes a file from its start on.
type fileWriter struct {
	file vfs.File
	pos  int64
}

func (w *fileWriter) Write(b []byte) (int, error) {
	n, err := w.file.WriteAt(b, w.pos)
	w.pos += int64(n)
	return n, err
}
