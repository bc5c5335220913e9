package vfs

import (
	"io/fs"
	"sync"
	"time"
)

// Fault is a file system that numbers the operations on another one and makes some of them fail, in part or in whole, or
// wait. Opening a file, the operations on it and on its mappings and locks all count; only Name, Bytes and WillRead,
// which can't fail, don't.
type Fault struct {
	fs FS

	mu struct {
		sync.Mutex
		ops    int
		decide func(Op) Outcome
	}
}

// NewFault wraps fs. decide is called before each operation, one call at a time in the order of the numbers, and must not
// use the Fault; it may cut the power of a [Mem] below. nil: all goes well.
func NewFault(fs FS, decide func(Op) Outcome) *Fault {
	f := &Fault{fs: fs}
	f.mu.decide = decide
	return f
}

// Decide replaces what decides from the next operation on.
func (f *Fault) Decide(decide func(Op) Outcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.decide = decide
}

// Ops returns the number of operations so far.
func (f *Fault) Ops() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.ops
}

// outcome numbers the operation and waits as long as was decided.
func (f *Fault) outcome(op Op) Outcome {
	o := f.decide(op)
	if o.Delay > 0 {
		time.Sleep(o.Delay)
	}
	return o
}

func (f *Fault) decide(op Op) Outcome {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.ops++
	op.N = f.mu.ops
	if f.mu.decide == nil {
		return Outcome{}
	}
	return f.mu.decide(op)
}

// do runs an operation as decided. An error of body comes before a decided one.
func (f *Fault) do(op Op, body func() error) error {
	o := f.outcome(op)
	if o.Err == nil {
		return body()
	}
	if o.Effect == EffectAll || alwaysDone(op.Kind) {
		if err := body(); err != nil {
			return err
		}
	}
	return failure(op, o.Err)
}

// alwaysDone tells whether the operation gives something up, which it does even when it fails.
func alwaysDone(k Kind) bool { return k == KindClose || k == KindUnmap || k == KindRelease }

func failure(op Op, err error) error { return wrap(op.Kind.String(), op.Name, err) }

// Create implements [FS].
func (f *Fault) Create(name string) (File, error) {
	return f.open(Op{Kind: KindCreate, Name: name}, f.fs.Create)
}

// Open implements [FS].
func (f *Fault) Open(name string) (File, error) {
	return f.open(Op{Kind: KindOpen, Name: name}, f.fs.Open)
}

// OpenRead implements [FS].
func (f *Fault) OpenRead(name string) (File, error) {
	return f.open(Op{Kind: KindOpenRead, Name: name}, f.fs.OpenRead)
}

func (f *Fault) open(op Op, open func(string) (File, error)) (file File, err error) {
	err = f.do(op, func() (err error) {
		file, err = open(op.Name)
		return err
	})
	if err == nil {
		return &faultFile{fault: f, file: file}, nil
	}
	if file != nil { // opened, but reported failed
		file.Close()
	}
	return nil, err
}

// MkdirAll implements [FS].
func (f *Fault) MkdirAll(name string) error {
	return f.do(Op{Kind: KindMkdirAll, Name: name}, func() error { return f.fs.MkdirAll(name) })
}

// ReadDir implements [FS].
func (f *Fault) ReadDir(name string) (entries []fs.DirEntry, err error) {
	err = f.do(Op{Kind: KindReadDir, Name: name}, func() (err error) {
		entries, err = f.fs.ReadDir(name)
		return err
	})
	return entries, err
}

// Stat implements [FS].
func (f *Fault) Stat(name string) (info fs.FileInfo, err error) {
	err = f.do(Op{Kind: KindStat, Name: name}, func() (err error) {
		info, err = f.fs.Stat(name)
		return err
	})
	return info, err
}

// Rename implements [FS].
func (f *Fault) Rename(from, to string) error {
	return f.do(Op{Kind: KindRename, Name: from, To: to}, func() error { return f.fs.Rename(from, to) })
}

// Remove implements [FS].
func (f *Fault) Remove(name string) error {
	return f.do(Op{Kind: KindRemove, Name: name}, func() error { return f.fs.Remove(name) })
}

// RemoveAll implements [FS].
func (f *Fault) RemoveAll(name string) error {
	return f.do(Op{Kind: KindRemoveAll, Name: name}, func() error { return f.fs.RemoveAll(name) })
}

// SyncDir implements [FS].
func (f *Fault) SyncDir(name string) error {
	return f.do(Op{Kind: KindSyncDir, Name: name}, func() error { return f.fs.SyncDir(name) })
}

// Free implements [FS].
func (f *Fault) Free(name string) (free int64, err error) {
	err = f.do(Op{Kind: KindFree, Name: name}, func() (err error) {
		free, err = f.fs.Free(name)
		return err
	})
	return free, err
}

// Foreign implements [FS]. What the foreign library does inside isn't numbered.
func (f *Fault) Foreign(dir string, op func(hostDir string) error) error {
	return f.do(Op{Kind: KindForeign, Name: dir}, func() error { return f.fs.Foreign(dir, op) })
}

// Lock implements [FS].
func (f *Fault) Lock(name string) (Lock, error) {
	var lock Lock
	err := f.do(Op{Kind: KindLock, Name: name}, func() (err error) {
		lock, err = f.fs.Lock(name)
		return err
	})
	if err == nil {
		return &faultLock{fault: f, name: name, lock: lock}, nil
	}
	if lock != nil { // taken, but reported failed
		lock.Release()
	}
	return nil, err
}

type faultLock struct {
	fault *Fault
	name  string
	lock  Lock
}

func (l *faultLock) SetHolder(content []byte) error {
	op := Op{Kind: KindSetHolder, Name: l.name, Len: int64(len(content))}
	return l.fault.do(op, func() error { return l.lock.SetHolder(content) })
}

func (l *faultLock) Release() error {
	return l.fault.do(Op{Kind: KindRelease, Name: l.name}, l.lock.Release)
}
