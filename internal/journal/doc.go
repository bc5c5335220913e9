// Package journal is the write-ahead journal of the catalogue: topics, their settings, partitions and epochs, and what
// groups have committed. Events go in, are replayed into a [State] at [Open], and a snapshot of the state replaces the
// file before it grows large.
//
// # What survives
//
//	call                      a killed process   power loss   a failed disk operation
//	Append returned nil       yes                yes          yes: it is in memory, from where the journal heals
//	Write returned nil        yes                after the    yes
//	                                             next sync
//	either returned an error  as a whole or not at all; not at all unless the error matches ErrOutcomeUnknown
//
// It assumes that a page once synced stays as it is, that a rename is atomic, and that a file's first n bytes are durable
// once a sync has returned that began with n bytes written. It doesn't assume that pages written later reach the disk later.
//
// # On disk
//
//	<directory>/journal/
//	  00000000000000000007/                a generation: the one with the largest number is in force
//	    00000000000000000001               its file, which the wal library appends to
//	  00000000000000000008.tmp/            a generation that is being made
//	  00000000000000000006.cut-1           a tail that Open cut off and didn't want to lose
//
// A generation gets its name when its snapshot is complete and durable. So a generation whose snapshot isn't intact is
// damaged, and is refused: going back to an older one would forget what was acknowledged.
//
// The file is a row of entries. An entry is the length of its frame, a minimal uvarint, which is how the library stores
// entries, and the frame, numbers being big-endian:
//
//	0     4          12      20        28     29
//	+-----+----------+-------+---------+------+- - - - - - -+
//	|magic| checksum |  seq  | synced  | kind |   payload   |
//	+-----+----------+-------+---------+------+- - - - - - -+
//
//	magic     "OJ1\n"; the digit is the version of all that is said here. JSON holds no bare newline, so that in a damaged
//	          file the next frame can be found
//	checksum  xxh64 of all that follows
//	seq       number of the call, counted from creation through all generations: a call frame has the predecessor's plus 1,
//	          any other frame the predecessor's
//	synced    length of the file that was known to be on disk when the frame was written: if anything before that is
//	          broken, it isn't by a crash
//	kind      'S' part of the snapshot, 'E' end of the snapshot, 'C' a call, 'M' a mark; a file is S* E (C|M)*
//	payload   S and C: a JSON array of events, at least one; E: {"frames": number of S frames}; M: nothing
//
// One call is one frame, and so is atomic. All events of the snapshot fit the empty state in their order, all others the
// state before them. Frozen are the frame, the kinds and the names in the JSON; what a version adds, older ones refuse.
//
// # Reading a damaged file
//
// Open takes the frames up to the first bad one, at position P.
//
//   - P lies in the snapshot: damage.
//   - An intact frame behind P states a synced position beyond P: damage.
//   - Otherwise no call beyond P is known to have been acknowledged as durable: the tail is cut off there. Intact frames in it,
//     which the kernel wrote before older pages, are set aside first.
//
// The synced position of a group of calls is stated by the next one, so the last group of calls before a crash is the one whose
// damage can't be told from a torn tail. Close ends the file with a mark that speaks for it.
//
// # The wal library
//
// github.com/tidwall/wal keeps no checksums, doesn't open a file with a torn tail, renames without syncing folders, and its
// memory runs ahead of the file after a failed write. So it only opens, appends and closes here. It never syncs to any effect,
// starts a second file, truncates or reads back; after any error its handle is dropped, and a new generation is written.
//
// # Concurrency
//
// There is no goroutine. Whoever comes first takes the turn, settles all calls queued by then with one write and one sync, and
// wakes their goroutines. Events become visible when their call is settled, in the order of the file. [Journal.View] takes a
// lock that is never held while the disk works.
package journal
