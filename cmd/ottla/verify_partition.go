package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"

	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/record"
	"github.com/ottlalog/ottla/segment"
)

// partitionCheck verifies one partition. What it finds is kept until the end: what can be done about it depends on what
// follows.
type partitionCheck struct {
	*verifier
	ref    partitionRef
	folder log.Folder
	point  log.RecoveryPoint
	known  bool // there is a recovery point

	epoch    int32 // the largest that a batch may have,
	fresh    bool  // looked up since the check began
	last     int32 // the largest that one had so far
	goodEnd  int64 // offset behind the last good batch
	gone     int64 // segments below this offset were removed by retention meanwhile
	pointMet bool  // a batch begins or the log ends where the recovery point says

	findings []finding
	counts   counts
}

func newPartitionCheck(v *verifier, ref partitionRef, folder log.Folder) *partitionCheck {
	p := &partitionCheck{verifier: v, ref: ref, folder: folder, epoch: math.MaxInt32}
	if t, ok := v.cat.topic(ref.Topic); ok {
		p.epoch = t.epoch(ref.Partition)
	}
	p.point, p.known = folder.Point.InForce()
	return p
}

func (p *partitionCheck) damage(f finding) { p.add(typeDamage, f) }
func (p *partitionCheck) note(f finding)   { p.add(typeNote, f) }

func (p *partitionCheck) add(kind string, f finding) {
	f.Type, f.partitionRef, f.epoch = kind, &p.ref, p.last
	p.findings = append(p.findings, f)
}

func (p *partitionCheck) run() error {
	if err := p.pointFile(); err != nil {
		return err
	}
	if err := p.beginning(); err != nil {
		return err
	}
	for i := range p.folder.Segments {
		if err := p.segment(i); err != nil {
			return err
		}
	}
	p.ending()
	for _, path := range p.folder.Aside {
		p.note(finding{File: path, What: "set aside by a recovery or a repair"})
	}
	for _, path := range p.folder.Others {
		p.note(finding{File: path, What: "doesn't belong to the log"})
	}
	return p.orphans()
}

// beginning checks that the first segment holds the log start.
func (p *partitionCheck) beginning() error {
	segs := p.folder.Segments
	if len(segs) == 0 || !p.known || p.point.Start >= segs[0].Base {
		return nil
	}
	removed, err := p.removedBelow(segs[0].Base)
	if err == nil && !removed {
		p.damage(finding{File: p.folder.Dir, First: p.point.Start, Next: segs[0].Base,
			What: "the segments with these offsets are missing"})
	}
	return err
}

// removedBelow says whether retention has removed what is below an offset: the log start moves first.
func (p *partitionCheck) removedBelow(offset int64) (removed bool, err error) {
	lookAgain(func() bool {
		var file log.PointFile
		file, err = log.ReadPointFile(host, pointPath(p.folder.Dir))
		now, ok := file.InForce()
		removed = ok && now.Start >= offset
		return err == nil && !removed
	})
	return removed, err
}

// vanished deals with a segment that was there when the folder was listed.
func (p *partitionCheck) vanished(i int) error {
	s := p.folder.Segments[i]
	next := s.Base + 1
	if i+1 < len(p.folder.Segments) {
		next = p.folder.Segments[i+1].Base
	}
	removed, err := p.removedBelow(next)
	switch {
	case err != nil:
	case removed:
		p.gone = next
	default:
		p.damage(finding{File: s.Path, First: s.Base, Next: next, What: "went missing meanwhile"})
	}
	return err
}

