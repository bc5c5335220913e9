package group

import (
	"errors"
	"fmt"

	"github.com/ottlalog/ottla/log"
)

// Errors that a caller handles. After Close of the member or the broker everything returns log.ErrClosed.
var (
	// ErrFenced says that a member doesn't own, or no longer owns, what it wants to commit: it didn't poll for
	// MaxPollInterval, the partition moved on, its topic was deleted, or another member took over its InstanceID.
	ErrFenced = errors.New("fenced: the member doesn't own the partition")

	// ErrInCallback is returned by Poll and Close of a member while one of its callbacks runs. Close takes effect all the
	// same, when the callback has returned.
	ErrInCallback = errors.New("not allowed while a callback of the member runs")

	// ErrConcurrentPoll says that another goroutine is inside Poll of the same member.
	ErrConcurrentPoll = errors.New("another Poll of this member is under way")

	// ErrInvalidGroup says that a group's name isn't 1 to 249 bytes of printable UTF-8.
	ErrInvalidGroup = errors.New("invalid group")

	// ErrGroupNotEmpty says that something can't be done with a group while it has members, or one that reads the topic.
	ErrGroupNotEmpty = errors.New("group has members")

	// ErrUnknownGroup says that a group has no members and has committed nothing.
	ErrUnknownGroup = errors.New("unknown group")

	// ErrInvalidMember says what is wrong with a MemberConfig.
	ErrInvalidMember = errors.New("invalid member")
)

var errClosed = log.ErrClosed

// PanicError is a panic in a handler or callback, which made its member leave the group.
type PanicError struct {
	// Value is what was given to panic.
	Value any
	// Stack is the stack of the goroutine at the panic, as debug.Stack formats it.
	Stack []byte
}

// Error includes the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n\n%s", e.Value, e.Stack) }

// Unwrap returns the panic's value if that is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
