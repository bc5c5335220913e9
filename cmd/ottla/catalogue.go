package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ottlalog/ottla/internal/directory"
	"github.com/ottlalog/ottla/internal/journal"
	"github.com/ottlalog/ottla/topic"
)

// partitionRef names a partition.
type partitionRef struct {
	Topic     string `json:"topic"`
	Partition int    `json:"partition"`
}

func (p partitionRef) String() string { return p.Topic + "/" + strconv.Itoa(p.Partition) }

func (p partitionRef) folder(dir string) string {
	return filepath.Join(dir, topic.Folder(p.Topic, p.Partition))
}

// parsePartition splits TOPIC[/PARTITION].
func parsePartition(arg string) (name string, number int, one bool, err error) {
	name, digits, one := strings.Cut(arg, "/")
	if one {
		if number, err = strconv.Atoi(digits); err != nil || number < 0 {
			return "", 0, false, usageError(fmt.Sprintf("%q is no partition number", digits))
		}
	}
	return name, number, one, nil
}

// catalogued is a topic as the journal knows it.
type catalogued struct {
	*journal.Topic
	Settings topic.Config
}

// epoch returns the largest leader epoch that batches of a partition can have.
func (t *catalogued) epoch(partition int) int32 { return t.States[partition].Epoch }

// catalogue is what the journal of a directory adds up to.
type catalogue struct {
	dir    string
	state  *journal.State
	topics []*catalogued // by name
	report journal.Report
}

// openCatalogue reads the catalogue of a directory, which may be in use.
func openCatalogue(dir string) (*catalogue, error) {
	info, err := host.Stat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s: is a file, not a data directory", dir)
	}
	if _, err := directory.ReadMeta(host, dir); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: no data directory of ottla: it has no file meta", dir)
	} else if err != nil {
		return nil, err
	}
	return readCatalogue(dir)
}

// readCatalogue reads the journal: what is good of it, even where an error says that not all is.
func readCatalogue(dir string) (*catalogue, error) {
	c := &catalogue{dir: dir}
	var err error
	lookAgain(func() bool {
		c.state, c.report, err = journal.Read(host, dir)
		return errors.Is(err, journal.ErrCorrupt)
	})
	for _, known := range c.state.Topics {
		t := &catalogued{Topic: known}
		if misfit := json.Unmarshal(known.Config, &t.Settings); misfit != nil && err == nil {
			err = &journal.CorruptionError{File: c.report.File, What: fmt.Sprintf("settings of topic %q: %v", known.Name, misfit)}
		}
		c.topics = append(c.topics, t)
	}
	slices.SortFunc(c.topics, func(a, b *catalogued) int { return cmp.Compare(a.Name, b.Name) })
	return c, err
}

// scanJournal reads the journal of a directory: what is good of it, even where an error says that not all is.
func scanJournal(dir string) (entries []journal.Entry, report journal.Report, err error) {
	lookAgain(func() bool {
		entries = nil
		report, err = journal.Scan(host, dir, func(e journal.Entry) error {
			entries = append(entries, e)
			return nil
		})
		return errors.Is(err, journal.ErrCorrupt)
	})
	return entries, report, err
}

// topic returns the topic of a name.
func (c *catalogue) topic(name string) (*catalogued, bool) {
	for _, t := range c.topics {
		if t.Name == name {
			return t, true
		}
	}
	return nil, false
}

// partitions returns those of a topic, or the one that arg names after a slash; all of the directory if arg is empty.
func (c *catalogue) partitions(arg string) ([]partitionRef, error) {
	var refs []partitionRef
	if arg == "" {
		for _, t := range c.topics {
			for n := range t.Partitions {
				refs = append(refs, partitionRef{t.Name, n})
			}
		}
		return refs, nil
	}
	name, number, one, err := parsePartition(arg)
	if err != nil {
		return nil, err
	}
	t, ok := c.topic(name)
	if !ok {
		return nil, fmt.Errorf("%s: no topic %q", c.dir, name)
	}
	if one && number >= t.Partitions {
		return nil, fmt.Errorf("%s: topic %q has %d partitions, no number %d", c.dir, name, t.Partitions, number)
	}
	for n := range t.Partitions {
		if !one || n == number {
			refs = append(refs, partitionRef{name, n})
		}
	}
	return refs, nil
}

// commits returns the groups that have committed something, by name, with the partitions in order.
func (c *catalogue) commits() []groupOffsets {
	var list []groupOffsets
	for _, name := range slices.Sorted(maps.Keys(c.state.Groups)) {
		g := groupOffsets{name: name}
		for tp, at := range c.state.Groups[name] {
			if t := c.state.Topics[tp.TopicID]; t != nil {
				g.offsets = append(g.offsets, groupOffset{partitionRef{t.Name, tp.Partition}, at})
			}
		}
		slices.SortFunc(g.offsets, func(a, b groupOffset) int {
			return cmp.Or(cmp.Compare(a.at.Topic, b.at.Topic), cmp.Compare(a.at.Partition, b.at.Partition))
		})
		list = append(list, g)
	}
	return list
}

type groupOffsets struct {
	name    string
	offsets []groupOffset
}

type groupOffset struct {
	at partitionRef
	journal.Committed
}
