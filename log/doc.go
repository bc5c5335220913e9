// Package log is one replica of a partition: segments in order in one folder. It appends, reads, recovers, retains and
// truncates, and knows nothing of replication, topics or groups.
//
// # Invariants
//
//   - Offsets are dense on append, never given out twice and never changed. Start ≤ Stable ≤ End. The end outlives the
//     removal of every record, and a crash right after.
//   - A failed append leaves nothing behind. After a failed write or sync the log takes no more appends (ErrFailed, with
//     the first cause): memory never runs ahead of the disk, and a later sync that succeeds proves nothing. A full disk
//     or too many open files are no such failure: they are met before anything is stored.
//   - What was synced grows from the front: older segments before newer ones, a segment's name before its records count.
//   - The recovery point (file recovery-point) is never ahead of what was synced. It is stored before the first segment
//     exists, when a segment is sealed, once a second while records are synced, and by Close; what a recovery accepts is
//     synced before the point moves over it.
//   - Every segment but the last ends exactly where the next begins. Where it doesn't, the rest is damage and not the end.
//
// # Recovery
//
// Open reads what lies above the recovery point and tells four things apart:
//
//   - Zeros behind the last good batch: the end.
//   - Something that is no batch, and no good batch behind it: the torn end of an unfinished append, cut off.
//   - The same with good batches behind it. Above the recovery point, under SyncInterval and SyncNever: the kernel wrote
//     later pages first; the log is cut there and the rest set aside in files beside it. Under SyncAlways they may have
//     been acknowledged, and so it is damage: everything stays, a Reader reports the range as a
//     *segment.CorruptionError, and Skip steps over it. Below the recovery point it is always damage.
//   - A failed read: an error of Open, which then has changed nothing that matters.
//
// # Files
//
//	00000000000000000000.log        batches from that offset on
//	00000000000000000000.index      see package segment; derived
//	00000000000000000000.log.1.aside  what a recovery has set aside; never read or removed
//	recovery-point                  two slots, the newer good one counts
package log
