package record_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/ottlalog/ottla/record"
)

// Write a batch and read it back.
func Example() {
	recs := []record.Record{
		{Key: []byte("k"), Value: []byte("first")},
		{Value: []byte("second"), Headers: []record.Header{{Key: "trace", Value: []byte("7f")}}},
	}
	layout, err := record.Plan(recs, time.Now().UnixMilli())
	if err != nil {
		fmt.Println(err)
		return
	}
	buf := make([]byte, layout.Size)
	layout.Put(buf, record.HeaderAt(100, 0), recs)

	batch, err := record.Parse(buf)
	if err != nil {
		fmt.Println(err)
		return
	}
	it := batch.Records()
	var r record.Record
	for it.Next(&r) {
		fmt.Printf("%d: %q=%q %d headers\n", r.Offset, r.Key, r.Value, len(r.Headers))
	}
	fmt.Println(it.Err(), batch.Header().NextOffset())
	// Output:
	// 100: "k"="first" 0 headers
	// 101: ""="second" 1 headers
	// <nil> 102
}

// Walk through the batches of a log up to a tail that isn't all there.
func ExampleParse() {
	var segment []byte
	for i := range 3 {
		recs := []record.Record{{Value: []byte("event")}}
		layout, _ := record.Plan(recs, 0)
		b := make([]byte, layout.Size)
		layout.Put(b, record.HeaderAt(int64(i), 0), recs)
		segment = append(segment, b...)
	}
	rest := segment[:len(segment)-5]
	for {
		batch, err := record.Parse(rest)
		if errors.Is(err, record.ErrIncomplete) {
			fmt.Println("incomplete:", len(rest), "bytes left")
			return
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("offset", batch.Header().BaseOffset)
		rest = rest[len(batch.Bytes()):]
	}
	// Output:
	// offset 0
	// offset 1
	// incomplete: 68 bytes left
}

// Compress a batch and read it again.
func ExampleLayout_Compress() {
	recs := make([]record.Record, 100)
	for i := range recs {
		recs[i].Value = []byte("the same again")
	}
	layout, err := record.Plan(recs, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	layout.Compress(nil, record.CodecZstd, recs)
	buf := make([]byte, layout.Size)
	layout.Put(buf, record.HeaderAt(0, 0), recs)

	batch, err := record.Parse(buf)
	if err != nil {
		fmt.Println(err)
		return
	}
	plain, err := batch.Decompress(nil, 1<<20)
	if err != nil {
		fmt.Println(err)
		return
	}
	n := 0
	it := plain.Records()
	for r := new(record.Record); it.Next(r); {
		n++
	}
	fmt.Println(batch.Header().Attributes.Codec(), n, it.Err(), len(buf) < len(plain.Bytes())/4)
	// Output: zstd 100 <nil> true
}
