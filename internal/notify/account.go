package notify

import (
	"fmt"
	"time"
)

// The states of an order.
const (
	Initial = "I"
	Sent    = "S"
	Failed  = "F"
)

// Seen is what is found after a run.
type Seen struct {
	States    map[int64]string
	SentOften map[int64]int // how often an order was set to S
	Parked    map[int64]int // how many copies of its message are parked
	Calls     []Call
	Intervals []time.Duration // between the attempts
}

// An Account says what became of every order.
type Account struct {
	Orders, Sent, Failed int

	// What must be zero.
	Lost      int // still in state I
	SentTwice int // set to S more than once
	Unheard   int // in state S without a call that succeeded
	NotParked int // in state F and not parked
	Early     int // attempts before their time

	Resent int // lost by the backend, and sent again by the sweep

	// What at least once allows.
	Calls        int
	CalledAgain  int // attempts that were made more than once
	ParkedTwice  int
	ParkedAndOut int // parked, and then sent through another copy
}

// Account adds up.
func (s Seen) Account() Account {
	a := Account{Orders: len(s.States), Calls: len(s.Calls)}
	heard := map[int64]bool{}
	for _, c := range s.Calls {
		heard[c.Order] = heard[c.Order] || c.Status < 300
	}
	for id, state := range s.States {
		count := func(into *int, yes bool) {
			if yes {
				*into++
			}
		}
		count(&a.Sent, state == Sent)
		count(&a.Failed, state == Failed)
		count(&a.Lost, state == Initial)
		count(&a.SentTwice, s.SentOften[id] > 1)
		count(&a.Unheard, state == Sent && !heard[id])
		count(&a.NotParked, state == Failed && s.Parked[id] == 0)
		count(&a.ParkedTwice, s.Parked[id] > 1)
		count(&a.ParkedAndOut, state == Sent && s.Parked[id] > 0)
	}
	a.attempts(s)
	return a
}

// attempts compares each attempt with the first time that the one before it failed.
func (a *Account) attempts(s Seen) {
	type attempt struct {
		order  int64
		number int
	}
	failed, made := map[attempt]time.Time{}, map[attempt]bool{}
	for _, c := range s.Calls {
		at := attempt{c.Order, c.Attempt}
		if first, ok := failed[at]; c.Status >= 300 && (!ok || c.Answered.Before(first)) {
			failed[at] = c.Answered
		}
		if made[at] {
			a.CalledAgain++
		}
		made[at] = true
	}
	for _, c := range s.Calls {
		if c.Attempt < 2 {
			continue
		}
		before, ok := failed[attempt{c.Order, c.Attempt - 1}]
		if !ok || c.Began.Sub(before) < s.Intervals[min(c.Attempt-1, len(s.Intervals))-1] {
			a.Early++
		}
	}
}

// Problems names what must not be.
func (a Account) Problems() (list []string) {
	for _, p := range []struct {
		n    int
		what string
	}{
		{a.Lost, "lost: still in state I"},
		{a.SentTwice, "set to S twice"},
		{a.Unheard, "in state S though the service did not hear of them"},
		{a.NotParked, "in state F and not parked"},
		{a.Early, "attempts before their time"},
	} {
		if p.n > 0 {
			list = append(list, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	return list
}

// String is a report of several lines.
func (a Account) String() string {
	return fmt.Sprintf(`%6d orders saved: %d sent, %d failed and parked
%6d lost, %d sent twice, %d sent unheard, %d failed and not parked, %d attempts before their time
%6d lost by the backend and sent again by the sweep
%6d calls of the service, %d of them an attempt that was made again; %d parked twice, %d parked and sent
`, a.Orders, a.Sent, a.Failed, a.Lost, a.SentTwice, a.Unheard, a.NotParked, a.Early, a.Resent,
		a.Calls, a.CalledAgain, a.ParkedTwice, a.ParkedAndOut)
}
