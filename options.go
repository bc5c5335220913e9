package ottla

import (
	"log/slog"

	"github.com/ottlalog/ottla/internal/vfs"
)

// Options are the settings of a broker. The zero value is usable. They are copied.
type Options struct {
	// Sync says when records are forced to the disk, and so what an acknowledgement survives: SyncAlways (the zero
	// value), SyncInterval or SyncNever. Commits of groups follow it.
	Sync SyncPolicy
	// MinFreeBytes is how much of the disk records leave free, so that commits and retention still work when it is full;
	// 0: 64 MiB, negative: nothing is kept free.
	MinFreeBytes int64
	// Logger gets what an operator should know: cut tails, damage, failures, positions that had to be reset. Nil: silent.
	Logger *slog.Logger

	fs vfs.FS // nil: the real one; tests set another
}

const defaultMinFreeBytes = 64 << 20

func (o Options) withDefaults() Options {
	switch {
	case o.MinFreeBytes == 0:
		o.MinFreeBytes = defaultMinFreeBytes
	case o.MinFreeBytes < 0:
		o.MinFreeBytes = 0
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.fs == nil {
		o.fs = vfs.OS
	}
	return o
}
