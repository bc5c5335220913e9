package vfs

import "io/fs"

// memLock is a held lock: handles[ino].locked is set while released is not.
type memLock struct {
	fs       *Mem
	ino      *inode
	name     string
	released bool
}

// Lock takes an exclusive lock on the named file.
func (m *Mem) Lock(name string) (Lock, error) {
	l := &memLock{fs: m, name: name}
	err := m.do("lock", name, func() (err error) {
		l.ino, err = m.fileLocked(name)
		if err == fs.ErrNotExist {
			l.ino, err = m.createLocked(name)
		}
		if err != nil {
			return err
		}
		h := m.handleLocked(l.ino)
		if h.locked {
			return ErrLocked
		}
		h.locked = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (l *memLock) do(op string, body func() error) error {
	return l.fs.do(op, l.name, func() error {
		if l.released {
			return fs.ErrClosed
		}
		return body()
	})
}

func (l *memLock) SetHolder(content []byte) error {
	return l.do("sethold", func() error {
		l.ino.setLength(0)
		l.fs.mu.used -= l.ino.blocks.free(0)
		if len(content) == 0 {
			return nil
		}
		if err := l.fs.reserveLocked(l.ino, 0, int64(len(content))); err != nil {
			return err
		}
		l.ino.write(content, 0)
		return nil
	})
}

func (l *memLock) Release() error {
	return l.do("unlock", func() error {
		l.released = true
		l.fs.mu.handles[l.ino].locked = false
		l.fs.releaseLocked(l.ino)
		return nil
	})
}
