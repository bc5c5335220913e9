//go:build !unix

package ottla_test

import (
	"testing"
	"time"
)

// cpuTime isn't measured here.
func cpuTime(*testing.T) time.Duration { return 0 }
