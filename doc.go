// Package ottla is Kafka's log inside one Go process: durable topics, partitions, producers and consumer groups in a
// directory, without a server.
//
//	b, err := ottla.Open("data", ottla.Options{})
//	defer b.Close()
//	t, err := b.CreateTopic(ctx, "orders", ottla.TopicConfig{Partitions: 6})
//	p, err := b.NewProducer(ottla.ProducerConfig{})
//	res, err := p.Send(ctx, "orders", ottla.Record{Key: key, Value: value})
//	m, err := b.Group("billing").Join(ctx, ottla.MemberConfig{Topics: []string{"orders"}})
//	recs, err := m.Poll(ctx)
//
// A partition is an ordered, immutable, growing sequence of records, each at an offset of its own. A [Producer] chooses a
// partition for each record; records that one goroutine sends keep their order there. The members of a [ConsumerGroup]
// share the partitions of its topics, each of which has one owner at any instant; different groups each read everything.
// A [Reader] reads a partition without a group.
//
// # What an acknowledgement means
//
// Send returns once a record is as safe as [Options].Sync says, and no reader sees it earlier. Under [SyncAlways], the
// default, it is on the disk. Every policy survives a killed process. The words of a failed send are exact: see
// [SendError].
//
// # Memory
//
// Nothing that is given to ottla is kept or changed after a call returns; SendAsync copies. Records that Poll, Next, Read
// and Records return are the caller's own, and a kept one keeps the bytes of its batch alive. The exception says so in its
// name: a record of Reader.Views is the reader's, until the next step.
//
// # Files
//
// One process at a time has a directory open, by a lock that ends with the process. The files are Kafka's record batches
// in segments, and described in docs/formats.md. What is on disk is mapped or read in such a way that a disk which fails
// or a file that someone cuts short is an error of the partition concerned, and never the end of the process.
//
// This package holds no logic: it wires the packages below it, which can each be used on their own, and names what users
// need from them.
package ottla
