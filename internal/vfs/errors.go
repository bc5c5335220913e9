package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"
)

// What every implementation answers when a folder stands where a file is asked for, and the reverse.
const (
	errIsDir  = syscall.EISDIR
	errNotDir = syscall.ENOTDIR
)

// wrap makes err name the operation and the path, once, and makes it match [ErrNoSpace] or [ErrShortage] where the system's
// code says so. io.EOF stays as it is.
func wrap(op, path string, err error) error {
	switch e := err.(type) {
	case nil:
		return nil
	case *fs.PathError:
		return &fs.PathError{Op: e.Op, Path: e.Path, Err: mark(e.Op, e.Err)}
	case *os.LinkError:
		return &os.LinkError{Op: e.Op, Old: e.Old, New: e.New, Err: mark(e.Op, e.Err)}
	}
	if err == io.EOF {
		return err
	}
	return &fs.PathError{Op: op, Path: path, Err: mark(op, err)}
}

// mark makes a system's code match what it stands for, once.
func mark(op string, err error) error {
	switch {
	case errors.Is(err, ErrNoSpace) || errors.Is(err, ErrShortage):
		return err
	case isOneOf(fullCodes, err):
		return markedError{err, ErrNoSpace}
	case (op == "open" || op == "create" || op == "map") && isOneOf(shortageCodes, err):
		return markedError{err, ErrShortage}
	}
	return err
}

func isOneOf(codes []error, err error) bool {
	return slices.ContainsFunc(codes, func(code error) bool { return errors.Is(err, code) })
}

// markedError is a system's error that matches another one too.
type markedError struct {
	error
	as error
}

func (e markedError) Is(target error) bool { return target == e.as }
func (e markedError) Unwrap() error        { return e.error }

// inRange tells whether [off, off+n) lies within the first size bytes.
func inRange(off, n, size int64) bool {
	return off >= 0 && n >= 0 && off <= size && n <= size-off
}
