package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProduce(t *testing.T) {
	dir := build(t)
	produceLines := func(lines string, args ...string) result {
		var out, stderr bytes.Buffer
		status := run(ctx, append([]string{"produce"}, args...), strings.NewReader(lines), &out, &stderr)
		return result{status, out.String(), stderr.String()}
	}
	r := produceLines("a:1\nb:2:3\nnone\n\nlast", dir, "orders", "-key-separator", ":")
	require.Equal(t, result{statusOK, "5 records appended to orders\n", ""}, r)
	list := objects(t, must(t, statusOK, "tail", "-json", "-n", "5", dir, "orders"))
	for i, want := range [][2]any{{"a", "1"}, {"b", "2:3"}, {nil, "none"}, {nil, ""}, {nil, "last"}} {
		require.Equal(t, want, [2]any{list[i]["key"], list[i]["value"]})
	}
	require.Equal(t, result{statusOK, "0 records appended to orders\n", ""}, produceLines("", dir, "orders"))

	r = produceLines("fine\n"+strings.Repeat("x", 9<<20)+"\n", dir, "orders")
	require.Equal(t, statusFailed, r.status)
	require.Contains(t, r.stderr, "line 2: ")
	require.Equal(t, "1 records appended to orders\n", r.out)

	b := openBroker(t, dir)
	r = produceLines("x\n", dir, "orders")
	require.Equal(t, statusFailed, r.status)
	require.Contains(t, r.stderr, "in use by this process (pid ")
	require.NoError(t, b.Close())
}
