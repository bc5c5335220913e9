package ottla_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla"
	"github.com/ottlalog/ottla/internal/vfs"
	"github.com/ottlalog/ottla/internal/vfs/vfstest"
)

// TestHistories uses a broker at random, one step after the other, over many lives: some end in peace, in others the power is cut
// (under SyncAlways), the process killed, or an operation of the file system fails. -crash.seed and -crash.histories search
// elsewhere and longer.
func TestHistories(t *testing.T) {
	for n := range *crashHistories {
		seed := *crashSeed + uint64(n)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newSearch(t, seed).run() })
		})
	}
}

// search is one history.
type search struct {
	t   *testing.T
	rng *rand.Rand
	mem *vfs.Mem

	mu    sync.Mutex // guards judge
	judge *judge
	dead  atomic.Bool // the process was killed: what it goes on to say here, nobody hears

	serials map[string]int  // of senders
	names   int             // of members
	deleted map[string]bool // topics' ids: deletion was begun

	broker    *ottla.Broker
	producers map[string]*ottla.Producer
	members   []*searchMember
}

type searchMember struct {
	*ottla.Member
	name, group string
	owned       map[ottla.TopicPartition]spot
}

func newSearch(t *testing.T, seed uint64) *search {
	return &search{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), mem: vfs.NewMem(vfstest.HostDir(t)),
		judge: newJudge(), serials: map[string]int{}, deleted: map[string]bool{},
	}
}

// note tells the judge.
func (s *search) note(tell func(j *judge)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.dead.Load() {
		tell(s.judge)
	}
}

func (s *search) requireNothingWrong() {
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Empty(s.t, s.judge.wrong)
}

func (s *search) run() {
	defer func() { _ = s.broker.Close() }() // a failed check leaves it open
	for range 6 {
		s.life()
	}
	s.mem = s.mem.Kill()
	s.open(s.mem, ottla.SyncAlways)
	require.NoError(s.t, s.broker.Close())
	s.note(func(j *judge) {
		s.t.Logf("%d records tried, %d refused, %d found; %d partitions in groups, %d with commits, %d holes",
			len(j.tried), len(j.refused), len(j.stands), len(j.reach), len(j.committed), len(j.holes))
	})
}

// life opens a broker, uses it for some steps, and ends in one of several ways.
func (s *search) life() {
	sync := []ottla.SyncPolicy{ottla.SyncAlways, ottla.SyncInterval(time.Second), ottla.SyncNever}[s.rng.IntN(3)]
	decide, boot := s.fate(sync)
	fault := vfs.NewFault(s.mem, nil)
	s.open(fault, sync)
	fault.Decide(decide)
	for range 20 + s.rng.IntN(150) {
		s.step()
		if s.dead.Load() || s.broken() {
			break
		}
	}
	if err := s.broker.Close(); decide == nil {
		require.NoError(s.t, err)
	}
	synctest.Wait()
	s.mem = boot()
	s.dead.Store(false)
	s.note((*judge).crash)
	s.requireNothingWrong()
}

// fate decides how a life ends: what happens to operations from now on, and what the next life finds. A nil decide is peace.
func (s *search) fate(policy ottla.SyncPolicy) (decide func(vfs.Op) vfs.Outcome, boot func() *vfs.Mem) {
	n := s.rng.IntN(400)
	same := func() *vfs.Mem { return s.mem }
	switch s.rng.IntN(5) {
	case 0:
		return nil, same
	case 1:
		return vfs.FailNth(n, errors.New("input/output error")), same
	case 2:
		return vfs.FailNth(n, vfs.ErrNoSpace), same
	case 3:
		if policy == ottla.SyncAlways {
			return vfs.CutBefore(s.mem, n, rand.New(rand.NewPCG(s.rng.Uint64(), 2)))
		}
	}
	kill := sync.OnceValue(s.mem.Kill)
	return func(op vfs.Op) (o vfs.Outcome) {
		if op.N >= n {
			s.dead.Store(true)
			kill()
		}
		return o
	}, kill
}

// broken says whether the life is over: nothing can be stored any more.
func (s *search) broken() bool {
	for _, t := range s.broker.Topics() {
		for n := range t.Partitions() {
			if t.Partition(n).Err() != nil {
				return true
			}
		}
	}
	return false
}

