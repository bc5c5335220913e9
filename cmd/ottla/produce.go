package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/ottlalog/ottla"
)

// produce appends each line of the standard input as a record.
func produce(c *call) (err error) {
	flags := newFlags()
	separator := flags.String("key-separator", "", "")
	args, err := c.parse(flags, 2, 2)
	if err != nil {
		return err
	}
	dir, topic := args[0], args[1]
	if _, err := openCatalogue(dir); err != nil { // ottla.Open would make a new directory
		return err
	}
	b, err := ottla.Open(dir, ottla.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	if _, err := b.Topic(topic); err != nil {
		return err
	}
	p, err := b.NewProducer(ottla.ProducerConfig{})
	if err != nil {
		return err
	}
	var sent tally
	err = eachLine(c.stdin, func(line []byte) error {
		if sent.failed() != nil {
			return errEnough
		}
		return p.SendAsync(c.ctx, topic, recordOf(line, *separator), sent.count)
	})
	err = errors.Join(err, p.Close())
	if failed := sent.failed(); failed != nil {
		err = failed
	}
	return errors.Join(err, c.out.printf("%d records appended to %s\n", sent.stored(), topic))
}

// recordOf splits a line into key and value; without a separator in it, the key is null.
func recordOf(line []byte, separator string) ottla.Record {
	if separator != "" {
		if key, value, ok := bytes.Cut(line, []byte(separator)); ok {
			return ottla.Record{Key: key, Value: value}
		}
	}
	return ottla.Record{Value: line}
}

// eachLine calls do for each line, without its end. The line is good until do returns.
func eachLine(r io.Reader, do func([]byte) error) error {
	in := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if line, _ = bytes.CutSuffix(line, []byte("\n")); err == nil || len(line) > 0 {
			if err := do(line); err != nil {
				return fmt.Errorf("line %d: %w", n, err)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("standard input: %w", err)
		}
	}
}

// tally counts what became of the records. Its methods are safe for concurrent use.
type tally struct {
	mu  sync.Mutex // guards the rest
	n   int
	err error // the first
}

func (t *tally) count(_ ottla.Result, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		t.n++
	} else if t.err == nil {
		t.err = err
	}
}

func (t *tally) failed() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

func (t *tally) stored() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n
}
