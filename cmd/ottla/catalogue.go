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
	"time"

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
	ID         string
	Name       string
	Partitions int
	Created    time.Time
	Settings   topic.Config
	Epochs     map[int]int32 // of the partitions that ever had another leader
	Deleted    bool          // its folders may still be there
}

// epoch returns the largest leader epoch that batches of a partition can have.
func (t *catalogued) epoch(partition int) int32 { return t.Epochs[partition] }

// catalogue is what the journal of a directory adds up to.
type catalogue struct {
	dir    string
	byID   map[string]*catalogued
	groups map[string]map[journal.TopicPartition]journal.Committed
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

// readCatalogue replays the journal.
func readCatalogue(dir string) (*catalogue, error) {
	c := &catalogue{dir: dir, byID: map[string]*catalogued{}, groups: map[string]map[journal.TopicPartition]journal.Committed{}}
	entries, report, err := scanJournal(dir)
	c.report = report
	for _, e := range entries {
		if misfit := c.replay(e); misfit != nil {
			return c, misfit
		}
	}
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

// replay applies what a frame of the journal holds.
func (c *catalogue) replay(e journal.Entry) error {
	for _, ev := range e.Events {
		if err := c.apply(ev); err != nil {
			return &journal.CorruptionError{File: c.report.File, Pos: e.Pos, What: err.Error()}
		}
	}
	return nil
}

var errMisfit = errors.New("an event doesn't fit those before it")

func (c *catalogue) apply(e journal.Event) error {
	switch {
	case e.TopicCreated != nil:
		return c.create(e.TopicCreated)
	case e.PartitionsAdded != nil:
		return c.change(e.PartitionsAdded.ID, func(t *catalogued) error {
			t.Partitions = e.PartitionsAdded.Partitions
			return nil
		})
	case e.TopicConfigured != nil:
		return c.change(e.TopicConfigured.ID, func(t *catalogued) error {
			return json.Unmarshal(e.TopicConfigured.Config, &t.Settings)
		})
	case e.PartitionChanged != nil:
		return c.change(e.PartitionChanged.TopicID, func(t *catalogued) error {
			t.Epochs[e.PartitionChanged.Partition] = e.PartitionChanged.Epoch
			return nil
		})
	case e.TopicDeleted != nil:
		return c.change(e.TopicDeleted.ID, func(t *catalogued) error {
			t.Deleted = true
			c.forget(t.ID)
			return nil
		})
	case e.TopicPurged != nil:
		delete(c.byID, e.TopicPurged.ID)
	case e.OffsetsCommitted != nil:
		c.commit(e.OffsetsCommitted)
	case e.OffsetsDeleted != nil:
		for _, p := range e.OffsetsDeleted.Partitions {
			delete(c.groups[e.OffsetsDeleted.Group], p)
		}
	case e.GroupDeleted != nil:
		delete(c.groups, e.GroupDeleted.Group)
	}
	return nil
}

func (c *catalogue) create(e *journal.TopicCreated) error {
	t := &catalogued{ID: e.ID, Name: e.Name, Partitions: e.Partitions, Created: e.Time, Epochs: map[int]int32{}}
	if len(e.Config) > 0 {
		if err := json.Unmarshal(e.Config, &t.Settings); err != nil {
			return fmt.Errorf("settings of topic %q: %w", e.Name, err)
		}
	}
	for _, other := range c.byID {
		if other.ID == t.ID || other.Name == t.Name {
			return fmt.Errorf("%w: topic %q is there already", errMisfit, e.Name)
		}
	}
	c.byID[t.ID] = t
	return nil
}

func (c *catalogue) change(id string, change func(*catalogued) error) error {
	t := c.byID[id]
	if t == nil || t.Deleted {
		return fmt.Errorf("%w: no topic has the ID %q", errMisfit, id)
	}
	return change(t)
}

func (c *catalogue) commit(e *journal.OffsetsCommitted) {
	if c.groups[e.Group] == nil {
		c.groups[e.Group] = map[journal.TopicPartition]journal.Committed{}
	}
	for _, o := range e.Offsets {
		c.groups[e.Group][o.TopicPartition] = o.Committed
	}
}

// forget drops what groups have committed in a topic.
func (c *catalogue) forget(id string) {
	for _, offsets := range c.groups {
		maps.DeleteFunc(offsets, func(tp journal.TopicPartition, _ journal.Committed) bool { return tp.TopicID == id })
	}
}

// topics returns the live topics by name.
func (c *catalogue) topics() []*catalogued {
	var list []*catalogued
	for _, t := range c.byID {
		if !t.Deleted {
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b *catalogued) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// topic returns the live topic of a name.
func (c *catalogue) topic(name string) (*catalogued, bool) {
	for _, t := range c.byID {
		if t.Name == name && !t.Deleted {
			return t, true
		}
	}
	return nil, false
}

// partitions returns those of a topic, or the one that arg names after a slash; all of the directory if arg is empty.
func (c *catalogue) partitions(arg string) ([]partitionRef, error) {
	var refs []partitionRef
	if arg == "" {
		for _, t := range c.topics() {
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
	for _, name := range slices.Sorted(maps.Keys(c.groups)) {
		g := groupOffsets{name: name}
		for tp, at := range c.groups[name] {
			if t := c.byID[tp.TopicID]; t != nil && !t.Deleted {
				g.offsets = append(g.offsets, groupOffset{partitionRef{t.Name, tp.Partition}, at})
			}
		}
		slices.SortFunc(g.offsets, func(a, b groupOffset) int {
			return cmp.Or(cmp.Compare(a.at.Topic, b.at.Topic), cmp.Compare(a.at.Partition, b.at.Partition))
		})
		if len(g.offsets) > 0 {
			list = append(list, g)
		}
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
