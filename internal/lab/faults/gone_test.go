package faults

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/account"
)

// TestJudgeGone: what finds no queue is kept or refused, and nothing else is.
func TestJudgeGone(t *testing.T) {
	orphan := course{Group: orphans, Outcome: account.Confirmed, Kept: true}
	_, problems := judgeGone([]course{orphan})
	assert.Empty(t, problems)

	misplaced := orphan
	misplaced.Group = replies
	_, problems = judgeGone([]course{orphan, misplaced})
	assert.Equal(t, []string{"1 were kept as unroutable whose destination was there"}, problems)
	misplaced.Copies = 1
	_, problems = judgeGone([]course{orphan, misplaced})
	assert.Empty(t, problems, "a copy of what has arrived")

	refused := orphan
	refused.Kept, refused.Outcome, refused.Err = false, account.Refused, delayer.ErrUnroutable
	said, problems := judgeGone([]course{refused})
	assert.Contains(t, said, "0 messages were kept and 1 refused")
	assert.Empty(t, problems, "a busy machine deletes the queue when the first message has come")
	refused.Outcome, refused.Err = account.Confirmed, nil
	_, problems = judgeGone([]course{refused})
	assert.Equal(t, []string{"no message was refused or kept as unroutable whose reply queue was deleted"}, problems)
}

// TestJudgeOthers: they are as fast as before.
func TestJudgeOthers(t *testing.T) {
	calm, gone := phase{0, time.Minute}, phase{time.Minute, 2 * time.Minute}
	other := func(p phase, publish, late time.Duration) course {
		asked := p.from + time.Second
		return course{Group: others, Intended: asked, Asked: asked, Answered: asked + publish,
			Outcome: account.Confirmed, Copies: 1, Arrived: asked + late}
	}
	const quick, slow = 5 * time.Millisecond, 880 * time.Millisecond
	judged := func(more ...course) []string {
		_, slow := judgeOthers(append([]course{other(calm, quick, quick)}, more...), calm, gone)
		return slow
	}
	assert.Empty(t, judged(other(gone, quick, quick)))
	assert.Empty(t, judged(other(gone, quick, quick), other(gone, slow, slow), other(gone, quick, quick)), "one of many")
	assert.Empty(t, judged(other(phase{from: 3 * time.Minute}, slow, slow)), "not in this phase")
	heldUp := func(want string, more ...course) {
		t.Helper()
		slow := judged(more...)
		if assert.Len(t, slow, 1) {
			assert.Contains(t, slow[0], want)
		}
	}
	heldUp("Publish 5ms and 5ms before, 880ms and 880ms meanwhile", other(gone, slow, quick))
	heldUp("lateness 5ms and 5ms before, 880ms and 880ms meanwhile", other(gone, quick, slow))
	heldUp("lateness 5ms and 5ms before, 5ms and 4s meanwhile", other(gone, quick, quick), other(gone, quick, quick), other(gone, quick, 4*time.Second))
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
