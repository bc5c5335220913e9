package vfs

import (
	"os"
	"sync"
)

// osLock is an open file under the system's exclusive lock, which goes with the open file: a second open file doesn't
// get it, in this process or another, and the system drops it when the process ends.
type osLock struct {
	mu sync.Mutex
	f  *os.File
}

func (osFS) Lock(name string) (Lock, error) {
	for {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, fileMode)
		if err != nil {
			return nil, wrap("lock", name, err)
		}
		err = lockFile(f)
		if err != nil {
			f.Close()
			return nil, wrap("lock", name, err)
		}
		same, err := stillNamed(f, name)
		if same {
			return &osLock{f: f}, nil
		}
		// Someone has removed or replaced the file since it was opened: this lock would exclude no one.
		f.Close()
		if err != nil {
			return nil, wrap("lock", name, err)
		}
	}
}

// stillNamed tells whether name is still the name of the open file f.
func stillNamed(f *os.File, name string) (bool, error) {
	mine, err := f.Stat()
	if err != nil {
		return false, err
	}
	named, err := os.Stat(name)
	if os.IsNotExist(err) {
		return false, nil
	}
	return err == nil && os.SameFile(mine, named), err
}

func (l *osLock) SetHolder(content []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.f.Truncate(0)
	if err == nil {
		_, err = l.f.WriteAt(content, 0)
	}
	return wrap("sethold", l.f.Name(), err)
}

func (l *osLock) Release() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	uerr := unlockFile(l.f)
	err := l.f.Close() // fs.ErrClosed the second time
	if err == nil {
		err = uerr
	}
	return wrap("unlock", l.f.Name(), err)
}
