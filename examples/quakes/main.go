// Quakes is ottla's main job on real input: a week of earthquakes goes into a topic of six partitions, keyed by the
// seismic network that reported them. Two groups read it at once: three members tally by network and magnitude, one member
// finds the strongest. One member of the first group leaves, another panics, and then the whole process is killed. A second
// process opens the directory, resumes from the committed offsets, and prints a table, next to a direct count of the input.
//
//	go run ./examples/quakes
//	go run ./examples/quakes -in flights.jsonl -key origin
//	cat events.jsonl | go run ./examples/quakes -in -
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/ottlalog/ottla"
)

//go:embed earthquakes.jsonl.gz
var week []byte

// roleVariable tells a process that it is the one to be killed.
const roleVariable = "QUAKES_FIRST_PROCESS"

func main() {
	in := flag.String("in", "", "file with one JSON object a line, - for standard input; default: the earthquakes that come with the example")
	key := flag.String("key", "net", "field to partition and tally by")
	dir := flag.String("dir", "", "directory for the data; default: a temporary one, removed at the end")
	flag.Parse()

	var err error
	if os.Getenv(roleVariable) != "" {
		err = firstProcess(*dir, *key)
	} else {
		err = bothProcesses(*in, *key, *dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "quakes:", err)
		os.Exit(1)
	}
}

// bothProcesses feeds the first process, waits for it to die, and goes on where it was.
func bothProcesses(in, key, dir string) error {
	input, err := openInput(in)
	if err != nil {
		return err
	}
	defer input.Close()
	if dir == "" {
		if dir, err = os.MkdirTemp("", "quakes-"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	start := time.Now()
	direct := newTally()
	if err := runFirst(dir, key, direct.tee(input, key)); err != nil {
		return err
	}
	counted, again, err := secondProcess(dir, direct.total)
	if err != nil {
		return err
	}
	strongest, err := lastStrongest(dir)
	if err != nil {
		return err
	}
	counted.print(os.Stdout, key, direct)
	fmt.Printf("\n%d events, %d counted, %d delivered twice and counted once, strongest %s; %.1fs\n",
		direct.total, counted.total, again, strongest, time.Since(start).Seconds())
	if !counted.equal(direct) {
		return errors.New("the table differs from a direct count of the input")
	}
	if strongest != direct.strongest() {
		return fmt.Errorf("a direct look finds another strongest: %s", direct.strongest())
	}
	fmt.Println("equal to a direct count of the input: none lost")
	return nil
}

func openInput(in string) (io.ReadCloser, error) {
	switch in {
	case "":
		return gzip.NewReader(bytes.NewReader(week))
	case "-":
		return os.Stdin, nil
	}
	return os.Open(in)
}

// runFirst starts this program again as the process that dies, and waits for that.
func runFirst(dir, key string, input io.Reader) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, "-dir", dir, "-key", key)
	cmd.Env = append(os.Environ(), roleVariable+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = input, os.Stdout, os.Stderr
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return errors.New("the first process ended by itself")
	case errors.As(err, &exit) && exit.ExitCode() != 1: // killed; 1 is an error that it has told
		fmt.Println("the first process was killed, its broker never closed")
		return nil
	}
	return fmt.Errorf("first process: %w", err)
}

// firstProcess loads the events, consumes about half of them, and kills itself.
func firstProcess(dir, key string) error {
	ctx := context.Background()
	b, err := open(dir)
	if err != nil {
		return err
	}
	total, err := load(ctx, b, os.Stdin, key)
	if err != nil {
		return err
	}
	if total == 0 {
		return errors.New("the input has no events")
	}
	c := newConsumers(b, total)
	c.start(ctx, "A", leaveAfter(total/10))
	c.start(ctx, "B", panicAt(total/15))
	c.start(ctx, "C", nil)
	c.startStrongest(ctx)
	for c.counted() < total/2 {
		time.Sleep(time.Millisecond)
	}
	c.bar.end()
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	if err := self.Kill(); err != nil {
		return err
	}
	select {}
}

// secondProcess finishes the work and reads the result.
func secondProcess(dir string, total int) (counted *tally, again int, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b, err := open(dir)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	c := newConsumers(b, total)
	fmt.Printf("opened again: group tally resumes at %d of %d, group strongest at %d\n", c.committed("tally"), total, c.committed("strongest"))
	for _, name := range []string{"D", "E", "F"} {
		c.start(ctx, name, nil)
	}
	c.startStrongest(ctx)
	for c.committed("tally") < total || c.committed("strongest") < total {
		if err := c.failed(); err != nil {
			return nil, 0, err
		}
		time.Sleep(5 * time.Millisecond)
	}
	c.bar.end()
	cancel()
	c.wait()
	return readCounted(b)
}

// open opens the directory. Every sync policy survives a killed process; this one spares the example a sync for each event.
func open(dir string) (*ottla.Broker, error) {
	return ottla.Open(dir, ottla.Options{Sync: ottla.SyncInterval(100 * time.Millisecond)})
}
