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

	acc := l.Account()
	assert.Equal(t, 11, acc.Sent)
	assert.Equal(t, 6, acc.Confirmed)
	assert.Equal(t, 2, acc.Unknown)
	assert.Equal(t, 3, acc.Refused)
	assert.Equal(t, 4, acc.Delivered)
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
