package controller

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAcks_PrefixesAndLateOnes(t *testing.T) {
	var sent []string
	a := newAcks(func(tag uint64, multiple bool) { sent = append(sent, fmt.Sprint(tag, " ", multiple)) })
	expect := func(after time.Duration, want ...string) {
		t.Helper()
		a.flush(time.Now().Add(after))
		require.Equal(t, want, sent)
		sent = nil
	}
	expect(0)
	a.done(2)
	a.done(3)
	expect(0)
	a.done(1)
	expect(0, "3 true")
	expect(time.Hour)
	a.done(5)
	a.done(6)
	expect(ackWithin, "5 false", "6 false")
	expect(time.Hour)
	a.done(4)
	expect(0, "4 true") // not 6, which the broker does not know any more
	a.done(8)
	expect(ackWithin, "8 false")
	a.done(7)
	a.done(9)
	expect(0, "9 true")
	require.Empty(t, a.behind)

	for tag := uint64(11); tag < 11+ackFew; tag++ {
		a.done(tag)
	}
	a.flush(time.Now().Add(ackSoon))
	require.Len(t, sent, ackFew, "a few do not wait for a prefix")
	sent = nil
	for tag := uint64(1001); tag < 1002+ackFew; tag++ {
		a.done(tag)
	}
	a.flush(time.Now().Add(ackSoon))
	require.Empty(t, sent)
	a.flush(time.Now().Add(ackWithin))
	require.Len(t, sent, ackFew+1)
}

func TestAcks_LastOnesWhenItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := make(chan string, 9)
		a := newAcks(func(tag uint64, multiple bool) { sent <- fmt.Sprint(tag, " ", multiple) })
		ctx, cancel := context.WithCancel(t.Context())
		go a.run(ctx)
		a.done(1)
		require.Equal(t, "1 true", <-sent)
		a.done(3)
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		require.Empty(t, sent, "it waits for 2")
		require.Equal(t, "3 false", <-sent)
		a.done(2)
		a.done(5)
		cancel()
		require.Equal(t, "2 true", <-sent)
		require.Equal(t, "5 false", <-sent)
	})
}
