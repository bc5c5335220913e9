// Package topic has the topics of one directory tree and the producers that write to them.
//
// A [Set] is the catalogue: it creates, opens, lists, grows and deletes topics. What it says is in the journal before it
// takes effect, and folders follow the journal: a topic exists as a whole or not at all after a crash, and one that is
// deleted stays so. A folder that the journal doesn't know is never read, reused with content, or removed.
//
// A [Producer] chooses a partition for each record by its [Partitioner] and appends. Records that one goroutine sends
// through it keep their order in each partition.
package topic
