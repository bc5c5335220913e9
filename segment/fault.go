package segment

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"unsafe"
)

// FaultError is a memory fault on a mapped file, as an error: the file became shorter than its mapping, or the disk
// could not deliver a page.
type FaultError struct {
	// Path is the mapped file, Pos the byte in it.
	Path string
	Pos  int64
}

func (e *FaultError) Error() string {
	return fmt.Sprintf("%s: memory fault at byte %d: the file was truncated or its disk failed", e.Path, e.Pos)
}

// guard runs between SetPanicOnFault and return on every access to a mapping:
//
//	defer guard(debug.SetPanicOnFault(true), mem, path, &err)
//
// A fault at an address inside mem becomes a *FaultError. Every other panic goes on: it isn't ours.
func guard(restore bool, mem []byte, path string, err *error) {
	debug.SetPanicOnFault(restore)
	r := recover()
	if r == nil {
		return
	}
	if fault, ok := r.(interface {
		runtime.Error
		Addr() uintptr
	}); ok && len(mem) > 0 {
		base := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
		if addr := fault.Addr(); addr >= base && addr < base+uintptr(len(mem)) {
			*err = &FaultError{Path: path, Pos: int64(addr - base)}
			return
		}
	}
	panic(r)
}
