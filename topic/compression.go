package topic

import (
	"fmt"

	"github.com/ottlalog/ottla/record"
)

// Compression says how batches of records are stored: None, Gzip, Snappy, Lz4 or Zstd. The zero value leaves the choice to
// the next in line: a producer's to the topic, a topic's to the default, which is None.
//
// The records of one call, or those that go out together, are compressed as one: many small records gain, single ones hardly.
// A batch that doesn't become smaller is stored uncompressed.
type Compression uint8

// The compressions, in the order of what they cost: Lz4 and Snappy are fast, Zstd packs as tight as Gzip at less cost.
const (
	None Compression = iota + 1
	Lz4
	Snappy
	Zstd
	Gzip
)

var compressions = [...]struct {
	name  string
	codec record.Codec
}{
	0:      {"", record.CodecNone},
	None:   {"none", record.CodecNone},
	Lz4:    {"lz4", record.CodecLZ4},
	Snappy: {"snappy", record.CodecSnappy},
	Zstd:   {"zstd", record.CodecZstd},
	Gzip:   {"gzip", record.CodecGzip},
}

func (c Compression) valid() bool { return int(c) < len(compressions) }

// codec returns the first choice that was made.
func (c Compression) codec(next Compression) record.Codec {
	return compressions[orDefault(c, next)].codec
}

// String returns the name in lower case, as in Kafka's settings; of the zero value, "".
func (c Compression) String() string {
	if !c.valid() {
		return fmt.Sprintf("compression %d", uint8(c))
	}
	return compressions[c].name
}

// MarshalText returns the name.
func (c Compression) MarshalText() ([]byte, error) {
	if !c.valid() {
		return nil, fmt.Errorf("unknown %v", c)
	}
	return []byte(c.String()), nil
}

// UnmarshalText takes a name, and an empty one for the zero value.
func (c *Compression) UnmarshalText(text []byte) error {
	for i := range compressions {
		if compressions[i].name == string(text) {
			*c = Compression(i)
			return nil
		}
	}
	return fmt.Errorf("unknown compression %q", text)
}
