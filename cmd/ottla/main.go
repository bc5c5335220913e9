// Command ottla looks into a data directory from a shell: what is in it, whether it is sound, what was appended last.
//
// All commands but produce and repair read only, and take no lock: they work beside a service that has the directory open,
// and show a consistent state of late then.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// Exit statuses.
const (
	statusOK     = 0
	statusDamage = 1 // the command did its work and met damage
	statusFailed = 2 // usage, or something could not be read or written
)

// errDamage ends a command that has reported damage.
var errDamage = errors.New("damage found")

// command is one of the tool's.
type command struct {
	name  string
	usage []string // a line for each form
	about string
	run   func(*call) error
}

func commands() []command {
	return []command{
		{"topics", []string{"[-json] DIR"}, "topics and partitions", topics},
		{"groups", []string{"[-json] DIR [GROUP]"}, "what consumer groups have committed, and their lag", groups},
		{"dump", []string{"[-json] [-records] [-from OFFSET] [-n N] DIR [TOPIC[/PARTITION]]",
			"[-json] [-records] [-from OFFSET] [-n N] FILE", "[-json] [-n N] journal DIR"},
			"segments and batches, one file (*.log, *.index, recovery-point, meta), or the catalogue's journal", dump},
		{"verify", []string{"[-json] DIR"}, "read every byte, print what is damaged; status 1 if anything is", verify},
		{"tail", []string{"[-json] [-n N] [-f] DIR TOPIC[/PARTITION]"},
			"the last N records of each partition; -f: and those that come", tail},
		{"produce", []string{"[-key-separator S] DIR TOPIC"}, "append each line of the standard input as a record", produce},
		{"repair", []string{"-drop-damaged [-yes] DIR"},
			"say which damaged ranges would be dropped; -yes: drop them, and keep copies of the files", repair},
	}
}

func main() {
	signal.Ignore(syscall.SIGPIPE) // a reader that has enough is an error of writing, and no failure
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// call is one run of a command.
type call struct {
	ctx    context.Context
	args   []string
	stdin  io.Reader
	out    *output
	stderr io.Writer
}

func (c *call) warn(format string, args ...any) {
	_, _ = fmt.Fprintf(c.stderr, "ottla: "+format+"\n", args...) // there is no one to tell that it can't be told
}

// run runs a command and returns the exit status. Tests cancel ctx to end what otherwise goes on.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 0 || isHelp(args[0]) {
		printUsage(stderr)
		return statusFailed
	}
	for _, cmd := range commands() {
		if cmd.name == args[0] {
			c := &call{ctx: ctx, args: args[1:], stdin: stdin, out: newOutput(stdout), stderr: stderr}
			err := cmd.run(c)
			return c.status(cmd, err, c.out.flush())
		}
	}
	_, _ = fmt.Fprintf(stderr, "ottla: unknown command %q\n\n", args[0])
	printUsage(stderr)
	return statusFailed
}

// status reports how a command ended, and how the last of its output.
func (c *call) status(cmd command, err, outErr error) int {
	var misuse usageError
	switch {
	case isClosedPipe(err) || isClosedPipe(outErr): // the reader has enough
		return statusOK
	case errors.As(err, &misuse):
		if misuse != "" {
			c.warn("%s: %s", cmd.name, misuse)
		}
		for _, form := range cmd.usage {
			_, _ = fmt.Fprintf(c.stderr, "usage: ottla %s %s\n", cmd.name, form)
		}
		return statusFailed
	case err != nil && !errors.Is(err, errDamage):
		c.warn("%s: %v", cmd.name, err)
		return statusFailed
	case outErr != nil:
		c.warn("%s: %v", cmd.name, outErr)
		return statusFailed
	case err != nil:
		return statusDamage
	}
	return statusOK
}

// usageError says that the arguments make no sense, and how; empty: help was asked for.
type usageError string

func (e usageError) Error() string { return string(e) }

func isHelp(arg string) bool {
	return arg == "help" || arg == "-h" || arg == "-help" || arg == "--help"
}

func printUsage(w io.Writer) {
	var b strings.Builder
	b.WriteString("ottla looks into a data directory of the library ottla.\n\n")
	for _, cmd := range commands() {
		for _, form := range cmd.usage {
			fmt.Fprintf(&b, "  ottla %s %s\n", cmd.name, form)
		}
		fmt.Fprintf(&b, "        %s\n", cmd.about)
	}
	b.WriteString("\nOnly produce and repair -yes change anything; all else works beside a service that has DIR open.\n" +
		"Status: 0 all well, 1 damage met, 2 usage or failure.\n")
	_, _ = io.WriteString(w, b.String())
}

// parse sets flags, which may stand between the other arguments, and returns those: least to most of them.
func (c *call) parse(flags *flag.FlagSet, least, most int) ([]string, error) {
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	var rest []string
	for args := c.args; ; {
		err := flags.Parse(args)
		if errors.Is(err, flag.ErrHelp) {
			return nil, usageError("")
		}
		if err != nil {
			return nil, usageError(err.Error())
		}
		left := flags.Args()
		if n := len(args) - len(left); len(left) == 0 || n > 0 && args[n-1] == "--" {
			rest = append(rest, left...)
			break
		}
		rest, args = append(rest, left[0]), left[1:]
	}
	if len(rest) < least {
		return nil, usageError("an argument is missing")
	}
	if len(rest) > most {
		return nil, usageError(fmt.Sprintf("unexpected argument %q", rest[most]))
	}
	return rest, nil
}

func newFlags() *flag.FlagSet { return flag.NewFlagSet("", flag.ContinueOnError) }
