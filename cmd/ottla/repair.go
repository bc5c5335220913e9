package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/ottlalog/ottla/internal/directory"
	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/segment"
)

// repairer drops what verify finds to be damaged. A range of bytes is taken out of its segment, and a batch with its
// offsets and no records put in its place, as compaction leaves one: what stands behind it keeps its offsets.
type repairer struct {
	*call
	dir   string
	drops map[string][]finding // by segment file, in the order of their bytes
	moves []finding            // index files
	left  int                  // damage that can't be cured
}

func repair(c *call) (err error) {
	flags := newFlags()
	drop := flags.Bool("drop-damaged", false, "")
	yes := flags.Bool("yes", false, "")
	args, err := c.parse(flags, 1, 1)
	if err != nil {
		return err
	}
	if !*drop {
		return usageError("nothing is repaired without a policy: -drop-damaged")
	}
	r := repairer{call: c, dir: args[0], drops: map[string][]finding{}}
	if *yes {
		if _, err := directory.ReadMeta(host, r.dir); err != nil { // Claim would make a new directory
			return err
		}
		d, err := directory.Claim(host, r.dir)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, d.Release()) }()
	}
	if err := r.find(); err != nil {
		return err
	}
	if err := r.plan(*yes); err != nil {
		return err
	}
	if *yes {
		if err := r.carryOut(); err != nil {
			return err
		}
	}
	if r.left > 0 || !*yes && len(r.drops)+len(r.moves) > 0 {
		return errDamage
	}
	return nil
}

// find verifies the directory.
func (r *repairer) find() error {
	v := verifier{call: r.call, dir: r.dir, sink: func(f finding) error {
		switch {
		case f.Type != typeDamage:
		case f.cure == cureDrop:
			r.drops[f.File] = append(r.drops[f.File], f)
		case f.cure == cureMove:
			r.moves = append(r.moves, f)
		default:
			r.left++
			return r.out.printf("leaves alone  %v\n", f)
		}
		return nil
	}}
	return v.run()
}

// plan says what is going to be done.
func (r *repairer) plan(yes bool) error {
	would, ranges, offsets := "would ", 0, int64(0)
	if yes {
		would = ""
	}
	for _, path := range r.files() {
		for _, f := range r.drops[path] {
			ranges++
			offsets += max(f.Next-f.First, 0)
			if err := r.out.printf("%s  %v\n", would+"drop", f); err != nil {
				return err
			}
		}
	}
	for _, f := range r.moves {
		if err := r.out.printf("%s  %v; it is made anew when it is needed\n", would+"move away", f); err != nil {
			return err
		}
	}
	text := fmt.Sprintf("%d damaged ranges with %d offsets, %d indexes", ranges, offsets, len(r.moves))
	if r.left > 0 {
		text += fmt.Sprintf("; %d left alone", r.left)
	}
	if !yes && ranges+len(r.moves) > 0 {
		text += ". Nothing was changed: -yes does it, and keeps a copy of each file"
	}
	if err := r.out.printf("%s: %s\n", r.dir, text); err != nil {
		return err
	}
	return r.out.flush()
}

func (r *repairer) files() []string { return slices.Sorted(maps.Keys(r.drops)) }

// carryOut does it, file by file. After a crash in between, each file is as it was or repaired, and it can be done again.
func (r *repairer) carryOut() error {
	for _, f := range r.moves {
		if err := r.moveAway(f.File); err != nil {
			return err
		}
		if err := host.SyncDir(filepath.Dir(f.File)); err != nil {
			return err
		}
	}
	for _, path := range r.files() {
		if err := r.rewrite(path, r.drops[path]); err != nil {
			return err
		}
	}
	return nil
}

// rewrite replaces a segment's file. Before that the recovery point loses its byte in it, which makes the point true of
// both the old file and the new one, and the copies become durable.
func (r *repairer) rewrite(path string, drops []finding) error {
	dir := filepath.Dir(path)
	temp := path + ".repair"
	if err := host.RemoveAll(temp); err != nil { // of one that was cut short
		return err
	}
	if err := r.unplace(path); err != nil {
		return err
	}
	if err := r.copyAside(path); err != nil {
		return err
	}
	if err := writeRepaired(path, temp, drops); err != nil {
		return err
	}
	if err := r.moveAway(indexPath(path)); err != nil {
		return err
	}
	if err := host.SyncDir(dir); err != nil {
		return err
	}
	if err := host.Rename(temp, path); err != nil {
		return err
	}
	return host.SyncDir(dir)
}

// unplace takes the byte out of the recovery point if that stands in a segment.
func (r *repairer) unplace(segmentPath string) error {
	dir := filepath.Dir(segmentPath)
	file, err := log.ReadPointFile(host, pointPath(dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	p, ok := file.InForce()
	switch {
	case !ok || segment.Name(p.Base) != filepath.Base(segmentPath) || !p.Placed():
		return nil
	case p.Cutting:
		return fmt.Errorf("%s: a truncation has begun: open the directory once, to have it finished", pointPath(dir))
	}
	if err := r.copyAside(pointPath(dir)); err != nil {
		return err
	}
	return log.StorePoint(host, dir, p.Unplaced())
}
