package notify

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestAccount(t *testing.T) {
	start := time.Now()
	call := func(order int64, attempt int, after time.Duration, status int) Call {
		at := start.Add(after)
		return Call{Order: order, Attempt: attempt, Began: at, Answered: at, Status: status}
	}
	s := Seen{
		Intervals: []time.Duration{time.Second, 2 * time.Second},
		States:    map[int64]string{1: Sent, 2: Sent, 3: Failed, 4: Initial, 5: Sent, 6: Failed, 7: Sent},
		SentOften: map[int64]int{1: 1, 2: 1, 5: 2, 7: 1},
		Parked:    map[int64]int{3: 2, 2: 1},
		Calls: []Call{
			call(1, 1, 0, 200),
			call(2, 1, 0, 503), call(2, 2, time.Second, 503), call(2, 3, 3*time.Second, 200),
			call(3, 1, 0, 503), call(3, 1, time.Second, 503), call(3, 2, time.Second, 503), // a duplicate, which counts for nothing
			call(3, 3, 3*time.Second-1, 503), // early
			call(5, 1, 0, 200), call(5, 1, 0, 200),
			call(6, 2, 0, 503), // an attempt with none before it
		},
	}
	a := s.Account()
	assert.Equal(t, Account{
		Orders: 7, Sent: 4, Failed: 2, Lost: 1, SentTwice: 1, Unheard: 1, NotParked: 1, Early: 2,
		Calls: 11, CalledAgain: 2, ParkedTwice: 1, ParkedAndOut: 1,
	}, a)
	assert.Len(t, a.Problems(), 5)
	assert.Empty(t, Account{Orders: 3, Sent: 2, Failed: 1, Calls: 5, CalledAgain: 1, ParkedTwice: 1, ParkedAndOut: 1}.Problems())
}
