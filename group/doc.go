// Package group shares topics among the members of consumer groups.
//
// A group has one coordinator in the process. Whenever members or topics change it computes a target, which says who shall
// own which partition, and each member moves toward it at its next Poll: it gives up what it shall not have any more, and
// takes what it shall have once that is free. Whoever keeps a partition goes on reading it; nobody waits for the others.
//
// # Invariants
//
//   - At every instant a partition of a topic has at most one owner in a group. A new owner comes only after the one before
//     has let go, OnRevoked and commits included, or was fenced.
//   - Only an owner moves the committed offset. A commit is checked under the group's lock and pins the partition until the
//     journal has it: in between the partition has no other owner. So a late commit fails and can't undo a newer one.
//   - A committed offset is never beyond what was handed out, and never goes back while its owner lives; but for Seek, and
//     where the log has lost its end.
//   - Where a group begins is decided when a topic becomes known to it, not when somebody takes the partition, and is
//     committed before anything is read. So Latest skips nothing that came after Join, also if the process dies at once.
//     A partition that appears later begins at its beginning.
//   - A partition belongs to a topic's ID. A topic that is deleted and made anew shares nothing with the old one.
//   - No lock is held while a function of the user's runs or the disk is waited for.
//
// # Ownership and liveness
//
// A member is served by the goroutine that is inside its Poll: only that goroutine reads, gives up and takes partitions, and
// runs OnAssigned, OnRevoked and OnLost. The member is busy then, and can't be fenced. While it isn't, or runs one of these
// functions, its clock runs: after MaxPollInterval it is fenced, and whoever fences takes its partitions away. Between the
// two stands the coordinator's lock.
//
// Waiting costs nothing: one channel wakes a member, for records, for a new target, for a commit that is due and for the end.
//
// # Files
//
//	reconcile.go    who owns what, what a member has to do next: pure
//	rebalance.go    from members and topics to a target; bursts of changes are merged
//	coordinator.go  members coming, going and being fenced; topics appearing and vanishing
//	config.go       settings of members; run_config.go: those of Run
//	member.go       a member's state and life
//	poll.go         one Poll: reconcile, fetch, hand out, wait
//	feed.go         reading a member's partitions in turn
//	position.go     Seek, Pause, Resume, and positions out of range
//	commit.go       commits; offsets.go: where groups stand in the journal
//	describe.go     what is known of a group; admin.go: changing what a group has committed
//	run.go          Run; retry.go, deadletter.go: what becomes of records that fail
//
// Locks: the set's, then the coordinator's, then those of the floors below (see package partition).
package group
