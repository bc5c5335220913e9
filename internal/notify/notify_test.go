package notify_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/ottlalog/ottla/internal/notify"
)

func TestWaitReturnsOnceTheOffsetIsAbove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o notify.Offset
		done := make(chan error, 1)
		go func() { done <- o.Wait(t.Context(), 5) }()

		o.Advance(5)
		synctest.Wait()
		require.Empty(t, done, "5 is not above 5")

		o.Advance(6)
		require.NoError(t, <-done)
		require.NoError(t, o.Wait(t.Context(), 5), "already above")
	})
}

func TestOffsetNeverGoesBack(t *testing.T) {
	var o notify.Offset
	o.Advance(7)
	o.Advance(3)
	require.EqualValues(t, 7, o.Load())
}

func TestWaitEndsWithItsContextAndWithClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o notify.Offset
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 2)
		go func() { done <- o.Wait(ctx, 0) }()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)

		gone := errors.New("gone")
		go func() { done <- o.Wait(t.Context(), 0) }()
		synctest.Wait()
		o.Close(gone)
		require.ErrorIs(t, <-done, gone)
		require.ErrorIs(t, o.Wait(t.Context(), 0), gone, "after Close")
	})
}

func TestOneChannelBehindManyWatches(t *testing.T) {
	offsets := make([]notify.Offset, 3)
	wake := make(chan struct{}, 1)
	for i := range offsets {
		defer offsets[i].Watch(0, wake).Stop()
	}
	offsets[1].Advance(1)
	<-wake
	offsets[0].Advance(1)
	offsets[2].Advance(1)
	<-wake
	require.Empty(t, wake, "a token says look again, not how often")
}

func TestNoWakeUpIsLost(t *testing.T) {
	var o notify.Offset
	const last = 20_000
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for v := range int64(last) {
				if err := o.Wait(context.Background(), v); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for v := range int64(last) {
		o.Advance(v + 1)
	}
	wg.Wait()
}