// open opens the broker and compares all that is there with what was promised.
func (s *search) open(fs vfs.FS, sync ottla.SyncPolicy) {
	b, err := ottla.Open("/data", ottla.Options{MinFreeBytes: -1, Sync: sync}.On(fs))
	require.NoError(s.t, err)
	s.broker = b
	s.producers, s.members = map[string]*ottla.Producer{}, nil
	there := map[string]bool{}
	for _, t := range b.Topics() {
		there[t.ID()] = true
		for n := range t.Partitions() {
			s.content(spot{t.ID(), n, 0}, t.Partition(n))
			for _, g := range []string{"g", "h"} {
				if at, ok := b.Group(g).Committed(t.Name(), n); ok {
					s.note(func(j *judge) { j.position(claim{g, spot{t.ID(), n, 0}}, at) })
				}
			}
		}
	}
	for part := range s.judge.acked {
		require.True(s.t, there[part.topicID] || s.deleted[part.topicID], "topic %s is lost", part.topicID)
	}
	s.requireNothingWrong()
}

// content reads a partition from start to end, over damage.
func (s *search) content(part spot, p *ottla.Partition) {
	require.NoError(s.t, p.Err())
	r, err := p.NewReader(ottla.Earliest)
	require.NoError(s.t, err)
	defer r.Close()
	values := map[int64]value{}
	for {
		recs, err := r.Read(nil, 100)
		if errors.Is(err, ottla.ErrCorrupt) {
			require.NoError(s.t, r.Skip())
			continue
		}
		require.NoError(s.t, err)
		if len(recs) == 0 {
			break
		}
		for _, rec := range recs {
			values[rec.Offset] = parse(rec)
		}
	}
	s.note(func(j *judge) { j.content(part, p.StartOffset(), p.HighWatermark(), values) })
}

func parse(r ottla.Record) (v value) {
	if _, err := fmt.Sscanf(string(r.Key), "%s %d", &v.sender, &v.n); err != nil {
		return value{sender: fmt.Sprintf("unreadable key %q", r.Key)}
	}
	return v
}

// step does one thing. What fails is no mistake of the broker's as such: only what it says can be one.
func (s *search) step() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	switch k := s.rng.IntN(100); {
	case k < 3:
		_, _ = s.broker.CreateTopic(ctx, s.name(), ottla.TopicConfig{Partitions: 1 + s.rng.IntN(3), SegmentBytes: 4096})
	case k < 4:
		s.deleteTopic(ctx)
	case k < 6:
		if t := s.topic(); t != nil {
			_, _ = s.broker.AddPartitions(ctx, t.Name(), t.Partitions()+1)
		}
	case k < 8:
		s.trim(ctx)
	case k < 35:
		s.send(ctx)
	case k < 50:
		s.sendAsync(ctx)
	case k < 55:
		s.join(ctx)
	case k < 58:
		s.leave()
	case k < 60:
		time.Sleep(10 * time.Minute) // everybody has missed his poll
		s.note((*judge).crash)
	case k < 65:
		time.Sleep(time.Duration(s.rng.IntN(3000)) * time.Millisecond)
	default:
		s.poll()
	}
	s.requireNothingWrong()
}

func (s *search) name() string { return string(rune('a' + s.rng.IntN(3))) }

func (s *search) topic() *ottla.Topic {
	ts := s.broker.Topics()
	if len(ts) == 0 {
		return nil
	}
	return ts[s.rng.IntN(len(ts))]
}

func (s *search) deleteTopic(ctx context.Context) {
	if t := s.topic(); t != nil {
		s.flush(ctx) // so that a record to the old topic isn't taken for one to its successor
		s.deleted[t.ID()] = true
		_ = s.broker.DeleteTopic(ctx, t.Name())
	}
}

func (s *search) trim(ctx context.Context) {
	if t := s.topic(); t != nil {
		p := t.Partition(s.rng.IntN(t.Partitions()))
		if n := p.HighWatermark(); n > 0 {
			at := s.rng.Int64N(n + 1)
			s.note(func(j *judge) { j.trim(spot{t.ID(), p.Number(), 0}, at) })
			_ = p.DeleteBefore(ctx, at)
		}
	}
}

// records makes some of a sender's, each of which knows its value by its key.
func (s *search) records(sender string, n int) (recs []ottla.Record, values []value) {
	for range n {
		s.serials[sender]++
		v := value{sender, s.serials[sender]}
		s.note(func(j *judge) { j.try(v) })
		values = append(values, v)
		recs = append(recs, ottla.Record{Key: fmt.Appendf(nil, "%s %d", v.sender, v.n), Value: make([]byte, s.rng.IntN(300))})
	}
	return recs, values
}

func (s *search) producer(name string) *ottla.Producer {
	p := s.producers[name]
	if p == nil {
		var err error
		p, err = s.broker.NewProducer(ottla.ProducerConfig{Partitioner: ottla.RoundRobin()})
		require.NoError(s.t, err)
		s.producers[name] = p
	}
	return p
}

