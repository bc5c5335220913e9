package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ottlalog/ottla/internal/directory"
	"github.com/ottlalog/ottla/internal/journal"
	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/topic"
)

// verifier reads everything in a directory.
type verifier struct {
	*call
	dir      string
	json     bool
	cat      *catalogue
	complete bool // the catalogue was read to its end
	progress *progress

	sink  func(finding) error // gets what is found
	found counts
	err   error // the first of sink
}

// counts is what a verification went through.
type counts struct {
	Topics     int   `json:"topics"`
	Partitions int   `json:"partitions"`
	Segments   int   `json:"segments"`
	Bytes      int64 `json:"bytes"` // of segments
	Batches    int64 `json:"batches"`
	Records    int64 `json:"records"`
	Indexes    int   `json:"indexes"`
	Frames     int   `json:"journalFrames"`
	Damage     int   `json:"damage"`
	Notes      int   `json:"notes"`
}

func verify(c *call) error {
	v := verifier{call: c}
	v.sink = v.print
	flags := newFlags()
	flags.BoolVar(&v.json, "json", false, "")
	args, err := c.parse(flags, 1, 1)
	if err != nil {
		return err
	}
	v.dir = args[0]
	began := time.Now()
	if err := v.run(); err != nil {
		return err
	}
	if err := v.summary(time.Since(began)); err != nil {
		return err
	}
	if v.found.Damage > 0 {
		return errDamage
	}
	return nil
}

func (v *verifier) run() error {
	entries, err := host.ReadDir(v.dir)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == "meta" || e.Name() == "journal" }) {
		return fmt.Errorf("%s: no data directory of ottla: it has neither meta nor journal", v.dir)
	}
	v.progress = newProgress(v.stderr, v.dir, entries)
	defer v.progress.clear()
	v.meta()
	if err := v.journal(); err != nil {
		return err
	}
	for _, ref := range v.folders(entries) {
		if err := v.partition(ref); err != nil {
			return err
		}
	}
	return v.err
}

// report counts a finding and hands it on.
func (v *verifier) report(f finding) {
	v.progress.clear()
	if f.Type == typeDamage {
		v.found.Damage++
	} else {
		v.found.Notes++
	}
	if err := v.sink(f); v.err == nil {
		v.err = err
	}
}

func (v *verifier) print(f finding) error {
	var err error
	if v.json {
		err = v.out.object(f)
	} else {
		err = v.out.printf("%-7s %v\n", f.Type, f)
	}
	return errors.Join(err, v.out.flush()) // at once: more may take long
}

func (v *verifier) meta() {
	path := filepath.Join(v.dir, "meta")
	_, err := directory.ReadMeta(host, v.dir)
	if err != nil {
		f := finding{Type: typeDamage, File: path, What: strings.TrimPrefix(err.Error(), path+": ")}
		if errors.Is(err, fs.ErrNotExist) {
			f.What = "is missing"
		} else if info, err := host.Stat(path); err == nil {
			f.End = info.Size()
		}
		v.report(f)
	}
}

// journal verifies the catalogue's journal. What is good of it goes on to be used.
func (v *verifier) journal() error {
	cat, err := readCatalogue(v.dir)
	v.cat, v.complete = cat, err == nil
	r := cat.report
	v.found.Frames = r.Entries
	v.found.Topics = len(cat.topics)
	folder := filepath.Join(v.dir, "journal")
	var damage *journal.CorruptionError
	switch {
	case errors.As(err, &damage):
		f := finding{Type: typeDamage, File: damage.File, Start: damage.Pos, What: damage.What}
		if info, err := host.Stat(damage.File); err == nil && !info.IsDir() {
			f.End = info.Size()
		}
		v.report(f)
	case errors.Is(err, fs.ErrNotExist):
		v.report(finding{Type: typeDamage, File: folder, What: "is missing"})
	case err != nil:
		return err
	case r.CutBytes > 0:
		v.report(finding{Type: typeNote, File: r.File, Start: r.CutPos, End: r.CutPos + r.CutBytes,
			What: fmt.Sprintf("torn tail, never acknowledged as durable (%d whole frames in it); or it is being written", r.CutFrames)})
	}
	entries, err := host.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if strings.Contains(e.Name(), ".cut-") {
			v.report(finding{Type: typeNote, File: filepath.Join(folder, e.Name()), What: "set aside by a recovery"})
		}
	}
	return err
}

// folders returns the partitions that the catalogue knows, and those that only the folders know, in this order.
func (v *verifier) folders(entries []fs.DirEntry) []partitionRef {
	refs, _ := v.cat.partitions("")
	known := map[partitionRef]bool{}
	for _, ref := range refs {
		known[ref] = true
	}
	for _, e := range entries {
		name, number, ok := topic.ParseFolder(e.Name())
		ref := partitionRef{name, number}
		if ok && e.IsDir() && !known[ref] && !v.deleted(ref) {
			refs = append(refs, ref)
		}
	}
	return refs
}

// deleted says whether a partition is of a topic whose removal isn't finished.
func (v *verifier) deleted(ref partitionRef) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(v.cat.state.Deleted)), func(t *journal.Topic) bool {
		return t.Name == ref.Topic
	})
}

// current returns the topic of a partition as the catalogue knows it by now. ok is false when it doesn't.
func (v *verifier) current(ref partitionRef) (t *catalogued, ok bool) {
	cat, err := readCatalogue(v.dir)
	if err != nil {
		return nil, false
	}
	t, ok = cat.topic(ref.Topic)
	return t, ok && ref.Partition < t.Partitions
}

// partition verifies a partition's folder.
func (v *verifier) partition(ref partitionRef) error {
	dir := ref.folder(v.dir)
	folder, err := log.Look(host, dir)
	p := newPartitionCheck(v, ref, folder)
	if err == nil {
		err = p.run()
	}
	if errors.Is(err, fs.ErrNotExist) && missing(dir) {
		if _, ok := v.current(ref); ok {
			v.report(finding{Type: typeDamage, partitionRef: &ref, File: dir, What: "is missing"})
		}
		return v.err
	}
	if err != nil {
		return err
	}
	if _, ok := v.cat.topic(ref.Topic); !ok && v.complete && len(p.folder.Segments) > 0 {
		if _, ok := v.current(ref); !ok {
			p.damage(finding{File: p.folder.Dir, What: "has records, and the catalogue doesn't know the partition"})
		}
	}
	for _, f := range p.findings {
		v.report(f)
	}
	v.found.add(p.counts)
	return v.err
}

// add counts what the check of a partition went through.
func (n *counts) add(m counts) {
	n.Partitions++
	n.Segments += m.Segments
	n.Bytes += m.Bytes
	n.Batches += m.Batches
	n.Records += m.Records
	n.Indexes += m.Indexes
}

// summary ends the output.
func (v *verifier) summary(took time.Duration) error {
	n := v.found
	if v.json {
		return v.out.object(struct {
			Type string `json:"type"`
			counts
			Seconds float64 `json:"seconds"`
		}{"summary", n, took.Seconds()})
	}
	verdict := "all well"
	if n.Damage > 0 {
		verdict = fmt.Sprintf("%d damaged", n.Damage)
	}
	return v.out.printf("%s: %d topics, %d partitions, %d segments, %s, %d batches, %d records, %d indexes, %d journal frames: "+
		"%s (%s)\n", v.dir, n.Topics, n.Partitions, n.Segments, bytesText(n.Bytes), n.Batches, n.Records, n.Indexes, n.Frames,
		verdict, took.Round(time.Millisecond))
}
