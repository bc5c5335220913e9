package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTail(t *testing.T) {
	dir := build(t)
	out := must(t, statusOK, "tail", dir, "orders")
	require.Equal(t, 10, strings.Count(out, "\n"))
	require.Contains(t, out, `orders/0  209  2026-05-04T12:03:29.000Z  "key 209"  "value 209"`)
	for _, n := range []int{0, 1, 9, 100, 1000} { // through several segments, within batches
		list := objects(t, must(t, statusOK, "tail", "-json", "-n", fmt.Sprint(n), dir, "orders/0"))
		require.Len(t, list, min(n, 210))
		for i, r := range list {
			require.EqualValues(t, 210-min(n, 210)+i, r["offset"])
		}
	}
	require.Empty(t, must(t, statusOK, "tail", dir, "idle"))

	change(t, segments(t, dir)[2], flip(100, 1))
	r := ottlaRun("tail", "-n", "1000", dir, "orders")
	require.Equal(t, statusDamage, r.status)
	require.Regexp(t, `orders/0: offsets \d+-\d+ can't be read: .*checksum`, r.stderr)
	require.Equal(t, 207, strings.Count(r.out, "\n"))
}

func TestTailFollows(t *testing.T) {
	dir := build(t)
	b := openBroker(t, dir)
	in, out := io.Pipe()
	ctx, stop := context.WithCancel(ctx)
	status := make(chan int)
	var stderr bytes.Buffer
	go func() {
		s := run(ctx, []string{"tail", "-f", "-json", "-n", "5", dir, "orders"}, nil, out, &stderr)
		_ = out.Close()
		status <- s
	}()
	deadline := time.AfterFunc(30*time.Second, func() { _ = in.CloseWithError(context.DeadlineExceeded) })
	defer deadline.Stop()
	buf := make([]byte, 1<<20)
	var got string
	for round := range 61 { // over several segments
		for strings.Count(got, "\n") < 5+3*round {
			n, err := in.Read(buf)
			require.NoError(t, err)
			got += string(buf[:n])
		}
		if round%10 == 0 && round < 60 {
			batchesOf(t, b, "orders", 10)
		}
	}
	for i, r := range objects(t, got) {
		require.EqualValues(t, 205+i, r["offset"])
	}
	stop()
	require.Equal(t, statusOK, <-status)
	require.Empty(t, stderr.String())
	require.NoError(t, b.Close())
}
