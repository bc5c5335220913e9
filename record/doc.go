// Package record holds the words that the rest of the library speaks in, Record and Header, and the form in which
// records are stored: the batch.
//
// # A batch
//
// A batch is one or more records that are written, checked, copied and lost as one. Its form is that of Kafka's
// RecordBatch version 2, to the byte, so that other people's tools can read what we store, and their decoders can judge
// ours. Everything here is frozen: no field may move, and no value may change its meaning.
//
//	byte  0       8      12      16 17    21     23        27        35        43       51 53       57      61
//	      ┌───────┬──────┬───────┬──┬─────┬──────┬─────────┬─────────┬─────────┬────────┬──┬────────┬───────┬─────────
//	      │ base  │length│leader │2 │CRC- │attri-│last     │base     │max      │producer│PE│base    │record │records…
//	      │ offset│      │epoch  │  │32C  │butes │offset Δ │timestamp│timestamp│id      │  │sequence│count  │
//	      └───────┴──────┴───────┴──┴─────┴──────┴─────────┴─────────┴─────────┴────────┴──┴────────┴───────┴─────────
//	              length counts from 12 ▸         the checksum covers 21 to the end ▸
//
// All numbers of the header are big-endian and signed, but for the checksum.
//
//	base offset        offset of the first record. With the leader epoch it stands outside the checksum, so that
//	                   whoever appends the batch can set both without reading it through (SetBase)
//	length             bytes after this field: at least the 49 of the header's rest. It and the magic say where the
//	                   next batch begins, and so can be trusted only once the checksum has been found right
//	leader epoch       reign of the leader that appended the batch, -1 for none
//	magic              2. It stands where it stood in the older formats, which are not read here
//	CRC-32C            Castagnoli's polynomial
//	attributes         bits 0-2 codec, 3 log append time, 4 transactional, 5 control, 6 delete horizon; others are kept
//	last offset delta  the batch takes the offsets from base to base + delta, even if compaction removed some records
//	base timestamp     ms since 1970, of the first record as written; with the delete horizon bit, that horizon
//	max timestamp      ms, the latest of the records; with the log append time bit, the time of each of them
//	producer id, epoch and base sequence (PE is the epoch)
//	                   -1 for none. The n-th offset of the batch has the sequence number base + n, and 0 follows 2³¹-1
//	record count       records that are held: fewer than the offsets taken, after compaction
//
// # A record
//
//	varint   length of what follows
//	byte     attributes: 0, ignored by readers
//	varlong  timestamp, counted from the base timestamp. The difference wraps around at 64 bits, as does the sum
//	varint   offset, counted from the base offset. It rises from record to record, up to the last offset delta
//	varint   length of the key, -1 for null; its bytes
//	varint   length of the value, -1 for null; its bytes
//	varint   number of headers; each a varint length of the key, which can't be null, its bytes, and a value as above
//
// A varint has 32 bits and at most five bytes, a varlong 64 and ten: seven bits a byte, the low ones first, zigzag-coded so
// that -1 takes one byte. The fields fill the record, and the records fill the batch, exactly.
//
// # A compressed batch
//
// The records of a compressed batch (codec other than 0) are one compressed stream, from byte 61 to the end, over which
// the checksum goes as it stands. So such a batch can be parsed, checked and copied as it is.
//
//	1 gzip     a gzip stream
//	2 snappy   blocks of 32 KiB in the framing of Xerial's Java library: 82 'SNAPPY' 00, twice an int32 1, then each block
//	           as an int32 length and so many bytes. One bare block is read too
//	3 lz4      an LZ4 frame; written with independent blocks of 64 KiB and no checksums
//	4 zstd     Zstandard frames; written as one, which tells its size
//
// # Writing and reading
//
// Writing takes two steps, so that room and limits can be checked before a byte is stored: Plan measures, Layout.Put
// writes. Reading takes two as well: Parse vouches for a batch as a whole, Batch.Records or Batch.Validate for what is in
// it. Neither allocates, and nothing that untrusted bytes claim decides how much memory is taken.
//
// Compression is a step between the two: Layout.Compress packs what was planned, and Batch.Decompress makes a plain batch
// of a compressed one, within a limit.
//
// All functions are safe for concurrent use, on bytes that nobody writes to meanwhile. Values that hold a position
// (Iterator) belong to one goroutine.
package record
