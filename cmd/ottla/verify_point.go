package main

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/segment"
)

// pointFile verifies the file recovery-point by itself.
func (p *partitionCheck) pointFile() error {
	var file log.PointFile
	var err error
	path := pointPath(p.folder.Dir)
	lookAgain(func() bool {
		file, err = log.ReadPointFile(host, path)
		return err == nil && badSlot(file) != nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	bad := badSlot(file)
	_, ok := file.InForce()
	switch {
	case bad != nil:
		p.damage(finding{File: path, Start: bad.Pos, End: bad.End, What: what(bad.Err)})
	case len(p.folder.Segments) == 0 || ok:
	case file.Size == 0:
		p.damage(finding{File: path, What: "is missing or empty, and there are segments"})
	default:
		p.damage(finding{File: path, End: file.Size, What: "no recovery point is in it, and there are segments"})
	}
	if file.Stray > 0 {
		p.note(finding{File: path, Start: file.Stray, End: file.Size, What: "bytes outside of the two slots, which nobody reads"})
	}
	return nil
}

// badSlot returns a slot with something in it that is no recovery point.
func badSlot(file log.PointFile) *log.PointSlot {
	for i := range file.Slots {
		if s := &file.Slots[i]; s.Err != nil && !s.Blank {
			return s
		}
	}
	return nil
}

// ending checks that the recovery point is a place in the log.
func (p *partitionCheck) ending() {
	segs, at := p.folder.Segments, p.point
	switch {
	case !p.known || p.pointMet || at.Base < p.gone:
	case len(segs) == 0:
		if at.Offset > 0 {
			p.damage(finding{File: p.folder.Dir, First: at.Start, Next: at.Offset,
				What: "there is a recovery point, and all segments are missing"})
		}
	case !at.Placed(): // that the log reaches its offset was checked already
	case at.Pos == 0 && at.Base == at.Offset && at.Base > segs[len(segs)-1].Base: // so was that nothing is missing before it
	case at.Base < segs[0].Base: // its segment was removed meanwhile
	case p.damagedAt(at.Offset):
	default:
		p.damage(finding{File: pointPath(p.folder.Dir), What: "no batch begins where it says: " + segment.Name(at.Base)})
	}
}

// damagedAt says whether an offset, or the one before it, was found to be damaged or missing.
func (p *partitionCheck) damagedAt(offset int64) bool {
	return slices.ContainsFunc(p.findings, func(f finding) bool {
		return f.Type == typeDamage && f.First < f.Next && f.First <= offset && offset <= f.Next
	})
}

// orphans notes index files whose segments are gone.
func (p *partitionCheck) orphans() error {
	entries, err := host.ReadDir(p.folder.Dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		index := filepath.Join(p.folder.Dir, e.Name())
		name, isIndex := strings.CutSuffix(index, indexSuffix)
		if !isIndex || !missing(name+logSuffix) || missing(index) { // both may have gone since
			continue
		}
		p.note(finding{File: index, What: "index without a segment"})
	}
	return nil
}

func missing(path string) bool {
	_, err := host.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}
