package ottla_test

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla"
)

// caller calls every exported method of a value with arguments that mean little.
type caller struct {
	t    *testing.T
	ctx  context.Context
	skip []string
}

// all calls each method twice. Whatever state the value is in, a call neither panics nor hangs, and the second one gets the
// error of the first: no lock stays taken on the way out.
func (c caller) all(v any) {
	c.t.Helper()
	typ := reflect.TypeOf(v)
	for i := range typ.NumMethod() {
		name := typ.Elem().Name() + "." + typ.Method(i).Name
		if slices.Contains(c.skip, typ.Method(i).Name) {
			continue
		}
		var said [2]string
		for n := range said {
			done := make(chan any, 1)
			go func() {
				defer func() { done <- recover() }()
				said[n] = c.call(reflect.ValueOf(v).Method(i))
			}()
			select {
			case panicked := <-done:
				require.Nil(c.t, panicked, name)
			case <-time.After(10 * time.Second):
				require.Fail(c.t, "hangs", "%s, call %d", name, n+1)
			}
		}
		if typ.Method(i).Name != "Close" { // which has nothing to say the second time
			require.Equal(c.t, said[0], said[1], name)
		}
	}
}

// call returns the error's text. An iterator is asked for its first element.
func (c caller) call(method reflect.Value) (said string) {
	var args []reflect.Value
	for i := range method.Type().NumIn() {
		args = append(args, c.argument(method.Type().In(i)))
	}
	if method.Type().IsVariadic() {
		args = args[:len(args)-1]
	}
	for _, result := range method.Call(args) {
		if err, ok := result.Interface().(error); ok {
			said = err.Error()
		}
		if result.Kind() != reflect.Func || result.IsNil() {
			continue
		}
		yield := reflect.MakeFunc(result.Type().In(0), func(element []reflect.Value) []reflect.Value {
			if err, ok := element[len(element)-1].Interface().(error); ok {
				said = err.Error()
			}
			return []reflect.Value{reflect.ValueOf(false)}
		})
		result.Call([]reflect.Value{yield})
	}
	return said
}

func (c caller) argument(typ reflect.Type) reflect.Value {
	switch {
	case typ == reflect.TypeFor[context.Context]():
		return reflect.ValueOf(c.ctx)
	case typ.Kind() == reflect.String:
		return reflect.ValueOf("a").Convert(typ)
	case typ.Kind() == reflect.Int || typ.Kind() == reflect.Int64:
		return reflect.ValueOf(1).Convert(typ)
	case typ.Kind() == reflect.Chan:
		return reflect.MakeChan(reflect.ChanOf(reflect.BothDir, typ.Elem()), 1)
	case typ.Kind() == reflect.Func:
		return reflect.MakeFunc(typ, func([]reflect.Value) (results []reflect.Value) {
			for i := range typ.NumOut() {
				results = append(results, reflect.Zero(typ.Out(i)))
			}
			return results
		})
	}
	return reflect.Zero(typ)
}

// inUse is a broker and one of everything that it gives out.
type inUse struct {
	b      *ottla.Broker
	topic  *ottla.Topic
	p      *ottla.Producer
	r      *ottla.Reader
	m      *ottla.Member
	values []any
}

func use(t *testing.T, dir string, partitions int) (u inUse) {
	t.Helper()
	var err error
	u.b = open(t, dir, ottla.Options{})
	u.topic, err = u.b.CreateTopic(t.Context(), "a", ottla.TopicConfig{Partitions: partitions})
	require.NoError(t, err)
	u.p, err = u.b.NewProducer(ottla.ProducerConfig{})
	require.NoError(t, err)
	u.r, err = u.topic.Partition(0).NewReader(ottla.Earliest)
	require.NoError(t, err)
	u.m, err = u.b.Group("g").Join(t.Context(), ottla.MemberConfig{Topics: []string{"a"}})
	require.NoError(t, err)
	u.values = []any{u.b, u.topic, u.topic.Partition(0), u.r, u.p, u.m, u.b.Group("g")}
	return u
}

func TestEveryMethodAfterClose(t *testing.T) {
	u := use(t, t.TempDir(), 1)
	require.NoError(t, u.b.Close())
	for _, v := range u.values {
		caller{t: t, ctx: t.Context()}.all(v)
	}
}

func TestEveryMethodWithACancelledContext(t *testing.T) {
	u := use(t, t.TempDir(), 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, v := range u.values {
		caller{t: t, ctx: ctx, skip: []string{"Close", "End"}}.all(v)
	}
	require.NoError(t, u.m.Close())
	require.NoError(t, u.r.Close())
	require.NoError(t, u.p.Close())
	require.NoError(t, u.b.Close())
}

func TestEveryMethodOfAPartitionThatIsGone(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, use(t, dir, 2).b.Close())
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "a-0")))
	b := open(t, dir, ottla.Options{})
	tp, err := b.Topic("a")
	require.NoError(t, err)
	caller{t: t, ctx: t.Context()}.all(tp.Partition(0))
	require.NoError(t, tp.Partition(1).Err())
	require.NoError(t, b.Close())
}
