package main

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/ottlalog/ottla/topic"
)

// topicJSON is a topic as a line of JSON.
type topicJSON struct {
	Type       string          `json:"type"`
	Topic      string          `json:"topic"`
	ID         string          `json:"id"`
	Created    time.Time       `json:"created"`
	Settings   topic.Config    `json:"settings"` // durations in ns
	Partitions []partitionJSON `json:"partitions"`
}

type partitionJSON struct {
	Partition int    `json:"partition"`
	Start     int64  `json:"start"`
	End       int64  `json:"end"`
	Bytes     int64  `json:"bytes"`
	Segments  int    `json:"segments"`
	Error     string `json:"error,omitempty"`
}

// overview is what the commands topics and groups show.
type overview struct {
	topics []topicJSON
	groups []groupJSON
	broken bool // a partition couldn't be looked at
}

func topics(c *call) error {
	flags := newFlags()
	asJSON := flags.Bool("json", false, "")
	args, err := c.parse(flags, 1, 1)
	if err != nil {
		return err
	}
	view, err := overviewOf(args[0])
	if err != nil {
		return err
	}
	if *asJSON {
		err = view.writeJSON(c.out)
	} else {
		err = view.writeTopics(c.out)
	}
	if err == nil && view.broken {
		err = errDamage
	}
	return err
}

// overviewOf reads a directory, again if a topic has gone meanwhile.
func overviewOf(dir string) (o overview, err error) {
	const attempts = 3
	for n := 1; ; n++ {
		cat, err := openCatalogue(dir)
		if err != nil {
			return overview{}, err
		}
		o, gone := look(cat)
		if !gone || n == attempts {
			return o, nil
		}
	}
}

// look measures the partitions of a catalogue. gone says that a folder is missing.
func look(cat *catalogue) (o overview, gone bool) {
	ends, errs := map[partitionRef]extent{}, map[partitionRef]string{}
	for _, t := range cat.topics {
		tj := topicJSON{Type: "topic", Topic: t.Name, ID: t.ID, Created: t.Created.UTC(), Settings: t.Settings}
		for n := range t.Partitions {
			ref := partitionRef{t.Name, n}
			x, err := measurePartition(ref.folder(cat.dir))
			p := partitionJSON{Partition: n, Start: x.start, End: x.end, Bytes: x.bytes, Segments: x.segments}
			if err != nil {
				p.Error = err.Error()
				errs[ref] = p.Error
				o.broken = true
				gone = gone || errors.Is(err, fs.ErrNotExist)
			}
			ends[ref] = x
			tj.Partitions = append(tj.Partitions, p)
		}
		o.topics = append(o.topics, tj)
	}
	for _, g := range cat.commits() {
		gj := groupJSON{Type: "group", Group: g.name}
		for _, at := range g.offsets {
			x := ends[at.at]
			gj.Offsets = append(gj.Offsets, offsetJSON{partitionRef: at.at, Committed: at.Next, Start: x.start, End: x.end,
				Lag: max(0, x.end-max(at.Next, x.start)), Metadata: at.Metadata, Error: errs[at.at]})
		}
		o.groups = append(o.groups, gj)
	}
	return o, gone
}

func (o overview) writeJSON(out *output) error {
	for _, t := range o.topics {
		if err := out.object(t); err != nil {
			return err
		}
	}
	return nil
}

func (o overview) writeTopics(out *output) error {
	if len(o.topics) == 0 {
		return out.printf("no topics\n")
	}
	t := out.table()
	fmt.Fprint(t, "TOPIC\tPARTITIONS\tREPLICAS\tSEGMENTS OF\tKEPT\tRECORDS TO\tCREATED\tID\n")
	for _, tj := range o.topics {
		s := tj.Settings
		fmt.Fprintf(t, "%s\t%d\t%d\t%s or %s\t%s\t%s\t%s\t%s\n", tj.Topic, len(tj.Partitions), s.Replicas,
			bytesText(s.SegmentBytes), durationText(s.SegmentAge), retentionText(s), bytesText(int64(s.MaxRecordBytes)),
			tj.Created.Format("2006-01-02 15:04"), tj.ID)
	}
	fmt.Fprint(t, "\n")
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprint(t, "PARTITION\tSTART\tEND\tRECORDS\tSIZE\tSEGMENTS\n")
	for _, tj := range o.topics {
		for _, p := range tj.Partitions {
			at := partitionRef{tj.Topic, p.Partition}
			if p.Error != "" {
				fmt.Fprintf(t, "%v\t%s\n", at, p.Error)
				continue
			}
			fmt.Fprintf(t, "%v\t%d\t%d\t%d\t%s\t%d\n", at, p.Start, p.End, p.End-p.Start, bytesText(p.Bytes), p.Segments)
		}
	}
	return t.Flush()
}

func retentionText(c topic.Config) string {
	switch {
	case c.RetentionBytes > 0 && c.RetentionAge > 0:
		return bytesText(c.RetentionBytes) + ", " + durationText(c.RetentionAge)
	case c.RetentionBytes > 0:
		return bytesText(c.RetentionBytes)
	case c.RetentionAge > 0:
		return durationText(c.RetentionAge)
	}
	return "all"
}
