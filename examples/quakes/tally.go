package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/ottlalog/ottla"
)

// classes of magnitude; the last is for events without one.
var classes = []string{"<1", "1–2", "2–3", "3–4", "4–5", "5+", "none"}

func class(mag *float64) int {
	if mag == nil {
		return len(classes) - 1
	}
	return min(max(int(*mag), 0), len(classes)-2)
}

// contribution is what one event adds.
type contribution struct {
	Key   string `json:"key"`
	Class int    `json:"class"`
}

// quake is a candidate for the strongest.
type quake struct {
	Mag   float64 `json:"mag"`
	Place string  `json:"place"`
}

func describe(e event) *quake {
	if e.mag == nil {
		return nil
	}
	return &quake{*e.mag, e.place}
}

// stronger orders by magnitude, then by place, so that the answer doesn't depend on who comes first.
func stronger(a, b *quake) bool {
	if a == nil || b == nil {
		return a != nil && b == nil
	}
	return a.Mag > b.Mag || a.Mag == b.Mag && a.Place < b.Place
}

func (q *quake) String() string {
	if q == nil {
		return "none"
	}
	return fmt.Sprintf("%.1f %s", q.Mag, q.Place)
}

// tally counts events by key and class of magnitude.
type tally struct {
	rows  map[string]*[7]int
	total int
	best  *quake
}

func newTally() *tally { return &tally{rows: map[string]*[7]int{}} }

func (t *tally) add(c contribution) {
	if t.rows[c.Key] == nil {
		t.rows[c.Key] = new([7]int)
	}
	t.rows[c.Key][c.Class]++
	t.total++
}

func (t *tally) strongest() string { return t.best.String() }

func (t *tally) equal(other *tally) bool {
	return maps.EqualFunc(t.rows, other.rows, func(a, b *[7]int) bool { return *a == *b })
}

// tee counts the lines that are read through it: the direct count.
func (t *tally) tee(in io.Reader, key string) io.Reader {
	r, w := io.Pipe()
	go func() {
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, 8<<20)
		for lines.Scan() {
			if e, err := parse(lines.Bytes(), key); err == nil {
				t.add(contribution{e.key, class(e.mag)})
				if q := describe(e); stronger(q, t.best) {
					t.best = q
				}
			}
			if _, err := w.Write(append(bytes.Clone(lines.Bytes()), '\n')); err != nil {
				return
			}
		}
		_ = w.CloseWithError(lines.Err())
	}()
	return r
}

// print shows the largest rows, and the sum of the others.
func (t *tally) print(out io.Writer, key string, direct *tally) {
	const most = 8
	keys := slices.SortedFunc(maps.Keys(t.rows), func(a, b string) int {
		if d := sum(t.rows[b]) - sum(t.rows[a]); d != 0 {
			return d
		}
		return bytes.Compare([]byte(a), []byte(b))
	})
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\n%s\t", key)
	for _, c := range classes {
		fmt.Fprintf(w, "%s\t", c)
	}
	fmt.Fprint(w, "counted\tdirect\t\n")
	var rest, restDirect [7]int
	for i, k := range keys {
		if i >= most {
			plus(&rest, t.rows[k])
			plus(&restDirect, direct.rows[k])
			continue
		}
		row(w, k, t.rows[k], direct.rows[k])
	}
	if len(keys) > most {
		row(w, fmt.Sprintf("%d others", len(keys)-most), &rest, &restDirect)
	}
	_ = w.Flush()
}

func row(w io.Writer, name string, counts, direct *[7]int) {
	fmt.Fprintf(w, "%s\t", name)
	for _, n := range counts {
		fmt.Fprintf(w, "%d\t", n)
	}
	fmt.Fprintf(w, "%d\t%d\t\n", sum(counts), sum(direct))
}

func sum(counts *[7]int) (n int) {
	if counts == nil {
		return 0
	}
	for _, c := range counts {
		n += c
	}
	return n
}

func plus(to, from *[7]int) {
	if from == nil {
		return
	}
	for i, n := range from {
		to[i] += n
	}
}

// readAll calls do for each record that a topic of one partition holds.
func readAll(b *ottla.Broker, topic string, do func(ottla.Record) error) error {
	t, err := b.Topic(topic)
	if err != nil {
		return err
	}
	r, err := t.Partition(0).NewReader(ottla.Earliest)
	if err != nil {
		return err
	}
	defer r.Close()
	for {
		recs, err := r.Read(nil, 1000)
		if err != nil || len(recs) == 0 {
			return err
		}
		for _, rec := range recs {
			if err := do(rec); err != nil {
				return err
			}
		}
	}
}

// readCounted adds up the topic counted, each event once, and tells how many were there more than once.
func readCounted(b *ottla.Broker) (t *tally, again int, err error) {
	t = newTally()
	seen := map[string]bool{}
	err = readAll(b, counted, func(rec ottla.Record) error {
		if seen[string(rec.Key)] {
			again++
			return nil
		}
		seen[string(rec.Key)] = true
		var c contribution
		if err := json.Unmarshal(rec.Value, &c); err != nil {
			return err
		}
		t.add(c)
		return nil
	})
	return t, again, err
}

func readStrongest(b *ottla.Broker) (best *quake, err error) {
	err = readAll(b, strongest, func(rec ottla.Record) error {
		best = new(quake)
		return json.Unmarshal(rec.Value, best)
	})
	return best, err
}

// lastStrongest opens the directory once more, to read what the group strongest has found.
func lastStrongest(dir string) (string, error) {
	b, err := open(dir)
	if err != nil {
		return "", err
	}
	defer b.Close()
	best, err := readStrongest(b)
	return best.String(), err
}