// segment verifies a file of batches and the index of it.
func (p *partitionCheck) segment(i int) error {
	s := p.folder.Segments[i]
	x, err := p.openIndex(s)
	if err != nil {
		return err
	}
	seen := int64(0)
	found, err := segment.Walk(host, s.Path, segment.Place{Offset: s.Base}, func(st segment.Stretch) error {
		p.progress.add(st.To.Pos - seen)
		seen = st.To.Pos
		p.meetPoint(s, st.From)
		if st.Err == nil {
			p.batch(s, st)
			x.batch(st)
			return nil
		}
		p.damage(finding{File: s.Path, Start: st.From.Pos, End: st.To.Pos, First: st.From.Offset, Next: st.To.Offset,
			What: what(st.Err), cure: cureDrop})
		x.skip(st)
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return p.vanished(i)
	}
	if err != nil {
		return err
	}
	p.progress.add(found.Size - seen)
	p.counts.Segments++
	p.counts.Bytes += found.End.Pos
	p.meetPoint(s, found.End)
	if i+1 < len(p.folder.Segments) {
		p.sealedEnd(s, found, p.folder.Segments[i+1].Base)
	} else {
		p.openEnd(s, found)
	}
	return x.end(found)
}

// what says what is wrong, without the words that every such error begins with.
func what(err error) string {
	return strings.TrimPrefix(err.Error(), record.ErrCorrupt.Error()+": ")
}

// meetPoint notes that a batch begins, or the batches end, at the recovery point.
func (p *partitionCheck) meetPoint(s log.SegmentFile, at segment.Place) {
	if p.known && s.Base == p.point.Base && at.Pos == p.point.Pos && at.Offset == p.point.Offset {
		p.pointMet = true
	}
}

// batch checks what the checksum of a batch doesn't vouch for.
func (p *partitionCheck) batch(s log.SegmentFile, st segment.Stretch) {
	h := st.Batch.Header()
	p.counts.Batches++
	f := finding{File: s.Path, Start: st.From.Pos, End: st.To.Pos, First: st.From.Offset, Next: st.To.Offset}
	latest, n := int64(math.MinInt64), int64(0)
	err := eachRecord(st.Batch, func(r *record.Record) error {
		latest = max(latest, r.Time.UnixMilli())
		n++
		return nil
	})
	p.counts.Records += n
	switch {
	case errors.Is(err, record.ErrSize):
		f.What = "records not looked at: " + err.Error()
		p.note(f)
	case err != nil:
		f.What, f.cure = what(err), cureDrop
		p.damage(f)
		return
	case n > 0 && latest != h.MaxTimestamp:
		f.What = fmt.Sprintf("largest timestamp is %s, the header says %s", timeText(latest), timeText(h.MaxTimestamp))
		p.damage(f)
	}
	p.goodEnd = st.To.Offset
	if f.What = p.epochFault(h.LeaderEpoch); f.What != "" {
		p.damage(f)
	}
}

// epochFault checks the leader epoch of the next batch, which stands outside its checksum. Epochs never fall, and the
// catalogue knows each before a batch has it.
func (p *partitionCheck) epochFault(epoch int32) string {
	if epoch > p.epoch && !p.fresh {
		p.fresh = true
		if t, ok := p.current(p.ref); ok {
			p.epoch = t.epoch(p.ref.Partition)
		}
	}
	switch {
	case epoch < 0 || epoch > p.epoch:
		return fmt.Sprintf("leader epoch %d, and the catalogue knows 0 to %d", epoch, p.epoch)
	case epoch < p.last:
		return fmt.Sprintf("leader epoch %d after %d", epoch, p.last)
	}
	p.last = epoch
	return ""
}

// sealedEnd checks that a segment ends where the next begins.
func (p *partitionCheck) sealedEnd(s log.SegmentFile, found segment.Found, next int64) {
	f := finding{File: s.Path, Start: found.End.Pos, End: found.Size, First: found.End.Offset, Next: next, cure: cureDrop}
	if next-s.Base > math.MaxInt32 {
		f.cure = cureNone // no segment has so many offsets
	}
	unsealed := !p.known || s.Base >= p.point.Base
	switch {
	case found.End.Offset < next && found.Tail != nil:
		f.What = "no batch, and none behind it in the segment: " + what(found.Tail)
	case found.End.Offset < next:
		f.What = fmt.Sprintf("the segment ends at offset %d, the next one begins at %d", found.End.Offset, next)
	case found.End.Offset > next:
		f.First, f.Next, f.cure = next, found.End.Offset, cureNone
		f.What = fmt.Sprintf("the next segment begins at offset %d, in the midst of this one", next)
	case found.Tail != nil:
		f.What = "bytes that are no batch at the end of the segment: " + what(found.Tail)
	case found.End.Pos < found.Size && !unsealed:
		f.What = "zeros behind the last batch of a sealed segment"
	default:
		return
	}
	p.damage(f)
}

// openEnd judges what follows the last batch of the log: below the recovery point everything must be there.
func (p *partitionCheck) openEnd(s log.SegmentFile, found segment.Found) {
	f := finding{File: s.Path, Start: found.End.Pos, End: found.TailEnd, First: found.End.Offset, Next: found.End.Offset,
		cure: cureDrop}
	if found.Tail != nil {
		f.What = what(found.Tail)
	}
	switch {
	case p.known && found.End.Offset < p.point.Offset && found.Tail != nil:
		f.Next = p.point.Offset
		f.What += "; the recovery point says that these offsets were on the disk"
		p.damage(f)
	case p.known && found.End.Offset < p.point.Offset:
		f.Next, f.End = p.point.Offset, f.Start
		if s.Base == p.point.Base {
			f.End = max(f.Start, min(p.point.Pos, found.Size))
		}
		f.What = "the log ends before the recovery point: these offsets were on the disk"
		p.damage(f)
	case found.Tail != nil:
		f.What = "torn tail behind the recovery point, an append cut short or under way: " + f.What
		p.note(f)
	}
}
