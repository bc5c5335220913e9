package vfs

// dropper is what a file or mapping of Mem can do besides.
type dropper interface {
	dropUnsynced() error
}

// faultFile is a file opened through a Fault.
type faultFile struct {
	fault *Fault
	file  File
}

func (f *faultFile) Name() string { return f.file.Name() }

func (f *faultFile) do(op Op, body func() error) error {
	op.Name = f.file.Name()
	return f.fault.do(op, body)
}

// transfer is do for reading and writing, which can be done in part.
func (f *faultFile) transfer(op Op, p []byte, body func([]byte, int64) (int, error)) (n int, err error) {
	op.Name = f.file.Name()
	o := f.fault.outcome(op)
	switch {
	case o.Err == nil:
		return body(p, op.Off)
	case o.Effect == EffectAll:
		n, err = body(p, op.Off)
	case o.Effect == EffectPart:
		n, err = body(p[:min(o.Part, len(p))], op.Off)
	}
	if err != nil {
		return n, err
	}
	return n, failure(op, o.Err)
}

func (f *faultFile) ReadAt(p []byte, off int64) (int, error) {
	return f.transfer(Op{Kind: KindRead, Off: off, Len: int64(len(p))}, p, f.file.ReadAt)
}

func (f *faultFile) WriteAt(p []byte, off int64) (int, error) {
	return f.transfer(Op{Kind: KindWrite, Off: off, Len: int64(len(p))}, p, f.file.WriteAt)
}

func (f *faultFile) Close() error { return f.do(Op{Kind: KindClose}, f.file.Close) }

func (f *faultFile) Size() (size int64, err error) {
	err = f.do(Op{Kind: KindSize}, func() (err error) {
		size, err = f.file.Size()
		return err
	})
	return size, err
}

func (f *faultFile) Truncate(size int64) error {
	return f.do(Op{Kind: KindTruncate, Len: size}, func() error { return f.file.Truncate(size) })
}

func (f *faultFile) Allocate(off, n int64) error {
	return f.do(Op{Kind: KindAllocate, Off: off, Len: n}, func() error { return f.file.Allocate(off, n) })
}

func (f *faultFile) Sync() error {
	op := Op{Kind: KindSync, Name: f.file.Name()}
	return f.fault.sync(op, f.file, f.file.Sync)
}

// sync runs the sync of a file or mapping as decided.
func (f *Fault) sync(op Op, of any, body func() error) error {
	o := f.outcome(op)
	if o.Err == nil {
		return body()
	}
	var err error
	switch o.Effect {
	case EffectAll:
		err = body()
	case EffectDrop:
		err = drop(of)
	}
	if err != nil {
		return err
	}
	return failure(op, o.Err)
}

func (f *faultFile) Map(size int64, mode MapMode) (Mapping, error) {
	var mapping Mapping
	err := f.do(Op{Kind: KindMap, Len: size}, func() (err error) {
		mapping, err = f.file.Map(size, mode)
		return err
	})
	if err == nil {
		return &faultMapping{Mapping: mapping, fault: f.fault, name: f.Name()}, nil
	}
	if mapping != nil { // mapped, but reported failed
		mapping.Unmap()
	}
	return nil, err
}

// faultMapping is a mapping of a faultFile; Bytes and WillRead go straight to the one below.
type faultMapping struct {
	Mapping
	fault *Fault
	name  string
}

func (m *faultMapping) Populate(off, n int64) error {
	op := Op{Kind: KindPopulate, Name: m.name, Off: off, Len: n}
	return m.fault.do(op, func() error { return m.Mapping.Populate(off, n) })
}

func (m *faultMapping) Sync(off, n int64) error {
	op := Op{Kind: KindMsync, Name: m.name, Off: off, Len: n}
	return m.fault.sync(op, m.Mapping, func() error { return m.Mapping.Sync(off, n) })
}

func (m *faultMapping) Unmap() error {
	return m.fault.do(Op{Kind: KindUnmap, Name: m.name}, m.Mapping.Unmap)
}

// dropUnsynced lets one Fault wrap another.
func (f *faultFile) dropUnsynced() error    { return drop(f.file) }
func (m *faultMapping) dropUnsynced() error { return drop(m.Mapping) }

func drop(of any) error {
	if d, ok := of.(dropper); ok {
		return d.dropUnsynced()
	}
	return nil
}
