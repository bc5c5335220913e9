package topic

import "fmt"

// Timestamps says whose time the records of a topic have: CreateTime (the zero value) or LogAppendTime.
type Timestamps uint8

const (
	// CreateTime keeps the time that a record's producer has given it, or that of the append where it has given none.
	CreateTime Timestamps = iota
	// LogAppendTime gives each record the time of its append by the broker's clock, whatever its producer has given it: the
	// records of a batch share one, and times follow the offsets for as long as the clock isn't set back.
	LogAppendTime
)

var timestamps = [...]string{CreateTime: "CreateTime", LogAppendTime: "LogAppendTime"}

func (ts Timestamps) valid() bool { return int(ts) < len(timestamps) }

// String returns the name, as in Kafka's settings.
func (ts Timestamps) String() string {
	if !ts.valid() {
		return fmt.Sprintf("timestamps %d", uint8(ts))
	}
	return timestamps[ts]
}

// MarshalText returns the name.
func (ts Timestamps) MarshalText() ([]byte, error) {
	if !ts.valid() {
		return nil, fmt.Errorf("unknown %v", ts)
	}
	return []byte(ts.String()), nil
}

// UnmarshalText takes a name.
func (ts *Timestamps) UnmarshalText(text []byte) error {
	for i, name := range timestamps {
		if name == string(text) {
			*ts = Timestamps(i)
			return nil
		}
	}
	return fmt.Errorf("unknown timestamps %q", text)
}
