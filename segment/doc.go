// Package segment is one file of record batches: append, read, index, seal, and find out what is in it after a crash.
//
// The active segment is written through a shared mapping and read through a second, read-only one. These rules make
// that safe:
//
//   - The mapping has the segment's full capacity in address space for its whole life; the file grows beneath it in
//     steps. Blocks are reserved, and pages populated, before a batch is stored: a full disk is an error of Append, not a
//     fault.
//   - One goroutine appends. It stores the bytes of a batch and then publishes their end with one atomic store; readers
//     read the end first and never look behind it. So bytes that a reader sees never change.
//   - Every access runs under guard: a fault inside the mapping is a *FaultError naming file and byte.
//   - Views count their holders. The mappings go when the owner has let go (Seal, Abandon, Remove) and the last view is
//     released; nothing is unmapped by a finalizer.
//   - A sealed segment has exactly the length of its batches and is read through the file: see source.
package segment
