package ottla

import (
	"fmt"

	"github.com/ottlalog/ottla/log"
)

// Health is what is not as it should be. The zero value is a clean bill.
type Health struct {
	// Partitions lists those that take no records, have damage, or whose opening found something: in the order of topic and
	// number.
	Partitions []PartitionHealth
	// Journal tells of a torn end that opening cut off the catalogue's journal; it was never acknowledged. Empty: none.
	Journal string
}

// PartitionHealth is what is not as it should be with one partition.
type PartitionHealth struct {
	Topic     string
	Partition int
	// Err is why the partition takes no records (ErrFailed), or can't be used at all (ErrNoLeader). Nil: it is well.
	Err error
	// Damage has the ranges that can't be read, as far as they are known: opening has found them, or a reader has met them.
	Damage []*CorruptionError
	// Recovery is what opening found and did: how much of an unfinished append was cut off, what was set aside, and which
	// ranges were damaged by then.
	Recovery Recovery
}

// Recovery is what opening a partition found and did.
type Recovery = log.Recovery

// Health reports what is not as it should be. It reads no disk.
func (b *Broker) Health() Health {
	var h Health
	if r := b.report; r.CutBytes > 0 {
		h.Journal = fmt.Sprintf("%s: %d bytes cut off at byte %d", r.File, r.CutBytes, r.CutPos)
		if r.SetAside != "" {
			h.Journal += ", kept in " + r.SetAside
		}
	}
	for _, t := range b.Topics() {
		for n := range t.Partitions() {
			p := t.Partition(n)
			ph := PartitionHealth{Topic: t.Name(), Partition: n, Err: p.Err(), Damage: p.Damage(), Recovery: p.Recovery()}
			r := ph.Recovery
			if ph.Err != nil || r.Cut > 0 || len(r.SetAside) > 0 || len(ph.Damage) > 0 {
				h.Partitions = append(h.Partitions, ph)
			}
		}
	}
	return h
}
