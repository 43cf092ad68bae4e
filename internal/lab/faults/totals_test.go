package faults

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/account"
)

// confirmed is a message that was asked for at one second and arrived after a while; 0: not at all.
func confirmed(id int, delay, after time.Duration) course {
	m := course{ID: id, Intended: time.Second, Asked: time.Second, Delay: delay, Answered: time.Second, Outcome: account.Confirmed}
	if after > 0 {
		m.Copies, m.Arrived = 1, m.Asked+after
	}
	return m
}

func numbers(messages []course) (list []int) {
	for _, m := range messages {
		list = append(list, m.ID)
	}
	return list
}

func with(m course, change func(m *course)) course {
	change(&m)
	return m
}

// TestTotals_Broken: each promise is judged, by itself.
func TestTotals_Broken(t *testing.T) {
	const patience = 5 * time.Second
	describe := func(list []course) string { return fmt.Sprint(numbers(list)) }
	p := promises{patience: patience}
	judged := func(messages ...course) []string {
		total := totals(messages, nil, 0)
		return total.broken(p, describe)
	}
	kept, lost := confirmed(1, time.Second, 2*time.Second), confirmed(1, time.Second, 0)
	outcome := func(o account.Outcome) course { return with(kept, func(m *course) { m.Outcome = o }) }
	answered := func(after time.Duration) course {
		return with(kept, func(m *course) { m.Answered = m.Asked + after })
	}
	unroutable := with(lost, func(m *course) { m.Kept = true })
	assert.Empty(t, judged(kept, outcome(account.Unknown), with(lost, func(m *course) { m.Outcome = account.Refused })))
	assert.Empty(t, judged(answered(patience+mostOverrun)))
	for _, c := range []struct {
		is   course
		want string
	}{
		{confirmed(1, time.Second, 999*time.Millisecond), "1 early, the earliest by 1ms: [1]"},
		{lost, "1 missing: [1]"},
		{unroutable, "1 kept as unroutable, although no destination was gone"},
		{outcome(account.Refused), "1 delivered that Publish had said are not stored"},
		{outcome(account.Cancelled), "1 delivered that Cancel had said are not"},
		{course{ID: nobodys, Copies: 1, Arrived: 1}, "1 messages delivered that nobody published"},
		{answered(patience + mostOverrun + 1), "Publish returned " + (mostOverrun + 1).String() + " after its context had ended"},
	} {
		assert.Equal(t, []string{c.want}, judged(kept, c.is))
	}
	p.lossy, p.unroutable = true, true
	assert.Empty(t, judged(lost), "who does not claim that it survives this may lose what it has")
	assert.Empty(t, judged(unroutable), "a destination was gone")
	p.lossy, p.unroutable = false, false
	twice := with(kept, func(m *course) { m.Copies = 3 })
	assert.Empty(t, judged(twice), "at least once, after a crash or a lost connection")
	p.once = true
	assert.Empty(t, judged(kept))
	assert.Equal(t, []string{"2 extra copies, although nothing crashed and no connection was lost"}, judged(twice))
}

// TestFault_Loses: only where the broker is taken down, and only who does not claim to survive
// that.
func TestFault_Loses(t *testing.T) {
	restart, both := delayer.Limits{SurvivesRestart: true}, delayer.Limits{SurvivesRestart: true, SurvivesCrash: true}
	loses := func(name string) (who []bool) {
		for _, f := range All() {
			if f.Name == name {
				who = append(who, f.loses(delayer.Limits{}), f.loses(restart), f.loses(both))
			}
		}
		return who
	}
	assert.Equal(t, []bool{false, false, false}, loses("none"))
	assert.Equal(t, []bool{true, false, false}, loses("broker restarted"))
	assert.Equal(t, []bool{true, true, false}, loses("broker killed"))
	assert.Equal(t, []bool{false, false, false}, loses("destination full"))
}

// TestTotals_Slow: what is late after the end is seen, what was late before is not.
func TestTotals_Slow(t *testing.T) {
	p := promises{latest: 40 * time.Second}
	slow := func(repaired, after time.Duration) []string {
		total := totals([]course{confirmed(1, time.Second, after)}, nil, repaired)
		return total.slow(p)
	}
	assert.Empty(t, slow(0, 41*time.Second))
	assert.Equal(t, []string{"a message came 40.001s after nothing was broken any more, and 40s is promised"}, slow(0, 41*time.Second+time.Millisecond))
	assert.Empty(t, slow(time.Minute, 99*time.Second), "39 s after the end")
	assert.Len(t, slow(time.Minute, 100*time.Second), 1)
	assert.Equal(t, 8*time.Minute, Campaign{}.latest())
	assert.Equal(t, 160*time.Second, Campaign{Redeliver: 20 * time.Second}.latest())
}

