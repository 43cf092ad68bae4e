package faults

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/delayer-go/delayer"
)

func unknown() error { return &delayer.Error{Op: "publish", Kind: delayer.ErrUnknown} }
func refused() error { return &delayer.Error{Op: "publish", Kind: delayer.ErrRefused} }

// TestTheLedgerTellsEachFateFromTheOthers: a campaign is worth as much as its accounts.
func TestTheLedgerTellsEachFateFromTheOthers(t *testing.T) {
	l := NewLedger()
	ask := func(answer error, arrivals ...time.Duration) int {
		id := l.Ask(time.Second, time.Minute)
		l.Answer(id, answer)
		for _, after := range arrivals {
			l.Arrive(id, l.attempts[id].Asked.Add(after), false)
		}
		return id
	}
	ask(nil, time.Second)
	early := ask(nil, 999*time.Millisecond)
	ask(nil, 2*time.Second, 3*time.Second, 4*time.Second)
	missing := ask(nil)
	ask(unknown())
	ask(unknown(), time.Second)
	ask(refused())
	ask(refused(), time.Second)
	ask(errors.New("not of the package's kinds"))
	kept := ask(nil)
	l.Keep(kept)
	again := ask(nil, time.Second)
	l.Arrive(again, time.Now(), true)
	l.Arrive(4711, time.Now(), false)
	cancel := func(answer error, arrivals ...time.Duration) {
		id := ask(nil)
		l.Cancel(id, answer)
		for _, after := range arrivals {
			l.Arrive(id, l.attempts[id].Asked.Add(after), false)
		}
	}
	cancel(nil)
	cancel(nil, time.Second)
	cancel(unknown())
	cancel(&delayer.Error{Kind: delayer.ErrTooLate}, time.Second)
	assert.True(t, l.pending(), "what was cancelled may still arrive")

	acc := l.Account()
	assert.Equal(t, 2, acc.Cancelled)
	assert.Equal(t, 1, acc.Revived, "delivered, and Cancel had said it is not")
	assert.Equal(t, 15, acc.Sent)
	assert.Equal(t, 7, acc.Confirmed)
	assert.Equal(t, 3, acc.Unknown)
	assert.Equal(t, 3, acc.Refused)
	assert.Equal(t, 5, acc.Delivered)
	assert.Equal(t, 1, acc.Surprised)
	assert.Equal(t, 1, acc.Untrue, "delivered, and Publish had said it was not stored")
	assert.Equal(t, 2, acc.Twice, "copies, without what the consumer was given again")
	assert.Equal(t, 1, acc.Kept)
	assert.Equal(t, 1, acc.Strangers)
	assert.Equal(t, []int{early}, acc.Early)
	assert.Equal(t, []int{missing}, acc.Missing)
	assert.Equal(t, time.Millisecond, acc.EarliestBy)
	_, undone, _ := l.counts()
	assert.Equal(t, 1, undone, "what is awaited is what is missing")
}

func TestLedger_Reschedule(t *testing.T) {
	l := NewLedger()
	for _, answer := range []error{nil, unknown()} {
		id := l.Ask(10*time.Second, time.Minute)
		l.Answer(id, nil)
		l.Reschedule(id, l.attempts[id].Asked.Add(11*time.Second), answer)
		l.Arrive(id, l.attempts[id].Asked.Add(10*time.Second), false)
	}
	acc := l.Account()
	assert.Equal(t, 1, acc.Rescheduled)
	assert.Equal(t, []int{0}, acc.Early, "not what may have been rescheduled or not")
	assert.Equal(t, time.Second, acc.EarliestBy)
}

// TestLedger_AfterTheEnd: what was due while something was broken counts from when that was mended.
func TestLedger_AfterTheEnd(t *testing.T) {
	l := NewLedger()
	mended := time.Now().Add(time.Minute)
	arrive := func(delay, afterEnd time.Duration, answer error) {
		id := l.Ask(delay, time.Minute)
		l.Answer(id, answer)
		l.Arrive(id, mended.Add(afterEnd), false)
	}
	arrive(time.Second, -time.Second, nil)
	assert.Greater(t, l.Account().AfterEnd, 50*time.Second, "nothing was mended")
	assert.Equal(t, l.Account().LatestBy, l.Account().AfterEnd)

	l.Mended(mended.Add(-time.Hour))
	l.Mended(mended)
	assert.Zero(t, l.Account().AfterEnd, "it came before the end")
	arrive(time.Second, 3*time.Second, nil)
	assert.Equal(t, 3*time.Second, l.Account().AfterEnd, "from the end, not from when it was due")
	arrive(time.Second, time.Hour, unknown())
	arrive(2*time.Hour, time.Hour, nil)
	assert.Equal(t, 3*time.Second, l.Account().AfterEnd, "neither what was not confirmed nor what is early")

	id := l.Ask(2*time.Minute, time.Minute)
	l.Answer(id, nil)
	l.Arrive(id, l.attempts[id].Due().Add(4*time.Second), false)
	assert.Equal(t, 4*time.Second, l.Account().AfterEnd, "from when it was due, which was after the end")
	assert.Greater(t, l.Account().LatestBy, time.Minute)
}

func TestOnlyWhatAnOperatorCanHaveDeletedIsForgiven(t *testing.T) {
	l := NewLedger()
	confirm := func(delay time.Duration) {
		l.Answer(l.Ask(delay, time.Minute), nil)
	}
	confirm(time.Millisecond)
	confirm(time.Hour)
	from := time.Now()
	l.ForgiveArrived(from, from.Add(time.Millisecond))
	acc := l.Account()
	assert.Equal(t, 1, acc.Deleted, "what had just come to the queue that was deleted")
	assert.Equal(t, []int{1}, acc.Missing, "not what was still waiting elsewhere")

	l.ForgiveWaiting(from, time.Now())
	acc = l.Account()
	assert.Equal(t, 2, acc.Deleted)
	assert.Empty(t, acc.Missing)
	confirm(time.Hour)
	assert.Equal(t, []int{2}, l.Account().Missing, "not what was published afterwards")
}

func TestAnOutageIsTheLongestTimeWithoutAConfirm(t *testing.T) {
	l := NewLedger()
	l.lastOK = time.Now().Add(-time.Minute)
	l.Answer(l.Ask(time.Second, time.Second), unknown())
	l.Stop()
	assert.GreaterOrEqual(t, l.Account().Outage, time.Minute, "also where it lasts to the end")
}
