package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/record"
	"github.com/ottlalog/ottla/segment"
)

// folderJSON heads a partition's lines of JSON.
type folderJSON struct {
	Type string `json:"type"` // partition
	partitionRef
	Folder   string   `json:"folder"`
	Start    *int64   `json:"start"` // null: there is no recovery point
	Point    *int64   `json:"recoveryPoint"`
	SetAside []string `json:"setAside,omitempty"`
}

// segmentJSON heads a segment's lines.
type segmentJSON struct {
	Type string `json:"type"` // segment
	File string `json:"file"`
	Base int64  `json:"base"`
	Size int64  `json:"size"` // of the file
	// Index is how many entries its index file has; null: there is none that can be used.
	Index *int `json:"indexEntries"`
}

type batchJSON struct {
	Type          string `json:"type"` // batch
	Pos           int64  `json:"pos"`
	Base          int64  `json:"base"`
	Last          int64  `json:"last"`
	Count         int32  `json:"count"`
	Size          int    `json:"size"`
	Epoch         int32  `json:"epoch"`
	Codec         string `json:"codec"`
	LogAppendTime bool   `json:"logAppendTime,omitempty"`
	Transactional bool   `json:"transactional,omitempty"`
	Control       bool   `json:"control,omitempty"`
	BaseTime      string `json:"baseTime"`
	MaxTime       string `json:"maxTime"`
	Producer      int64  `json:"producer"`
	ProducerEpoch int16  `json:"producerEpoch"`
	Sequence      int32  `json:"sequence"`
	CRC           string `json:"crc"`
	Good          bool   `json:"good"` // what isn't is a line of type damage
}

// damageJSON is a range of bytes that are no batch; of type tail when nothing good follows.
type damageJSON struct {
	Type  string `json:"type"`
	File  string `json:"file"`
	Start int64  `json:"start"`
	End   int64  `json:"end"`
	First int64  `json:"firstOffset"`
	Next  *int64 `json:"nextOffset,omitempty"`
	What  string `json:"what"`
}

// endJSON ends a segment's lines.
type endJSON struct {
	Type  string `json:"type"` // segmentEnd
	File  string `json:"file"`
	Pos   int64  `json:"pos"`
	Next  int64  `json:"next"`
	Zeros int64  `json:"zeros"` // bytes reserved behind the batches
}

func (d *dumper) heading(ref partitionRef, folder log.Folder) error {
	p, ok := folder.Point.InForce()
	if d.json {
		j := folderJSON{Type: "partition", partitionRef: ref, Folder: folder.Dir, SetAside: folder.Aside}
		if ok {
			j.Start, j.Point = &p.Start, &p.Offset
		}
		return d.out.object(j)
	}
	point := "no usable recovery point"
	if ok {
		point = fmt.Sprintf("recovery point at offset %d (%s), log start %d", p.Offset, placeOf(p), p.Start)
	}
	if err := d.out.printf("%v  %s  %s\n", ref, folder.Dir, point); err != nil {
		return err
	}
	for _, name := range folder.Aside {
		if err := d.out.printf("  set aside by a recovery or a repair: %s\n", filepath.Base(name)); err != nil {
			return err
		}
	}
	return nil
}

// placeOf says where a recovery point stands.
func placeOf(p log.RecoveryPoint) string {
	if !p.Placed() {
		return segment.Name(p.Base)
	}
	return fmt.Sprintf("%s byte %d", segment.Name(p.Base), p.Pos)
}

func (d *dumper) segmentHeading(base int64) error {
	info, err := host.Stat(d.path)
	if err != nil {
		return err
	}
	var entries *int
	index := "no index"
	if x, err := segment.ReadIndex(host, indexPath(d.path)); err == nil {
		n := len(x.Entries)
		entries, index = &n, fmt.Sprintf("index of %d entries for %d bytes", n, x.End)
	} else if !errors.Is(err, fs.ErrNotExist) {
		index = "index unusable"
	}
	if d.json {
		return d.out.object(segmentJSON{"segment", d.path, base, info.Size(), entries})
	}
	return d.out.printf("\n%s  %s, %s\n%12s  %-21s %7s %9s  %5s  %-6s  %-3s  %s\n", filepath.Base(d.path), bytesText(info.Size()),
		index, "BYTE", "OFFSETS", "RECORDS", "SIZE", "EPOCH", "CODEC", "CRC", "TIMES")
}

