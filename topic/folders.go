package topic

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/ottlalog/ottla/internal/directory"
	"github.com/ottlalog/ottla/internal/journal"
	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/log"
)

// Folder is the name of a partition's folder.
func Folder(topic string, partition int) string { return topic + "-" + strconv.Itoa(partition) }

// ParseFolder splits what Folder returned.
func ParseFolder(name string) (topic string, partition int, ok bool) {
	i := strings.LastIndexByte(name, '-')
	if i < 1 {
		return "", 0, false
	}
	partition, err := strconv.Atoi(name[i+1:])
	if err != nil || partition < 0 || Folder(name[:i], partition) != name {
		return "", 0, false
	}
	return name[:i], partition, true
}

func (s *Set) folder(name string, number int) string {
	return filepath.Join(s.dir, Folder(name, number))
}

// CheckFolders refuses a directory with records of a partition that the journal doesn't know: directory.ErrFormat. The journal
// is told of a partition before there is a record in it, durably whatever the sync policy is: so it is another directory's, or
// has lost its end.
func CheckFolders(fsys vfs.FS, dir string, st *journal.State) error {
	known := map[string]bool{}
	for _, topics := range []map[string]*journal.Topic{st.Topics, st.Deleted} {
		for _, t := range topics {
			for i := range t.Partitions {
				known[Folder(t.Name, i)] = true
			}
		}
	}
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if _, _, ok := ParseFolder(e.Name()); !ok || !e.IsDir() || known[e.Name()] {
			continue
		}
		folder, err := log.Look(fsys, filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		if len(folder.Segments) > 0 {
			return fmt.Errorf("%s: %w: there are records, and the journal doesn't know the partition", folder.Dir, directory.ErrFormat)
		}
	}
	return nil
}
