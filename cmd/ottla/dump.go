package main

import (
	"errors"
	"io/fs"
	"math"
	"path/filepath"
	"strings"

	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/record"
	"github.com/ottlalog/ottla/segment"
)

// dumper prints what files hold.
type dumper struct {
	*call
	json    bool
	records bool
	from    int64 // the first offset wanted
	limit   int   // batches, or records if these are printed, of each partition
	left    int
	damaged bool
	path    string // of the file that is being printed
}

// errEnough ends a walk when the limit is reached.
var errEnough = errors.New("enough")

func dump(c *call) error {
	d := dumper{call: c}
	flags := newFlags()
	flags.BoolVar(&d.json, "json", false, "")
	flags.BoolVar(&d.records, "records", false, "")
	flags.Int64Var(&d.from, "from", 0, "")
	flags.IntVar(&d.limit, "n", math.MaxInt, "")
	args, err := c.parse(flags, 1, 2)
	if err != nil {
		return err
	}
	if d.limit < 1 {
		return usageError("-n must be at least 1")
	}
	err = d.run(args)
	if err == nil && d.damaged {
		err = errDamage
	}
	return err
}

func (d *dumper) run(args []string) error {
	if args[0] == "journal" && len(args) == 2 {
		return d.journal(args[1])
	}
	info, err := host.Stat(args[0])
	if err != nil {
		return err
	}
	if info.IsDir() {
		return d.directory(args[0], strings.Join(args[1:], ""))
	}
	if len(args) == 2 {
		return usageError(args[0] + " is a file: no topic can follow")
	}
	return d.file(args[0])
}

// file prints one file, by its name.
func (d *dumper) file(path string) error {
	d.left = d.limit
	base, isSegment := segment.ParseName(filepath.Base(path))
	switch {
	case isSegment:
		err := d.segment(path, base)
		if errors.Is(err, errEnough) {
			err = nil
		}
		return err
	case strings.HasSuffix(path, indexSuffix):
		return d.index(path)
	case filepath.Base(path) == log.PointName:
		d.path = path
		p, err := log.ReadPointFile(host, path)
		if err != nil {
			return err
		}
		return d.point(p)
	case filepath.Base(path) == "meta":
		return d.meta(path)
	}
	return usageError(path + ": no file of ottla has such a name: 20 digits and .log or .index, recovery-point, or meta")
}

// directory prints the partitions that arg names, all if it is empty.
func (d *dumper) directory(dir, arg string) error {
	cat, err := openCatalogue(dir)
	if err != nil {
		return err
	}
	refs, err := cat.partitions(arg)
	if err != nil {
		return err
	}
	for i, ref := range refs {
		if i > 0 && !d.json {
			if err := d.out.printf("\n"); err != nil {
				return err
			}
		}
		if err := d.partition(ref, ref.folder(dir)); err != nil && !errors.Is(err, errEnough) {
			return err
		}
	}
	return nil
}

func (d *dumper) partition(ref partitionRef, dir string) error {
	d.left = d.limit
	folder, err := log.Look(host, dir)
	if err != nil {
		return err
	}
	if err := d.heading(ref, folder); err != nil {
		return err
	}
	for i, s := range folder.Segments {
		if i+1 < len(folder.Segments) && folder.Segments[i+1].Base <= d.from {
			continue
		}
		err := d.segment(s.Path, s.Base)
		if errors.Is(err, fs.ErrNotExist) { // removed by retention since the folder was listed
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// segment prints a file of batches.
func (d *dumper) segment(path string, base int64) error {
	d.path = path
	if err := d.segmentHeading(base); err != nil {
		return err
	}
	found, err := segment.Walk(host, path, segment.Place{Offset: base}, func(s segment.Stretch) error {
		if s.Err != nil {
			return d.hole(s.From, s.To, s.Err)
		}
		if s.To.Offset <= d.from {
			return nil
		}
		return d.batch(s)
	})
	if err != nil {
		return err
	}
	return d.end(found)
}

// count takes one from what may still be printed.
func (d *dumper) count() error {
	if d.left--; d.left == 0 {
		return errEnough
	}
	return nil
}

func (d *dumper) batch(s segment.Stretch) error {
	h := s.Batch.Header()
	if err := d.batchLine(s.From.Pos, h); err != nil {
		return err
	}
	if !d.records {
		return d.count()
	}
	err := eachRecord(s.Batch, func(r *record.Record) error {
		if r.Offset < d.from {
			return nil
		}
		if err := d.recordLine(r); err != nil {
			return err
		}
		return d.count()
	})
	if errors.Is(err, record.ErrCorrupt) || errors.Is(err, record.ErrSize) {
		return d.hole(s.From, s.To, err)
	}
	return err
}
