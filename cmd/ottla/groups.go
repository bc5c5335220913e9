package main

import (
	"fmt"
	"slices"
)

// groupJSON is a group as a line of JSON.
type groupJSON struct {
	Type    string       `json:"type"`
	Group   string       `json:"group"`
	Offsets []offsetJSON `json:"offsets"`
}

type offsetJSON struct {
	partitionRef
	Committed int64  `json:"committed"`
	Start     int64  `json:"start"`
	End       int64  `json:"end"`
	Lag       int64  `json:"lag"`
	Metadata  string `json:"metadata,omitempty"`
	Error     string `json:"error,omitempty"`
}

func groups(c *call) error {
	flags := newFlags()
	asJSON := flags.Bool("json", false, "")
	args, err := c.parse(flags, 1, 2)
	if err != nil {
		return err
	}
	view, err := overviewOf(args[0])
	if err != nil {
		return err
	}
	list := view.groups
	if len(args) == 2 {
		list = slices.DeleteFunc(list, func(g groupJSON) bool { return g.Group != args[1] })
		if len(list) == 0 {
			return usageError(fmt.Sprintf("no group %q has committed anything", args[1]))
		}
	}
	if *asJSON {
		err = writeGroupsJSON(c.out, list)
	} else {
		err = writeGroups(c.out, list)
	}
	if err == nil && slices.ContainsFunc(list, groupJSON.broken) {
		err = errDamage
	}
	return err
}

// broken says that a partition couldn't be looked at.
func (g groupJSON) broken() bool {
	return slices.ContainsFunc(g.Offsets, func(at offsetJSON) bool { return at.Error != "" })
}

func writeGroupsJSON(out *output, list []groupJSON) error {
	for _, g := range list {
		if err := out.object(g); err != nil {
			return err
		}
	}
	return nil
}

func writeGroups(out *output, list []groupJSON) error {
	if len(list) == 0 {
		return out.printf("no groups\n")
	}
	t := out.table()
	fmt.Fprint(t, "GROUP\tPARTITION\tCOMMITTED\tSTART\tEND\tLAG\tMETADATA\n")
	for _, g := range list {
		for _, at := range g.Offsets {
			if at.Error != "" {
				fmt.Fprintf(t, "%s\t%v\t%d\t%s\n", g.Group, at.partitionRef, at.Committed, at.Error)
				continue
			}
			fmt.Fprintf(t, "%s\t%v\t%d\t%d\t%d\t%d\t%s\n", g.Group, at.partitionRef, at.Committed, at.Start, at.End, at.Lag, at.Metadata)
		}
	}
	return t.Flush()
}
