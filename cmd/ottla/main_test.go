package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMisuse(t *testing.T) {
	dir := build(t)
	for _, c := range []struct{ args, says string }{
		{"", "ottla verify [-json] DIR"},
		{"help", "ottla verify [-json] DIR"},
		{"-h", "ottla verify [-json] DIR"},
		{"frob", `unknown command "frob"`},
		{"topics", "an argument is missing"},
		{"topics -h", "usage: ottla topics [-json] DIR"},
		{"topics a b", `unexpected argument "b"`},
		{"groups DIR none", `no group "none" has committed anything`},
		{"dump -frob DIR", "-frob"},
		{"dump -n 0 DIR", "-n must be at least 1"},
		{"dump DIR nope", `no topic "nope"`},
		{"dump DIR orders/7", "has 1 partitions, no number 7"},
		{"dump DIR orders/x", `"x" is no partition number`},
		{"dump DIR/ottla.lock", "no file of ottla has such a name"},
		{"dump DIR/meta orders", "no topic can follow"},
		{"verify DIR/orders-0", "neither meta nor journal"},
		{"verify DIR/none", "none"},
		{"topics DIR/meta", "is a file"},
		{"topics DIR/orders-0", "no data directory of ottla"},
		{"tail DIR", "an argument is missing"},
		{"tail -n -1 DIR orders", "-n is negative"},
		{"produce DIR/none orders", "none"},
		{"produce DIR nope", "unknown topic"},
		{"repair DIR", "-drop-damaged"},
	} {
		args := strings.Fields(strings.ReplaceAll(c.args, "DIR", dir))
		r := ottlaRun(args...)
		require.Equal(t, statusFailed, r.status, c.args)
		require.Contains(t, r.stderr, c.says)
		require.Empty(t, r.out, c.args)
	}
	require.NoDirExists(t, filepath.Join(dir, "none"))
}

func TestTopics(t *testing.T) {
	dir := build(t)
	out := must(t, statusOK, "topics", dir)
	require.Regexp(t, `orders +1 +1 +4096 B or 7d +all +8 MiB`, out)
	size := 0
	for _, path := range segments(t, dir) {
		size += sizeOf(t, path)
	}
	require.Regexp(t, `orders/0 +0 +210 +210 +`+bytesText(int64(size))+` +3\n`, out)
	require.Regexp(t, `idle/1 +0 +0 +0 +0 B +0\n`, out)
	require.NotContains(t, out, "billing")

	list := objects(t, must(t, statusOK, "topics", dir, "-json"))
	require.Len(t, list, 2)
	require.Equal(t, "idle", list[0]["topic"])
	require.EqualValues(t, 4096, list[1]["settings"].(map[string]any)["segmentBytes"])
	orders := list[1]["partitions"].([]any)[0].(map[string]any)
	require.EqualValues(t, 210, orders["end"])
	require.EqualValues(t, size, orders["bytes"])
}

func TestGroups(t *testing.T) {
	dir := build(t)
	out := must(t, statusOK, "groups", dir)
	require.Regexp(t, `billing +orders/0 +30 +0 +210 +180 `, out)
	require.Equal(t, out, must(t, statusOK, "groups", dir, "billing"))

	list := objects(t, must(t, statusOK, "groups", "-json", dir))
	require.Len(t, list, 1)
	require.Equal(t, "group", list[0]["type"])
	require.EqualValues(t, 180, list[0]["offsets"].([]any)[0].(map[string]any)["lag"])

	require.NoError(t, os.RemoveAll(filepath.Join(dir, "orders-0")))
	out = must(t, statusDamage, "groups", dir)
	require.Regexp(t, `billing +orders/0 +30 +.*orders-0`, out)

	empty := t.TempDir()
	require.NoError(t, openBroker(t, empty).Close())
	require.Equal(t, "no groups\n", must(t, statusOK, "groups", empty))
}

// brokenPipe is an output that nobody reads to its end.
type brokenPipe struct{ left int }

func (p *brokenPipe) Write(b []byte) (int, error) {
	if p.left -= len(b); p.left < 0 {
		return 0, syscall.EPIPE
	}
	return len(b), nil
}

func TestClosedPipeEndsQuietly(t *testing.T) {
	dir := build(t)
	for _, args := range [][]string{
		{"dump", "-records", dir}, {"topics", dir}, {"tail", "-n", "1000", dir, "orders"}, {"tail", "-f", dir, "orders"}, {"verify", dir},
		{"dump", "journal", dir},
	} {
		var stderr bytes.Buffer
		require.Equal(t, statusOK, run(ctx, args, nil, &brokenPipe{10}, &stderr), args)
		require.Empty(t, stderr.String())
	}
	var stderr bytes.Buffer
	full := writerFunc(func([]byte) (int, error) { return 0, syscall.ENOSPC })
	require.Equal(t, statusFailed, run(ctx, []string{"topics", dir}, nil, full, &stderr))
	require.Contains(t, stderr.String(), "no space")
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestCellsShowBytes(t *testing.T) {
	for want, b := range map[string][]byte{
		"null":      nil,
		`""`:        {},
		`"tee 茶"`:   []byte("tee 茶"),
		"`{\"a\"}`": []byte(`{"a"}`),
		`"a\n\""`:   []byte("a\n\""),
		"0xff00":    {0xff, 0},
		`"` + strings.Repeat("x", clipBytes) + `"… (5000 bytes)`: bytes.Repeat([]byte("x"), 5000),
	} {
		require.Equal(t, want, bytesCell(b))
	}
	require.Equal(t, []string{"9999 B", "9.8 KiB", "128 MiB", "1.5 GiB"},
		[]string{bytesText(9999), bytesText(10000), bytesText(128 << 20), bytesText(3 << 29)})
	require.Equal(t, "9223372036854775807 ms", timeText(1<<63-1))
}

func TestReadOnly(t *testing.T) {
	dir := build(t)
	change(t, segments(t, dir)[1], flip(700, 1)) // nothing is repaired on the way
	before := files(t, dir)
	for _, args := range [][]string{
		{"topics", dir}, {"groups", dir}, {"dump", "-records", dir}, {"dump", "journal", dir}, {"dump", segments(t, dir)[0]}, {"verify", dir},
		{"verify", "-json", dir}, {"tail", "-n", "1000", dir, "orders"}, {"repair", "-drop-damaged", dir},
	} {
		require.NotEqual(t, statusFailed, ottlaRun(args...).status, args)
	}
	require.Equal(t, before, files(t, dir))
}
