package group

import (
	"slices"
	"strconv"
	"time"
)

// RunConfig has the settings of Run. The zero value handles one record at a time and ends at the first that fails.
type RunConfig struct {
	// Concurrency is how many partitions are handled at the same time; 0: 1. Run joins with so many members, among which the
	// assignor shares the partitions: callbacks run for each, and InstanceID gets the suffixes "-0", "-1" and so on.
	Concurrency int
	// Retries is how often a record is tried again whose handler has failed. Meanwhile its partition waits, and the others go on.
	// Counting begins anew when the partition gets another owner.
	Retries int
	// RetryBackoff is the wait before the first retry; 0: 100 ms. It doubles from one to the next, up to a minute; each wait
	// is a random part of it, between a half and all.
	RetryBackoff time.Duration
	// DeadLetter is a topic, which has to exist and not be one of Topics, for records that have failed after all Retries: with
	// key, value and headers of the original, and those of HeaderError and its like. Its MaxRecordBytes has to have room for them.
	// A record that can't be stored there ends Run, and a crash may store it twice. "": a record that has failed ends Run.
	DeadLetter string
	// DrainTimeout is how long handlers may go on with the records that they have when Run's context ends, until their
	// contexts end too; 0: these end at once. Run waits for handlers in any case.
	DrainTimeout time.Duration
}

// check tells what is wrong.
func (c RunConfig) check(topics []string, check func(ok bool, format string, args ...any)) {
	check(c.Concurrency >= 0, "Run.Concurrency is %d", c.Concurrency)
	check(c.Retries >= 0, "Run.Retries is %d", c.Retries)
	check(c.RetryBackoff >= 0, "Run.RetryBackoff is %v", c.RetryBackoff)
	check(c.DrainTimeout >= 0, "Run.DrainTimeout is %v", c.DrainTimeout)
	check(!slices.Contains(topics, c.DeadLetter), "Run.DeadLetter: %q is one of Topics", c.DeadLetter)
}

func (c RunConfig) withDefaults() RunConfig {
	if c.Concurrency == 0 {
		c.Concurrency = 1
	}
	if c.RetryBackoff == 0 {
		c.RetryBackoff = 100 * time.Millisecond
	}
	return c
}

// instances returns the instance IDs of the members of a Run.
func (c MemberConfig) instances() []string {
	ids := make([]string, c.Run.Concurrency)
	for i := range ids {
		if ids[i] = c.InstanceID; c.InstanceID != "" && len(ids) > 1 {
			ids[i] += "-" + strconv.Itoa(i)
		}
	}
	return ids
}