// told notes what a sender hears of a record.
func (s *search) told(v value, topicID string, at ottla.Result, err error) {
	var failed *ottla.SendError
	switch {
	case err == nil:
		s.note(func(j *judge) { j.ack(v, spot{topicID, at.Partition, at.Offset}) })
	case errors.As(err, &failed) && failed.Outcome == ottla.NotStored:
		s.note(func(j *judge) { j.refuse(v) })
	}
}

func (s *search) send(ctx context.Context) {
	t := s.topic()
	if t == nil {
		return
	}
	recs, values := s.records("s"+string(rune('0'+s.rng.IntN(3))), 1+s.rng.IntN(5))
	results, _ := s.producer("sync").SendBatch(ctx, t.Name(), recs)
	for i, r := range results {
		s.told(values[i], t.ID(), r, r.Err)
	}
}

func (s *search) sendAsync(ctx context.Context) {
	t := s.topic()
	if t == nil {
		return
	}
	name := "async" + string(rune('0'+s.rng.IntN(2)))
	p := s.producer(name)
	recs, values := s.records(name, 1+s.rng.IntN(20))
	for i, rec := range recs {
		err := p.SendAsync(ctx, t.Name(), rec, func(at ottla.Result, err error) { s.told(values[i], t.ID(), at, err) })
		if err != nil {
			s.note(func(j *judge) { j.refuse(values[i]) })
		}
	}
	if s.rng.IntN(3) == 0 {
		s.flush(ctx)
	}
}

func (s *search) flush(ctx context.Context) {
	for _, p := range s.producers {
		_ = p.Flush(ctx)
	}
}

func (s *search) join(ctx context.Context) {
	if len(s.members) > 5 {
		return
	}
	s.names++
	m := &searchMember{name: fmt.Sprint("m", s.names), group: []string{"g", "h"}[s.rng.IntN(2)], owned: map[ottla.TopicPartition]spot{}}
	gone := func(_ *ottla.Member, tps []ottla.TopicPartition) {
		for _, tp := range tps {
			s.note(func(j *judge) { j.leave(m.name, claim{m.group, m.owned[tp]}) })
			delete(m.owned, tp)
		}
	}
	var err error
	m.Member, err = s.broker.Group(m.group).Join(ctx, ottla.MemberConfig{
		Topics: []string{"a", "b", "c"}, ManualCommit: true, MaxPollRecords: 1 + s.rng.IntN(20),
		OnAssigned: func(mm *ottla.Member, tps []ottla.TopicPartition) { s.assigned(m, mm, tps) },
		OnRevoked:  gone, OnLost: gone,
	})
	if err == nil {
		s.members = append(s.members, m)
	}
}

func (s *search) assigned(m *searchMember, mm *ottla.Member, tps []ottla.TopicPartition) {
	for _, tp := range tps {
		t, err := s.broker.Topic(tp.Topic)
		from, ok := mm.Position(tp.Topic, tp.Partition)
		if err != nil || !ok {
			continue
		}
		m.owned[tp] = spot{t.ID(), tp.Partition, 0}
		s.note(func(j *judge) { j.assign(m.name, claim{m.group, m.owned[tp]}, from) })
	}
}

func (s *search) leave() {
	if n := len(s.members); n > 0 {
		i := s.rng.IntN(n)
		m := s.members[i]
		_ = m.Close()
		for _, part := range m.owned {
			s.note(func(j *judge) { j.leave(m.name, claim{m.group, part}) })
		}
		s.members = append(s.members[:i:i], s.members[i+1:]...)
	}
}

func (s *search) poll() {
	if len(s.members) == 0 {
		return
	}
	m := s.members[s.rng.IntN(len(s.members))]
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+s.rng.IntN(20))*time.Millisecond)
	defer cancel()
	recs, err := m.Poll(ctx)
	for _, rec := range recs {
		tp := ottla.TopicPartition{Topic: rec.Topic, Partition: rec.Partition}
		s.note(func(j *judge) { j.hand(m.name, claim{m.group, m.owned[tp]}, parse(rec), rec.Offset) })
	}
	if errors.Is(err, ottla.ErrCorrupt) {
		for _, tp := range m.Assignment() {
			_ = m.Skip(tp.Topic, tp.Partition)
		}
	}
	if s.rng.IntN(2) == 0 && m.Commit(ctx) == nil {
		for _, part := range m.owned {
			s.note(func(j *judge) { j.commit(m.name, claim{m.group, part}) })
		}
	}
}
