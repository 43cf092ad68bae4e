package faults

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/account"
)

// TestJudgeGone: others are as fast as before and none of theirs is unroutable, and what finds no
// queue is kept.
func TestJudgeGone(t *testing.T) {
	calm, gone := phase{0, time.Minute}, phase{time.Minute, 2 * time.Minute}
	other := func(p phase, publish, late time.Duration) course {
		asked := p.from + time.Second
		return course{Group: others, Intended: asked, Asked: asked, Answered: asked + publish,
			Outcome: account.Confirmed, Copies: 1, Arrived: asked + late}
	}
	orphan := course{Group: orphans, Asked: gone.from, Answered: gone.from, Outcome: account.Confirmed, Kept: true}
	const quick, slow = 5 * time.Millisecond, 880 * time.Millisecond
	judged := func(more ...course) []string {
		_, problems := judgeGone(append([]course{other(calm, quick, quick), orphan}, more...), calm, gone)
		return problems
	}
	assert.Empty(t, judged(other(gone, quick, quick)))
	assert.Empty(t, judged(other(gone, quick, quick), other(gone, slow, slow), other(gone, quick, quick)), "one of many")
	assert.Empty(t, judged(other(phase{from: 3 * time.Minute}, slow, slow)), "not in this phase")
	problem := func(want string, more ...course) {
		t.Helper()
		problems := judged(more...)
		if assert.Len(t, problems, 1) {
			assert.Contains(t, problems[0], want)
		}
	}
	problem("Publish 5ms and 5ms before, 880ms and 880ms meanwhile", other(gone, slow, quick))
	problem("lateness 5ms and 5ms before, 880ms and 880ms meanwhile", other(gone, quick, slow))
	problem("lateness 5ms and 5ms before, 5ms and 4s meanwhile", other(gone, quick, quick), other(gone, quick, quick), other(gone, quick, 4*time.Second))
	astray := orphan
	astray.Group = replies
	problem("1 were kept as unroutable whose destination was there", astray)
	astray.Copies = 1
	assert.Empty(t, judged(astray), "a copy of what has arrived")

	refused := orphan
	refused.Kept, refused.Outcome, refused.Err = false, account.Refused, delayer.ErrUnroutable
	said, problems := judgeGone([]course{refused}, calm, gone)
	assert.Contains(t, said, "0 messages were kept and 1 refused")
	assert.Equal(t, []string{"no message was kept as unroutable whose reply queue was deleted"}, problems)
}

func TestCostOfEach(t *testing.T) {
	calm := talk{took: time.Second, messages: 10, bytes: 1000}
	assert.Zero(t, costOfEach(calm, talk{took: 2 * time.Second, messages: 10, bytes: 2000}), "it only took longer")
	assert.EqualValues(t, 500, costOfEach(calm, talk{took: 2 * time.Second, messages: 10, bytes: 7000}))
}

// TestAllTaken: a second copy of one message is not the other one.
func TestAllTaken(t *testing.T) {
	unknown := &delayer.Error{Kind: delayer.ErrUnknown}
	refused := &delayer.Error{Kind: delayer.ErrRefused}
	// Each wait has channels of its own: what it leaves in them is random where both are ready.
	wait := func(missing map[int]bool, over bool, ids ...int) bool {
		took, enough := make(chan int, len(ids)), make(chan time.Time, 1)
		for _, id := range ids {
			took <- id
		}
		if over {
			enough <- time.Time{}
		}
		return allTaken(took, enough, missing)
	}
	const over = true
	assert.False(t, wait(stored(1, nil, 2, nil), over, 1, 1))
	assert.True(t, wait(stored(1, nil, 2, unknown), !over, 1, 2))
	assert.True(t, wait(stored(1, nil, 2, refused), !over, 1), "it was not stored")
}
