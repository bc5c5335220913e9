package vfs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// lockInChild is what this test binary does as a child: it takes the lock, says so and waits to be killed.
func lockInChild(name string) int {
	_, err := OS.Lock(name)
	if errors.Is(err, ErrLocked) {
		return 3
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 4
	}
	fmt.Println("locked")
	os.Stdin.Read(make([]byte, 1))
	return 0
}

func childThatLocks(name string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "VFS_TEST_LOCK="+name)
	return cmd
}

func TestLockExcludesOtherProcesses(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	l, err := OS.Lock(name)
	require.NoError(t, err)
	var exit *exec.ExitError
	require.ErrorAs(t, childThatLocks(name).Run(), &exit)
	require.Equal(t, 3, exit.ExitCode())
	require.NoError(t, l.Release())
}

func TestLockEndsWithItsProcess(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	child := childThatLocks(name)
	in, err := child.StdinPipe()
	require.NoError(t, err)
	defer in.Close()
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	_, err = out.Read(make([]byte, 16))
	require.NoError(t, err)

	_, err = OS.Lock(name)
	require.ErrorIs(t, err, ErrLocked)
	require.NoError(t, child.Process.Kill())
	child.Wait()
	l, err := OS.Lock(name)
	require.NoError(t, err)
	require.NoError(t, l.Release())
}
