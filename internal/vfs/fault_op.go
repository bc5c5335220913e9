package vfs

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// Kind names an operation of [FS], [File], [Mapping] or [Lock].
type Kind int

// The operations that [Fault] counts: all that can fail.
const (
	KindCreate Kind = iota
	KindOpen
	KindOpenRead
	KindMkdirAll
	KindReadDir
	KindStat
	KindRename
	KindRemove
	KindRemoveAll
	KindSyncDir
	KindLock
	KindFree
	KindForeign
	KindRead
	KindWrite
	KindClose
	KindSize
	KindTruncate
	KindAllocate
	KindSync
	KindMap
	KindPopulate
	KindMsync
	KindUnmap
	KindSetHolder
	KindRelease
)

var kindNames = [...]string{
	"create", "open", "openread", "mkdirall", "readdir", "stat", "rename", "remove", "removeall", "syncdir", "lock", "free",
	"foreign", "read", "write", "close", "size", "truncate", "allocate", "sync", "map", "populate", "msync", "unmap",
	"setholder", "release",
}

func (k Kind) String() string {
	if k < 0 || int(k) >= len(kindNames) {
		return fmt.Sprintf("Kind(%d)", int(k))
	}
	return kindNames[k]
}

// Changes tells whether operations of this kind change what is on disk or in the cache, or make it durable.
func (k Kind) Changes() bool {
	switch k {
	case KindOpen, KindOpenRead, KindReadDir, KindStat, KindFree, KindRead, KindClose, KindSize, KindMap, KindUnmap, KindRelease:
		return false
	}
	return true
}

// Op is one operation.
type Op struct {
	// N counts the operations of a [Fault] from 1.
	N    int
	Kind Kind
	// Name is the path that the operation is on; of a rename, the old one.
	Name string
	// To is the new name of a rename.
	To string
	// Off and Len are the range, where the operation has one; Truncate and Map have a Len only.
	Off, Len int64
}

func (op Op) String() string {
	s := fmt.Sprintf("#%d %v %s", op.N, op.Kind, op.Name)
	if op.To != "" {
		s += " to " + op.To
	}
	if op.Off != 0 || op.Len != 0 {
		s += fmt.Sprintf(" [%d+%d]", op.Off, op.Len)
	}
	return s
}

// Effect says what of an operation that is reported failed is done nevertheless.
type Effect int

const (
	// EffectNone does nothing of it. Close, Unmap and Release are done all the same, as the system does.
	EffectNone Effect = iota
	// EffectAll does all of it.
	EffectAll
	// EffectPart writes or reads the first Outcome.Part bytes; of any other operation nothing is done.
	EffectPart
	// EffectDrop, of a sync over [Mem], syncs nothing and makes later syncs succeed without the pages: [Mem.DropUnsynced].
	EffectDrop
)

// Outcome says how an operation goes. The zero Outcome: as ever.
type Outcome struct {
	// Delay is waited first.
	Delay time.Duration
	// Err is what the operation returns; nil: what the file system returns.
	Err error
	// Effect is what is done when Err isn't nil.
	Effect Effect
	// Part is for EffectPart.
	Part int
}

// FailNth makes the n-th operation fail, undone, and no other.
func FailNth(n int, err error) func(Op) Outcome {
	return func(op Op) (o Outcome) {
		if op.N == n {
			o.Err = err
		}
		return o
	}
}

// FailAllAfter makes every operation after the n-th fail, undone.
func FailAllAfter(n int, err error) func(Op) Outcome {
	return func(op Op) (o Outcome) {
		if op.N > n {
			o.Err = err
		}
		return o
	}
}

// CountOps returns how many operations script does, for sweeping over them all.
func CountOps(fs FS, script func(FS)) int {
	f := NewFault(fs, nil)
	script(f)
	return f.Ops()
}

// CutBefore decides that the power is cut just before the n-th operation over mem. boot returns what the next boot finds,
// and cuts the power if the n-th operation hasn't come.
func CutBefore(mem *Mem, n int, rng *rand.Rand) (decide func(Op) Outcome, boot func() *Mem) {
	cut := sync.OnceValue(func() *Mem { return mem.PowerCut(rng) })
	decide = func(op Op) Outcome {
		if op.N >= n {
			cut()
		}
		return Outcome{} // the dead machine fails by itself
	}
	return decide, cut
}
