package record

import (
	"math"
	"time"
)

// The whole seconds in which the smallest and the largest timestamp fall, and their milliseconds therein.
const (
	maxSecond, maxRest = math.MaxInt64 / 1000, math.MaxInt64 % 1000
	minSecond, minRest = math.MinInt64/1000 - 1, math.MinInt64%1000 + 1000
)

// Millis returns the timestamp that is stored for t: milliseconds since 1970, rounded down, or now if t is the zero
// time. A time outside the range, which Plan refuses, gives the nearest end of it.
//
// The instant of the zero time itself (the first of January of the year 1) is the one that Plan can't store.
func Millis(t time.Time, now int64) int64 {
	if t.IsZero() {
		return now
	}
	if !representable(t) {
		if t.Unix() < 0 {
			return math.MinInt64
		}
		return math.MaxInt64
	}
	return t.UnixMilli()
}

// TimeOf returns the time of a timestamp, in the local zone. TimeOf(ms).UnixMilli() == ms for every ms.
func TimeOf(ms int64) time.Time { return time.UnixMilli(ms) }

func representable(t time.Time) bool {
	s := t.Unix()
	if minSecond < s && s < maxSecond {
		return true
	}
	rest := t.Nanosecond() / 1e6
	return s == maxSecond && rest <= maxRest || s == minSecond && rest >= minRest
}
