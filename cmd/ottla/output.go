package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/ottlalog/ottla/record"
)

// output is the buffered standard output. After a failed write every further one returns the same error.
type output struct {
	w    *bufio.Writer
	json *json.Encoder
}

func newOutput(w io.Writer) *output {
	b := bufio.NewWriterSize(w, 64<<10)
	o := &output{w: b, json: json.NewEncoder(b)}
	o.json.SetEscapeHTML(false)
	return o
}

func (o *output) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(o.w, format, args...)
	return err
}

// object writes one line of JSON.
func (o *output) object(v any) error { return o.json.Encode(v) }

func (o *output) flush() error { return o.w.Flush() }

// table returns a writer that aligns the cells of lines, ended by tabs, at its Flush.
func (o *output) table() *tabwriter.Writer { return tabwriter.NewWriter(o.w, 0, 0, 2, ' ', 0) }

// isClosedPipe says whether an error means that nobody reads the output any more.
func isClosedPipe(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe)
}

// isTerminal says whether w is a device that shows characters.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// bytesText is a size for people.
func bytesText(n int64) string {
	if n < 10_000 {
		return strconv.FormatInt(n, 10) + " B"
	}
	v, unit := float64(n), 0
	for v >= 1024 && unit < 4 {
		v /= 1024
		unit++
	}
	digits := 1
	if v == float64(int64(v)) {
		digits = 0
	}
	return strconv.FormatFloat(v, 'f', digits, 64) + " " + [...]string{"B", "KiB", "MiB", "GiB", "TiB"}[unit]
}

// timeText is a timestamp in ms as RFC 3339 in UTC, or as a number if no calendar has it.
func timeText(ms int64) string {
	t := time.UnixMilli(ms).UTC()
	if y := t.Year(); y < 0 || y > 9999 {
		return strconv.FormatInt(ms, 10) + " ms"
	}
	return t.Format("2006-01-02T15:04:05.000Z")
}

// durationText says whole days as days.
func durationText(d time.Duration) string {
	const day = 24 * time.Hour
	if d > 0 && d%day == 0 {
		return strconv.Itoa(int(d/day)) + "d"
	}
	return d.String()
}

// span says the offsets from first up to but not including next.
func span(first, next int64) string {
	switch {
	case next <= first:
		return "none"
	case next == first+1:
		return strconv.FormatInt(first, 10)
	}
	return strconv.FormatInt(first, 10) + "-" + strconv.FormatInt(next-1, 10)
}

// clipBytes is how much of a key or a value a table shows.
const clipBytes = 160

// bytesCell shows a key or a value: null, text in quotes (in backquotes where that spares escapes), or 0x and hexadecimal
// digits.
func bytesCell(b []byte) string {
	if b == nil {
		return "null"
	}
	rest := ""
	if len(b) > clipBytes {
		rest = fmt.Sprintf("… (%d bytes)", len(b))
		cut := clipBytes
		for cut > clipBytes-utf8.UTFMax && !utf8.RuneStart(b[cut]) {
			cut--
		}
		b = b[:cut]
	}
	if s := string(b); utf8.ValidString(s) {
		if strings.ContainsAny(s, "\"\\") && strconv.CanBackquote(s) {
			return "`" + s + "`" + rest
		}
		return strconv.Quote(s) + rest
	}
	return "0x" + hex.EncodeToString(b) + rest
}

// recordCells shows key, value and headers of a record.
func recordCells(r *record.Record) string {
	s := bytesCell(r.Key) + "  " + bytesCell(r.Value)
	for i, h := range r.Headers {
		sep := "  "
		if i > 0 {
			sep = " "
		}
		s += sep + strconv.Quote(h.Key) + "=" + bytesCell(h.Value)
	}
	return s
}

// jsonBytes is a key or a value in JSON: null, a string, or {"hex": "…"} for what is no UTF-8.
type jsonBytes []byte

func (b jsonBytes) MarshalJSON() ([]byte, error) {
	switch {
	case b == nil:
		return []byte("null"), nil
	case utf8.Valid(b):
		return json.Marshal(string(b))
	}
	return json.Marshal(struct {
		Hex string `json:"hex"`
	}{hex.EncodeToString(b)})
}

// recordJSON is a record as a line of JSON.
type recordJSON struct {
	Type      string       `json:"type"`
	Topic     string       `json:"topic,omitempty"`
	Partition *int         `json:"partition,omitempty"`
	Offset    int64        `json:"offset"`
	Time      string       `json:"time"`
	Key       jsonBytes    `json:"key"`
	Value     jsonBytes    `json:"value"`
	Headers   []headerJSON `json:"headers,omitempty"`
}

type headerJSON struct {
	Key   string    `json:"key"`
	Value jsonBytes `json:"value"`
}

// jsonOf returns the record in the form of JSON. at is the partition, nil when it isn't known.
func jsonOf(r *record.Record, at *partitionRef) recordJSON {
	j := recordJSON{Type: "record", Offset: r.Offset, Time: timeText(r.Time.UnixMilli()), Key: r.Key, Value: r.Value}
	if at != nil {
		j.Topic, j.Partition = at.Topic, &at.Partition
	}
	for _, h := range r.Headers {
		j.Headers = append(j.Headers, headerJSON{h.Key, h.Value})
	}
	return j
}
