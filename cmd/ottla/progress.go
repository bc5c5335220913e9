package main

import (
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/ottlalog/ottla/topic"
)

// progress shows on a terminal how far a verification has come. Where standard error is no terminal, it shows nothing.
type progress struct {
	w     io.Writer // nil: no terminal
	total int64     // bytes of all segments
	done  int64
	next  time.Time // when the line is due
	shown bool
}

const progressInterval = 200 * time.Millisecond

func newProgress(w io.Writer, dir string, entries []fs.DirEntry) *progress {
	p := &progress{next: time.Now().Add(progressInterval)}
	if !isTerminal(w) {
		return p
	}
	p.w = w
	for _, e := range entries {
		if _, _, ok := topic.ParseFolder(e.Name()); ok {
			p.total += segmentBytes(filepath.Join(dir, e.Name()))
		}
	}
	return p
}

// segmentBytes adds up the segments in a folder. What can't be read is met again by who verifies it.
func segmentBytes(dir string) (n int64) {
	entries, _ := host.ReadDir(dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), logSuffix) {
			n += info.Size()
		}
	}
	return n
}

// add counts bytes that were verified.
func (p *progress) add(n int64) {
	p.done += n
	if p.w == nil || time.Now().Before(p.next) {
		return
	}
	p.next = time.Now().Add(progressInterval)
	p.shown = true
	percent := 100 * float64(p.done) / float64(max(p.total, p.done, 1))
	_, _ = fmt.Fprintf(p.w, "\r\x1b[Kverified %s of %s, %.0f %%", bytesText(p.done), bytesText(p.total), percent)
}

// clear takes the line away, before something else is written.
func (p *progress) clear() {
	if p.shown {
		_, _ = io.WriteString(p.w, "\r\x1b[K")
		p.shown = false
	}
}
