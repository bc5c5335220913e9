package ottla

import "github.com/ottlalog/ottla/internal/vfs"

// On returns the options with another file system than the real one.
func (o Options) On(fs vfs.FS) Options {
	o.fs = fs
	return o
}
