package log

import (
	"errors"
	"fmt"
	"time"

	"github.com/ottlalog/ottla/record"
)

// ErrTimestamp is matched by every *TimestampError.
var ErrTimestamp = errors.New("timestamp too far in the future")

// TimestampError says that a record's time is beyond Config.MaxTimestampAhead. Nothing of its batch was stored. It matches
// ErrTimestamp.
type TimestampError struct {
	Record int       // its place among the records given
	Time   time.Time // what it claims
	Latest time.Time // what would have been taken
}

func (e *TimestampError) Error() string {
	const form = "2006-01-02T15:04:05.000Z07:00"
	return fmt.Sprintf("%v: record %d has %s, the latest is %s", ErrTimestamp, e.Record, e.Time.UTC().Format(form),
		e.Latest.UTC().Format(form))
}

// Is makes errors.Is(err, ErrTimestamp) true.
func (e *TimestampError) Is(target error) bool { return target == ErrTimestamp }

// CheckTimes returns a *TimestampError for the first of the records whose time is too far ahead of now, in ms since 1970.
// A record without a time has now's.
func (c Config) CheckTimes(now int64, recs ...record.Record) error {
	if !c.limitsTime() {
		return nil
	}
	latest := now + c.MaxTimestampAhead.Milliseconds()
	for i := range recs {
		if ms := record.Millis(recs[i].Time, now); ms > latest {
			return &TimestampError{Record: i, Time: record.TimeOf(ms), Latest: record.TimeOf(latest)}
		}
	}
	return nil
}

// limitsTime: the log's own time needs no limit.
func (c Config) limitsTime() bool { return c.MaxTimestampAhead > 0 && !c.LogAppendTime }

// appendTime returns the time, in ms since 1970, for records that have none. It reads the clock only if that is needed.
func (l *Log) appendTime(recs []record.Record) int64 {
	if l.cfg.limitsTime() {
		return time.Now().UnixMilli()
	}
	for i := range recs {
		if recs[i].Time.IsZero() {
			return time.Now().UnixMilli()
		}
	}
	return 0
}
