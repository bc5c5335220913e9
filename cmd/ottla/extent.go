package main

import (
	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/record"
	"github.com/ottlalog/ottla/segment"
)

// extent is what a partition holds.
type extent struct {
	start, end int64 // offsets
	bytes      int64 // of batches
	segments   int
}

// measure finds a partition's extent. Only what lies above the recovery point is read.
func measure(folder log.Folder) (extent, error) {
	x := extent{segments: len(folder.Segments)}
	p, ok := folder.Point.InForce()
	if ok {
		x.start, x.end = p.Start, p.Offset
	}
	if x.segments == 0 {
		return x, nil
	}
	if !ok {
		x.start = folder.Segments[0].Base
	}
	for _, s := range folder.Segments[:x.segments-1] {
		x.bytes += s.Size
	}
	last := folder.Segments[x.segments-1]
	from := segment.Place{Offset: last.Base}
	if ok && p.Base == last.Base && p.Pos <= last.Size {
		from = segment.Place{Pos: p.Pos, Offset: p.Offset}
	}
	found, err := segment.Walk(host, last.Path, from, func(segment.Stretch) error { return nil })
	if err != nil {
		return x, err
	}
	x.bytes += found.End.Pos
	x.end = max(x.end, found.End.Offset)
	return x, nil
}

// measurePartition looks at a partition's folder until it holds still: a service may seal and remove segments meanwhile.
func measurePartition(dir string) (x extent, err error) {
	err = settle(func() error {
		folder, err := log.Look(host, dir)
		if err == nil {
			x, err = measure(folder)
		}
		return err
	})
	return x, err
}

// eachRecord calls visit for the records of a batch. The record is good until visit returns.
func eachRecord(b record.Batch, visit func(*record.Record) error) error {
	plain, err := b.Decompress(nil, log.MaxBatchBytes)
	if err != nil {
		return err
	}
	it := plain.Records()
	var r record.Record
	for it.Next(&r) {
		if err := visit(&r); err != nil {
			return err
		}
	}
	return it.Err()
}
