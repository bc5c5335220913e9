package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// What every implementation answers when a folder stands where a file is asked for, and the reverse.
const (
	errIsDir  = syscall.EISDIR
	errNotDir = syscall.ENOTDIR
)

// wrap makes err name the operation and the path, once, and makes a full disk match [ErrNoSpace]. io.EOF stays as it is.
func wrap(op, path string, err error) error {
	switch e := err.(type) {
	case nil:
		return nil
	case *fs.PathError:
		if isFull(e.Err) {
			return &fs.PathError{Op: e.Op, Path: e.Path, Err: fullError{e.Err}}
		}
		return e
	case *os.LinkError:
		if isFull(e.Err) {
			return &os.LinkError{Op: e.Op, Old: e.Old, New: e.New, Err: fullError{e.Err}}
		}
		return e
	}
	if err == io.EOF {
		return err
	}
	if isFull(err) {
		err = fullError{err}
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}

// isFull tells whether the system said that the disk or the quota is full, in an error not yet marked so.
func isFull(err error) bool {
	if errors.Is(err, ErrNoSpace) {
		return false
	}
	for _, code := range fullCodes {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}

// fullError makes the system's own code for a full disk match ErrNoSpace.
type fullError struct{ error }

func (e fullError) Is(target error) bool { return target == ErrNoSpace }
func (e fullError) Unwrap() error        { return e.error }

// inRange tells whether [off, off+n) lies within the first size bytes.
func inRange(off, n, size int64) bool {
	return off >= 0 && n >= 0 && off <= size && n <= size-off
}
