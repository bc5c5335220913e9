package segment

import "github.com/ottlalog/ottla/internal/vfs"

// aheadMin is the size from which on a segment's space is readied in the background: a small or idle one needs no
// goroutine.
const aheadMin = 1 << 20

// ahead is one step of growth that a goroutine readies while the appender fills the step before. The appender owns it: it
// starts one at a time, and whoever ends the writer waits for it.
type ahead struct {
	done chan struct{} // closed when the following are set
	to   int64
	err  error
}

// growAhead starts the next step when half of this one is used.
func (w *writer) growAhead(fs vfs.FS, path string, end int64) {
	step := min(w.reserved, growMax)
	if w.ahead != nil || w.reserved < aheadMin || w.reserved >= w.Capacity || w.reserved-end > step/2 {
		return
	}
	a := &ahead{done: make(chan struct{}), to: min(w.reserved+step, w.Capacity)}
	from := w.reserved
	w.ahead = a
	go func() {
		defer close(a.done)
		a.err = w.ready(fs, path, from, a.to)
	}()
}

// join waits for the step that is being readied, if there is one, and counts it in. A step that failed is tried again by who
// needs it, who then has its error.
func (w *writer) join() {
	if w.ahead == nil {
		return
	}
	<-w.ahead.done
	if w.ahead.err == nil {
		w.reserved = w.ahead.to
	}
	w.ahead = nil
}

// ready gets blocks and pages for [from, to).
//
// Where each append is synced, the pages must be cached one by one: a sync writes the whole of the folio that was touched.
// Otherwise the file is grown by writing zeros, which the kernel caches in large folios, at about a third of the cost.
func (w *writer) ready(fs vfs.FS, path string, from, to int64) error {
	if err := CheckFree(fs, path, to-from+w.MinFree); err != nil {
		return err
	}
	if w.SmallPages || from < aheadMin {
		if err := w.file.Allocate(from, to-from); err != nil {
			return err
		}
	} else if err := w.writeZeros(from, to); err != nil {
		return err
	}
	return w.mapping.Populate(from, to-from)
}

var zeros [256 << 10]byte

func (w *writer) writeZeros(from, to int64) error {
	for from < to {
		n, err := w.file.WriteAt(zeros[:min(int64(len(zeros)), to-from)], from)
		if err != nil {
			return err
		}
		from += int64(n)
	}
	return nil
}