func (d *dumper) batchLine(pos int64, h record.BatchHeader) error {
	if d.json {
		return d.out.object(batchJSON{
			Type: "batch", Pos: pos, Base: h.BaseOffset, Last: h.LastOffset(), Count: h.Count, Size: h.Size(), Epoch: h.LeaderEpoch,
			Codec: h.Attributes.Codec().String(), LogAppendTime: h.Attributes.LogAppendTime(),
			Transactional: h.Attributes.Transactional(), Control: h.Attributes.Control(),
			BaseTime: timeText(h.BaseTimestamp), MaxTime: timeText(h.MaxTimestamp), Producer: h.ProducerID,
			ProducerEpoch: h.ProducerEpoch, Sequence: h.BaseSequence, CRC: fmt.Sprintf("%08x", h.CRC), Good: true,
		})
	}
	times := "-"
	if h.Count > 0 {
		times = timeText(h.BaseTimestamp)
	}
	if h.MaxTimestamp != h.BaseTimestamp {
		times += " to " + timeText(h.MaxTimestamp)
	}
	a := h.Attributes
	for _, flag := range []struct {
		set  bool
		name string
	}{{a.LogAppendTime(), "append time"}, {a.Transactional(), "transactional"}, {a.Control(), "control"}} {
		if flag.set {
			times += ", " + flag.name
		}
	}
	return d.out.printf("%12d  %-21s %7d %9d  %5d  %-6s  %-3s  %s\n", pos, span(h.BaseOffset, h.NextOffset()), h.Count, h.Size(),
		h.LeaderEpoch, h.Attributes.Codec(), "ok", times)
}

func (d *dumper) recordLine(r *record.Record) error {
	if d.json {
		return d.out.object(jsonOf(r, nil))
	}
	return d.out.printf("%12s  %-12d %s  %s\n", "", r.Offset, timeText(r.Time.UnixMilli()), recordCells(r))
}

// hole prints bytes that are no batch although good ones follow.
func (d *dumper) hole(from, to segment.Place, cause error) error {
	d.damaged = true
	if d.json {
		return d.out.object(damageJSON{"damage", d.path, from.Pos, to.Pos, from.Offset, &to.Offset, cause.Error()})
	}
	return d.out.printf("%12d  %-21s DAMAGED  %d bytes: %v\n", from.Pos, span(from.Offset, to.Offset), to.Pos-from.Pos, cause)
}

// end prints what follows the last good batch of a segment.
func (d *dumper) end(found segment.Found) error {
	zeros := found.Size - max(found.TailEnd, found.End.Pos)
	if found.Tail != nil {
		if err := d.tail(found); err != nil {
			return err
		}
	}
	if d.json {
		return d.out.object(endJSON{"segmentEnd", d.path, found.End.Pos, found.End.Offset, zeros})
	}
	rest := ""
	if zeros > 0 {
		rest = fmt.Sprintf(", %s reserved", bytesText(zeros))
	}
	return d.out.printf("%12d  %d is next%s\n", found.End.Pos, found.End.Offset, rest)
}

func (d *dumper) tail(found segment.Found) error {
	if d.json {
		return d.out.object(damageJSON{"tail", d.path, found.End.Pos, found.TailEnd, found.End.Offset, nil, found.Tail.Error()})
	}
	return d.out.printf("%12d  %-21s no batch, and none behind it: %d bytes: %v\n", found.End.Pos, "", found.TailEnd-found.End.Pos,
		found.Tail)
}
