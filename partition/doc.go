// Package partition is one log and its copies: a leader, its epoch, the high watermark, and the readers that see what is
// below it. Followers in mirror directories will stand beside the leader here; a Partition without mirrors is one whose
// in-sync set is the leader alone.
//
// # Invariants
//
//   - log start offset ≤ high watermark ≤ log end offset. The high watermark never goes back.
//   - A record is acknowledged, and visible to readers, only once it is below the high watermark: once every in-sync
//     replica has it as safely as its sync policy promises.
//   - A partition that can't be served (its log is missing or won't open) is an error of that partition alone. It stays
//     in its topic, and each of its methods says what is wrong.
//
// # Locks
//
// In the order in which they are taken, over the whole module:
//
//  1. group: the coordinator's mutex of one group
//  2. topic: the turn of the set of topics; a producer's mutex
//  3. internal/journal: its writer's turn, then its mutex
//  4. log: the turn, then its mutex; that of known damage alone
//  5. segment: the index's mutex, then the views' mutex
//  6. internal/notify: an offset's mutex
//
// None is held while a function of the user's runs, and none but the turns while the disk is waited for.
package partition
