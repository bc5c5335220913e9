package vfs

import (
	"bytes"
	"slices"
)

// maxLengths bounds how many lengths since the last sync are told apart.
const maxLengths = 32

// diskState is what the disk knows of a file.
type diskState struct {
	pages   []byte           // synced content, in whole pages; zero beyond lengths[0]
	lengths []int64          // the synced length, then those that the file has had since
	lost    map[int64][]byte // by position: cached pages that no sync will write, since the system took them for written
}

// lengthChanged notes a new length. Of a long run of growth the last step is kept.
func (d *diskState) lengthChanged(n int64) {
	k := len(d.lengths)
	if k >= maxLengths && d.lengths[k-2] < d.lengths[k-1] && d.lengths[k-1] < n {
		d.lengths[k-1] = n
		return
	}
	d.lengths = append(d.lengths, n)
}

// shortest returns the smallest of the first k+1 lengths: what lay beyond it on disk is gone if the k-th one survives.
func (d *diskState) shortest(k int) int64 { return slices.Min(d.lengths[:k+1]) }

// sync makes the length durable and the content of the pages in [off, off+n).
func (ino *inode) sync(off, n int64) {
	ino.assertZeroBeyond(ino.length + watched)
	d := &ino.disk
	last := len(d.lengths) - 1
	d.pages = resize(d.pages, min(int64(len(d.pages)), roundUp(ino.length)))
	if s := d.shortest(last); s < int64(len(d.pages)) {
		clear(d.pages[s:])
	}
	d.pages = resize(d.pages, roundUp(ino.length))
	d.lengths = append(d.lengths[:0], ino.length)

	for at := off - off%PageSize; at < min(off+n, ino.length); at += PageSize {
		if lost, ok := d.lost[at]; ok {
			if bytes.Equal(lost, ino.cachedPage(at)) {
				continue
			}
			delete(d.lost, at)
		}
		end := min(at+PageSize, ino.length)
		ino.peek(d.pages[at:end], at)
		clear(d.pages[end:roundUp(end)])
	}
}

// drop makes the system take what is unsynced for written.
func (ino *inode) drop() {
	d := &ino.disk
	for at := int64(0); at < ino.length; at += PageSize {
		page := ino.cachedPage(at)
		if bytes.Equal(page, d.pageAt(at, ino.disk.shortest(len(d.lengths)-1))) {
			continue
		}
		if d.lost == nil {
			d.lost = map[int64][]byte{}
		}
		d.lost[at] = page
	}
}

// cachedPage returns a copy of the page at position at, which lies before the end of the file.
func (ino *inode) cachedPage(at int64) []byte {
	page := make([]byte, PageSize)
	ino.peek(page[:min(PageSize, ino.length-at)], at)
	return page
}

// pageAt returns a copy of the synced page at position at, of which only what lies before end is left.
func (d *diskState) pageAt(at, end int64) []byte {
	page := make([]byte, PageSize)
	if end = min(end, int64(len(d.pages)), at+PageSize); at < end {
		copy(page, d.pages[at:end])
	}
	return page
}

// survive returns the file as the next boot finds it.
func (ino *inode) survive(path string, keep func(Change) bool) *inode {
	d := &ino.disk
	k := len(d.lengths) - 1
	for k > 0 && !keep(Change{ChangeLength, path, d.lengths[k]}) {
		k--
	}
	length, end := d.lengths[k], d.shortest(k)
	content := make([]byte, roundUp(length))
	for at := int64(0); at < length; at += PageSize {
		page := d.pageAt(at, end)
		if at < ino.length {
			cached := ino.cachedPage(at)
			lost, isLost := d.lost[at]
			isLost = isLost && bytes.Equal(lost, cached)
			if !isLost && !bytes.Equal(page, cached) && keep(Change{ChangePage, path, at}) {
				page = cached
			}
		}
		copy(content[at:], page)
	}
	clear(content[length:])

	blocks := slices.Clone(ino.blocks)
	blocks.free(length)
	return &inode{
		mem:    content,
		length: length,
		blocks: blocks,
		mtime:  ino.mtime,
		disk:   diskState{pages: slices.Clone(content), lengths: []int64{length}},
	}
}
