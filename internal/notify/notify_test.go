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

func TestAWaiterWaitsAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a, b notify.Offset
		var w notify.Waiter
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Wait(ctx, &a, 0) }()
		synctest.Wait()
		cancel()
		a.Advance(1) // may leave a token that nobody took
		<-done

		go func() { done <- w.Wait(t.Context(), &b, 0) }()
		a.Advance(2)
		synctest.Wait()
		require.Empty(t, done, "nothing is left of the wait before")
		b.Advance(1)
		require.NoError(t, <-done)

		gone := errors.New("gone")
		go func() { done <- w.Wait(t.Context(), &a, 2) }()
		synctest.Wait()
		a.Close(gone)
		require.ErrorIs(t, <-done, gone)
	})
}

func TestStoppedWatchesAreNotWoken(t *testing.T) {
	var o notify.Offset
	var watches []*notify.Watch
	var wakes []chan struct{}
	for i := range 5 {
		wakes = append(wakes, make(chan struct{}, 1))
		watches = append(watches, o.Watch(int64(i), wakes[i]))
	}
	watches[1].Stop()
	watches[4].Stop()
	watches[1].Stop()
	o.Advance(3) // above 0, 1 and 2
	for i, woken := range []int{1, 0, 1, 0, 0} {
		require.Len(t, wakes[i], woken, "watch %d", i)
	}
	watches[0].Stop()
	o.Advance(9)
	for i, woken := range []int{1, 0, 1, 1, 0} {
		require.Len(t, wakes[i], woken, "watch %d", i)
	}
}
