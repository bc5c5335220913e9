package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/record"
	"github.com/ottlalog/ottla/segment"
)

// pollInterval is how often a follower looks for more.
const pollInterval = 100 * time.Millisecond

func tail(c *call) error {
	flags := newFlags()
	asJSON := flags.Bool("json", false, "")
	n := flags.Int64("n", 10, "")
	follow := flags.Bool("f", false, "")
	args, err := c.parse(flags, 2, 2)
	if err != nil {
		return err
	}
	if *n < 0 {
		return usageError("-n is negative")
	}
	cat, err := openCatalogue(args[0])
	if err != nil {
		return err
	}
	refs, err := cat.partitions(args[1])
	if err != nil {
		return err
	}
	var followers []*follower
	for _, ref := range refs {
		f := &follower{call: c, ref: ref, dir: ref.folder(args[0]), json: *asJSON}
		if err := f.begin(*n); err != nil {
			return err
		}
		followers = append(followers, f)
	}
	if *follow {
		err = followAll(c, followers)
	}
	for _, f := range followers {
		if f.damaged && err == nil {
			err = errDamage
		}
	}
	return err
}

// followAll shows what comes until the call's context ends or nobody reads the output any more.
func followAll(c *call, followers []*follower) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		for _, f := range followers {
			if err := f.more(); err != nil {
				return err
			}
		}
		if err := c.out.flush(); err != nil {
			return err
		}
		select {
		case <-c.ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// follower shows the records of a partition from some place on.
type follower struct {
	*call
	ref     partitionRef
	dir     string
	json    bool
	base    int64         // of the segment that it stands in; −1: none was there
	at      segment.Place // of the next batch
	want    int64         // the next offset to show: that batch's or a later one
	damaged bool
}

// begin shows the last n records.
func (f *follower) begin(n int64) error {
	return settle(func() error {
		folder, err := log.Look(host, f.dir)
		if err != nil {
			return err
		}
		x, err := measure(folder)
		if err != nil {
			return err
		}
		f.want = max(x.start, x.end-n)
		if err := f.place(folder); err != nil {
			return err
		}
		return f.more()
	})
}

// place goes to a batch at or before the wanted offset.
func (f *follower) place(folder log.Folder) error {
	f.base, f.at = -1, segment.Place{Offset: f.want}
	for _, s := range folder.Segments {
		if s.Base <= f.want || f.base < 0 {
			f.base, f.at = s.Base, segment.Place{Offset: s.Base}
		}
	}
	if f.base < 0 {
		return nil
	}
	x, err := segment.ReadIndex(host, indexPath(f.path()))
	if err != nil { // it is derived: nobody needs one
		return nil
	}
	if ok, err := x.Of(host, f.dir); err != nil || !ok {
		return err
	}
	for _, e := range x.Entries {
		if e.Offset <= f.want {
			f.at = e.Place
		}
	}
	return nil
}

// path returns the segment that the follower stands in.
func (f *follower) path() string { return filepath.Join(f.dir, segment.Name(f.base)) }

// more shows what has come, through the segments that have begun since.
func (f *follower) more() error {
	for {
		if f.base >= 0 {
			if err := f.walk(); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		moved, err := f.next()
		if errors.Is(err, fs.ErrNotExist) {
			f.warn("tail: %v: the folder is gone", f.ref)
			return err
		}
		if err != nil || !moved {
			return err
		}
	}
}

// next goes to the segment that follows, if there is one by now. Where offsets are missing before it, they were removed or
// are damaged.
func (f *follower) next() (moved bool, err error) {
	folder, err := log.Look(host, f.dir)
	if err != nil {
		return false, err
	}
	for _, s := range folder.Segments {
		if s.Base <= f.base || s.Base < f.at.Offset {
			continue
		}
		if s.Base > f.at.Offset && f.base >= 0 {
			if err := f.gap(s.Base); err != nil {
				return false, err
			}
		}
		f.base, f.at = s.Base, segment.Place{Offset: s.Base}
		return true, nil
	}
	return false, nil
}

// gap comes to a segment that begins above the place that was reached. By now nothing is added to the one before it.
func (f *follower) gap(to int64) error {
	if err := f.walk(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if f.at.Offset >= to {
		return nil
	}
	folder, err := log.Look(host, f.dir)
	if err != nil {
		return err
	}
	if p, ok := folder.Point.InForce(); ok && p.Start >= to {
		f.warn("tail: %v: offsets %s were removed by retention", f.ref, span(f.at.Offset, to))
		return nil
	}
	return f.hole(f.at.Offset, to, fmt.Errorf("%w: no batch has them", record.ErrCorrupt))
}

// walk shows the rest of the segment that the follower stands in.
func (f *follower) walk() error {
	if came, err := f.something(); err != nil || !came {
		return err
	}
	_, err := segment.Walk(host, f.path(), f.at, func(s segment.Stretch) error {
		f.at = s.To
		if s.Err != nil {
			return f.hole(max(s.From.Offset, f.want), s.To.Offset, s.Err)
		}
		err := eachRecord(s.Batch, f.show)
		if errors.Is(err, record.ErrCorrupt) || errors.Is(err, record.ErrSize) {
			return f.hole(s.From.Offset, s.To.Offset, err)
		}
		return err
	})
	return err
}

// something says whether there is anything at the follower's place: walking over much reserved space in vain would be dear.
func (f *follower) something() (bool, error) {
	file, err := host.OpenRead(f.path())
	if err != nil {
		return false, err
	}
	b := make([]byte, record.HeaderSize)
	n, err := file.ReadAt(b, f.at.Pos)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return !record.IsZero(b[:n]), errors.Join(err, file.Close())
}

func (f *follower) show(r *record.Record) error {
	if r.Offset < f.want {
		return nil
	}
	f.want = r.Offset + 1
	if f.json {
		return f.out.object(jsonOf(r, &f.ref))
	}
	return f.out.printf("%v  %d  %s  %s\n", f.ref, r.Offset, timeText(r.Time.UnixMilli()), recordCells(r))
}

// hole tells of offsets that can't be shown.
func (f *follower) hole(first, next int64, cause error) error {
	if first >= next || next <= f.want {
		return nil
	}
	f.damaged = true
	f.want = next
	if err := f.out.flush(); err != nil { // in the order in which they stand
		return err
	}
	f.warn("tail: %v: offsets %s can't be read: %v", f.ref, span(first, next), cause)
	return nil
}
