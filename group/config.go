package group

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/ottlalog/ottla/log"
	"github.com/ottlalog/ottla/partition"
	"github.com/ottlalog/ottla/topic"
)

// Options are what a Set's owner decides for all groups.
type Options struct {
	// Sync: under log.SyncAlways a commit is on the disk when it returns. Under the others it survives a killed process,
	// and power loss once the journal is synced next.
	Sync log.SyncPolicy
	// Logger hears of fenced members, positions that were reset, and partitions that can't be read. Nil: silent.
	Logger *slog.Logger

	trace func(group string, s *slot) // for tests: called under the coordinator's lock when a slot's owner has changed
}

// MemberConfig has the settings of a member.
//
// OnAssigned, OnRevoked and OnLost run on the goroutine that is inside Poll or Close. They may call every method of the
// member but Poll, Records and Close, which return ErrInCallback. A callback counts as not polling: one that takes longer than
// MaxPollInterval gets the member fenced. A panic of theirs goes on to the caller of Poll, and the member is fenced first.
type MemberConfig struct {
	// Topics are what the member reads. One that doesn't exist is read as soon as it does.
	Topics []string
	// Start is where a group begins that has committed nothing in a topic yet; the zero value is partition.Earliest.
	// It is applied once, at the first Join, and kept. Partitions and topics that appear later are read from their beginning.
	Start partition.Start
	// Reset is where the member goes on when its position is out of range; the zero value is ResetEarliest.
	Reset ResetPolicy
	// MaxPollRecords is the most that one Poll returns; 0: 500.
	MaxPollRecords int
	// MaxPollInterval is how long a member may do without Poll, at least 1 ms, until its partitions go to others; 0: 5 minutes.
	MaxPollInterval time.Duration
	// AutoCommitInterval is how often at most positions are committed by themselves; 0: 1 second.
	AutoCommitInterval time.Duration
	// ManualCommit leaves committing to Commit and CommitRecords alone, also on revoke and Close.
	ManualCommit bool
	// Assignor decides who reads what; nil: Sticky. The oldest member's counts. It must not block.
	Assignor Assignor
	// InstanceID is a lasting name. A member that joins under a name in use replaces the one that has it, which is fenced for good.
	InstanceID string

	// Run has the settings of Run, and counts for nothing else.
	Run RunConfig

	// OnAssigned is told what the member has got, before anything of it is handed out.
	OnAssigned func(m *Member, ps []TopicPartition)
	// OnRevoked is told what the member is about to give up. It still owns it, and may commit.
	OnRevoked func(m *Member, ps []TopicPartition)
	// OnLost is told what the member doesn't own any more: it was fenced, or the topic was deleted.
	OnLost func(m *Member, ps []TopicPartition)
}

// withDefaults returns the settings in force, a copy, or an error that names all that is wrong.
func (c MemberConfig) withDefaults() (MemberConfig, error) {
	var wrong []string
	check := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	check(len(c.Topics) > 0, "no Topics")
	for _, name := range c.Topics {
		err := topic.CheckName(name)
		check(err == nil, "Topics: %v", err)
	}
	check(c.MaxPollRecords >= 0, "MaxPollRecords is %d", c.MaxPollRecords)
	check(c.MaxPollInterval == 0 || c.MaxPollInterval >= time.Millisecond, "MaxPollInterval is %v", c.MaxPollInterval)
	check(c.Reset >= ResetEarliest && c.Reset <= ResetNone, "Reset is %d", c.Reset)
	check(c.AutoCommitInterval >= 0, "AutoCommitInterval is %v", c.AutoCommitInterval)
	c.Run.check(c.Topics, check)
	if len(wrong) > 0 {
		return c, fmt.Errorf("%w: %s", ErrInvalidMember, strings.Join(wrong, "; "))
	}
	c.Topics = slices.Compact(slices.Sorted(slices.Values(c.Topics)))
	if c.MaxPollRecords == 0 {
		c.MaxPollRecords = 500
	}
	if c.MaxPollInterval == 0 {
		c.MaxPollInterval = 5 * time.Minute
	}
	if c.AutoCommitInterval == 0 {
		c.AutoCommitInterval = time.Second
	}
	if c.Assignor == nil {
		c.Assignor = Sticky()
	}
	c.Run = c.Run.withDefaults()
	return c, nil
}

func checkName(name string) error {
	const longest = 249
	legal := name != "" && len(name) <= longest && utf8.ValidString(name)
	for _, r := range name {
		legal = legal && unicode.IsPrint(r)
	}
	if !legal {
		return fmt.Errorf("%w: name %.300q: 1 to %d bytes of printable UTF-8", ErrInvalidGroup, name, longest)
	}
	return nil
}