// TestCampaign_Row: a row has what the fault has found itself, and all that the account shows.
func TestCampaign_Row(t *testing.T) {
	publishedLongAgo := time.Now().Add(-time.Hour)
	r := &Run{
		Account: account.New[int](publishedLongAgo), Subject: Subject{Name: "it", QueueType: Quorum}, load: Load{Patience: time.Second},
	}
	r.Account.Ask(course{ID: 1, Asked: time.Second, Delay: time.Second})
	r.Account.Answer(1, 2*time.Second, nil)
	r.Account.Arrive(1, 30*time.Minute)
	r.Account.Arrive(1, 31*time.Minute)
	r.Account.Ask(course{ID: 2, Asked: time.Second, Delay: time.Second})
	r.Account.Answer(2, time.Minute, nil)
	row := Campaign{}.row(Fault{Name: "none", Once: true, Serve: true}, r)
	assert.Equal(t, "it", row.Backend)
	if assert.Len(t, row.Problems, 4) {
		assert.Contains(t, row.Problems[0], "1 missing:  [2 asked")
		assert.Contains(t, row.Problems[1], "1 extra copies")
		assert.Contains(t, row.Problems[2], "Publish returned 58s after its context had ended")
		assert.Contains(t, row.Problems[3], "1 came twice that were published after the last crash: [1]")
	}
	if assert.Len(t, row.Slow, 1) {
		assert.Contains(t, row.Slow[0], "29m58s after nothing was broken any more, and 8m0s is promised")
	}
	r.repaired = time.Minute
	assert.Len(t, Campaign{}.row(Fault{Name: "serve killed", Serve: true}, r).Problems, 2, "there it may come twice")
}

// TestTotals_AfterEnd: what was due while something was broken counts from when that was repaired.
func TestTotals_AfterEnd(t *testing.T) {
	const repaired = time.Minute
	late := func(repaired time.Duration, m course) Totals { return totals([]course{m}, nil, repaired) }
	before := confirmed(1, time.Second, 58*time.Second)
	assert.Equal(t, 57*time.Second, late(0, before).AfterEnd, "nothing was repaired")
	assert.Zero(t, late(repaired, before).AfterEnd, "it came before the end")
	assert.Equal(t, 57*time.Second, late(repaired, before).LatestBy)
	after := confirmed(1, time.Second, 62*time.Second)
	assert.Equal(t, 3*time.Second, late(repaired, after).AfterEnd, "from the end, not from when it was due")
	assert.Equal(t, 61*time.Second, late(repaired, after).LatestBy)
	assert.Equal(t, 4*time.Second, late(repaired, confirmed(1, 2*time.Minute, 124*time.Second)).AfterEnd, "from when it was due, which was after the end")
	after.Outcome = account.Unknown
	assert.Zero(t, late(repaired, after).AfterEnd, "not what was not confirmed")
	assert.Zero(t, late(repaired, confirmed(1, 2*time.Hour, time.Hour)).AfterEnd, "nor what is early")
}

// TestRun_Deleted: only what an operator can have deleted is forgiven.
func TestRun_Deleted(t *testing.T) {
	run := func() *Run { return &Run{Account: account.New[int](time.Now())} }
	soon, waiting := confirmed(0, time.Millisecond, 0), confirmed(1, time.Hour, 0)
	published := with(confirmed(2, time.Hour, 0), func(m *course) { m.Asked = 9 * time.Second })
	revived := with(confirmed(3, time.Hour, time.Hour), func(m *course) { m.Outcome = account.Cancelled })
	all := []course{soon, waiting, published, revived}

	r := run()
	from, to := r.Account.Time(2*time.Second), r.Account.Time(3*time.Second)
	r.deletedArrived(from, to)
	got := totals(all, r.deleted, 0)
	assert.Equal(t, 1, got.Deleted, "what had just come to the queue that was deleted")
	assert.Equal(t, []int{1, 2}, numbers(got.missing), "not what was still waiting elsewhere")
	assert.Equal(t, 1, got.Revived)

	r.deletedWaiting(from, to)
	got = totals(all, r.deleted, 0)
	assert.Equal(t, 2, got.Deleted)
	assert.Equal(t, []int{2}, numbers(got.missing), "not what was published afterwards")
	assert.Zero(t, got.Revived, "its cancelling may be gone as well")
}

func TestOutage(t *testing.T) {
	at := func(at time.Duration, err error) course { return course{Asked: 1, Answered: at, Err: err} }
	failed := at(30*time.Second, errors.New("down"))
	messages := []course{at(50*time.Second, nil), failed, at(10*time.Second, nil), {Asked: 1}}
	assert.Equal(t, 40*time.Second, outage(messages, time.Second, time.Minute))
	assert.Equal(t, 70*time.Second, outage(messages, time.Second, 2*time.Minute), "also where it lasts to the end")
	assert.Equal(t, time.Minute, outage(messages, -50*time.Second, time.Minute), "and from the beginning")
}

// TestSeries_Table: a cell for each fault and backend, which says what is not as it was asked for.
func TestSeries_Table(t *testing.T) {
	row := func(fault, backend, queues string, totals Totals) Row {
		return Row{Fault: fault, Backend: backend, Queues: queues, Totals: totals}
	}
	s := Series{Results: []Row{
		row("flood", "ladder", Quorum, Totals{Sent: 9, Confirmed: 9, Delivered: 9, LatestBy: time.Minute, AfterEnd: time.Second}),
		row("flood", "ladder", "classic", Totals{Missing: 3, Twice: 94, AfterEnd: 20 * time.Second}),
		row("fire", "ladder", Quorum, Totals{Early: 1, Kept: 2}),
	}}
	assert.Equal(t, "| fault | `ladder` | `ladder`, classic |\n|---|---|---|\n"+
		"| flood | ok | lost 3, twice 94, late 20 s |\n| fire | early 1, unroutable 2 | – |\n", s.Table())
	bad := row("fire", "ladder", Quorum, Totals{})
	bad.Slow = []string{"snail"}
	bad.problem("%s", "wet")
	assert.Contains(t, bad.String(), "PROBLEM: wet")
	assert.Contains(t, bad.String(), "SLOW: snail")
}
