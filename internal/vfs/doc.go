// Package vfs is the one door to the file system. Everything above it is written against [FS], which has three
// implementations that pass the same tests:
//
//   - [OS]: the real one: mmap, fallocate, fdatasync, flock, sync of folders.
//   - [Mem]: in memory, with power cuts: [Mem.PowerCut] keeps any subset of the unsynced 4 KiB pages and of the unsynced
//     folder entries, and returns the file system that a machine would find after the next boot.
//   - [Fault]: wraps another one and fails, shortens or delays chosen operations.
//
// The contract of durability is stated at [FS]; each implementation keeps exactly that, so that code which is right
// over Mem is right over a disk that keeps its word.
package vfs
