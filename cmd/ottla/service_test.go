package main

import (
	"bytes"
	"cmp"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla"
)

// TestBesideAService runs everything while a broker appends, rolls, removes and commits.
func TestBesideAService(t *testing.T) {
	dir := build(t)
	b := openBroker(t, dir)
	_, err := b.CreateTopic(ctx, "short", ottla.TopicConfig{SegmentBytes: 4096})
	require.NoError(t, err)
	stop := make(chan struct{})
	done := make(chan error, 1)
	go func() { done <- stir(b, stop) }()
	end := sync.OnceFunc(func() {
		close(stop)
		require.NoError(t, <-done)
		require.NoError(t, b.Close())
	})
	defer end()

	for began := time.Now(); time.Since(began) < 2*time.Second; {
		must(t, statusOK, "topics", dir)
		must(t, statusOK, "groups", dir)
		must(t, statusOK, "verify", dir)
		r := ottlaRun("tail", "-json", "-n", "500", dir, "short")
		require.Equal(t, statusOK, r.status, r.stderr)
		requireDense(t, objects(t, r.out), removedIn(t, r.stderr))
		must(t, statusOK, "dump", "-json", dir)
		must(t, statusOK, "dump", "journal", dir)
	}
	end()
	must(t, statusOK, "verify", dir)
}

// requireDense requires that offsets are missing in a row only where they were removed: removed has the offset behind
// each such range by the first of it.
func requireDense(t *testing.T, records []map[string]any, removed map[int64]int64) {
	t.Helper()
	for i, r := range records {
		at := int64(r["offset"].(float64))
		if i > 0 {
			next := int64(records[i-1]["offset"].(float64)) + 1
			for removed[next] > next {
				next = removed[next]
			}
			require.Equal(t, next, at)
		}
	}
}

var removal = regexp.MustCompile(`^ottla: tail: short/0: offsets (\d+)(?:-(\d+))? were removed by retention$`)

// removedIn reads warnings of removed offsets, and requires that there are no others.
func removedIn(t *testing.T, stderr string) map[int64]int64 {
	t.Helper()
	removed := map[int64]int64{}
	for line := range strings.Lines(stderr) {
		m := removal.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		require.NotNil(t, m, line)
		first, err := strconv.ParseInt(m[1], 10, 64)
		require.NoError(t, err)
		last, err := strconv.ParseInt(cmp.Or(m[2], m[1]), 10, 64)
		require.NoError(t, err)
		removed[first] = last + 1
	}
	return removed
}

// stir keeps a broker busy: batches of many sizes, small segments, removal from the front.
func stir(b *ottla.Broker, stop <-chan struct{}) error {
	tp, err := b.Topic("short")
	if err != nil {
		return err
	}
	p := tp.Partition(0)
	for i := 0; ; i++ {
		select {
		case <-stop:
			return nil
		default:
		}
		recs := make([]ottla.Record, 1+i%7)
		for j := range recs {
			recs[j].Value = bytes.Repeat([]byte{byte(i)}, i*31%900)
		}
		if _, err := p.Append(ctx, recs); err != nil {
			return err
		}
		if i%50 == 49 {
			if err := p.DeleteBefore(ctx, p.EndOffset()-60); err != nil {
				return err
			}
		}
	}
}
