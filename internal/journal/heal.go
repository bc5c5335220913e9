package journal

import (
	"fmt"

	"github.com/ottlalog/ottla/internal/vfs"
)

// replace makes a new generation from the state and goes over to it. After an error either the old one, if there is
// one, is in force as before, or the journal has failed, as then the next Open may find either.
func (j *Journal) replace() error {
	frames, err := snapshotFrames(j.state.State)
	if err != nil {
		return err
	}
	final := j.folder.path(j.next)
	tmp := final + tmpSuffix
	err = build(j.fs, tmp, frames)
	if err == nil {
		err = j.fs.SyncDir(j.folder.folder) // better to learn before the rename than after it that this can't be done
	}
	if err != nil {
		_ = j.fs.RemoveAll(tmp) // what is left the next Open removes
		return err
	}

	j.next++
	g, err := place(j.fs, j.folder.folder, tmp, final, frames)
	if err != nil {
		j.fail(err)
		return err
	}
	if j.gen != nil {
		_ = j.gen.close() // nothing of it counts any more
	}
	j.gen, j.cause, j.due = g, nil, 0
	if l, err := readFolder(j.fs, j.folder.folder); err == nil {
		j.removeOld(l)
	}
	return nil
}

// place gives a generation that was built its name, for good, and opens it. After an error it may have the name or not,
// now and after a crash. Then it stays: it is as good as what is in memory, and the next attempt has a larger number.
func place(fsys vfs.FS, folder, tmp, final string, frames [][]byte) (*generation, error) {
	if err := fsys.Rename(tmp, final); err != nil {
		_ = fsys.RemoveAll(tmp) // if it still has that name
		return nil, err
	}
	if err := fsys.SyncDir(folder); err != nil {
		return nil, err
	}
	size := int64(0)
	for _, f := range frames {
		size += entrySize(f)
	}
	return openGeneration(fsys, final, len(frames), size, size)
}

// fail gives the generation up after a failure that leaves in doubt what it holds. Memory is as it was before.
func (j *Journal) fail(cause error) {
	if j.cause == nil {
		j.cause = cause
		j.opts.Logger.Error("journal: failed", "folder", j.folder.folder, "err", cause)
	}
	if j.gen != nil {
		_ = j.gen.close()
		j.gen = nil
	}
}

// heal makes a failed journal sound again: a new generation holds what is in memory, and nothing of what failed. An
// error matches both what prevents that and the first failure.
func (j *Journal) heal() error {
	if j.cause == nil {
		return nil
	}
	cause := j.cause
	if err := j.replace(); err != nil {
		return fmt.Errorf("journal: can't heal: %w (it failed with: %w)", err, cause)
	}
	j.opts.Logger.Warn("journal: healed", "file", fileIn(j.gen.dir), "after", cause)
	return nil
}

// snapshotIfDue replaces a file that has grown large. If that fails, it is tried again when the file has grown by half.
func (j *Journal) snapshotIfDue() {
	g := j.gen
	if g == nil || g.size <= max(j.opts.SnapshotBytes, 4*g.base, j.due) {
		return
	}
	if err := j.replace(); err != nil {
		j.due = g.size + g.size/2
		j.opts.Logger.Warn("journal: no snapshot", "file", fileIn(g.dir), "err", err)
	}
}

// removeOld removes what the generation in force has made useless. What resists is left to the next time.
func (j *Journal) removeOld(l listing) {
	for _, n := range l.generations {
		if path := l.path(n); path != j.gen.dir {
			j.remove(path)
		}
	}
	for _, n := range l.building {
		j.remove(l.path(n) + tmpSuffix)
	}
}

func (j *Journal) remove(path string) {
	if err := j.fs.RemoveAll(path); err != nil {
		j.opts.Logger.Warn("journal: not removed", "folder", path, "err", err)
	}
}
