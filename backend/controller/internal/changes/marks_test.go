package changes

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lib/brokertime"
)

func moment(mono time.Duration) brokertime.Instant {
	return brokertime.Instant{Mono: mono, Wall: time.UnixMilli(0).Add(mono)}
}

func TestMarks(t *testing.T) {
	var m Marks
	require.False(t, m.Covers(moment(0), time.Hour), "nothing was read")
	m.Send("1", moment(time.Second))
	m.Send("2", moment(2*time.Second))
	m.Send("3", moment(3*time.Second))
	require.False(t, m.Back("x"))
	require.True(t, m.Back("2"))
	require.False(t, m.Back("1"), "what comes late says nothing new")
	require.False(t, m.Back("2"))
	require.True(t, m.Covers(moment(5*time.Second), 0))
	require.False(t, m.Covers(moment(5*time.Second+1), 0))
	require.True(t, m.Covers(moment(7*time.Second), 2*time.Second), "it was due when the mark was fresh")
	require.False(t, m.Covers(moment(3*time.Second), -2*time.Second-1))
	suspended := moment(3 * time.Second)
	suspended.Wall = suspended.Wall.Add(time.Minute)
	require.False(t, m.Covers(suspended, 0))
	for range 2 * mostSent {
		m.Send("lost", moment(0))
	}
	require.Len(t, m.sent, mostSent)
}

// A course is how a Cancel, a mark and a delivery meet. There is one message, which is due at 100 s.
type course struct {
	sent, written, confirmed time.Duration // the change, as its stream's node shows the time
	marked, appended         time.Duration // the mark
	ahead                    time.Duration // by which the clock that the controller knows is ahead of that
	uncertain                time.Duration // both are about their clocks
	decides                  time.Duration // when the controller takes the message for due
}

const dueAt = 100 * time.Second

// accepted reports whether Cancel returns nil.
func (c course) accepted() bool { return c.confirmed+c.uncertain+AcceptedBefore <= dueAt }

// delivers reports whether the controller delivers the message without knowing of the change.
func (c course) delivers() bool {
	var marks Marks
	marks.Send("mark", moment(c.marked))
	known := c.written <= c.appended
	if c.appended <= c.decides {
		marks.Back("mark")
	}
	earliest := c.decides + c.ahead - c.uncertain
	return !known && marks.Covers(moment(c.decides), earliest-dueAt)
}

// TestAccepted is the promise of Cancel: who decides that a message is delivered knows each change that
// was accepted; whatever the network, a standing process and the clocks do. It tries all courses in steps
// of half a second. That a controller decides before the message is due does no harm either.
func TestAccepted(t *testing.T) {
	const (
		step  = 500 * time.Millisecond
		apart = AcceptedBefore - MarkedBefore // by which the clocks of nodes differ less
	)
	upTo := func(most time.Duration) (all []time.Duration) {
		for d := time.Duration(0); d <= most; d += step {
			all = append(all, d)
		}
		return all
	}
	accepted, delivered := 0, 0
	for _, sent := range upTo(4 * time.Second) {
		for _, way := range upTo(time.Second) {
			for _, confirm := range upTo(time.Second) {
				for _, marked := range upTo(6 * time.Second) {
					for _, markWay := range upTo(time.Second) {
						for _, ahead := range append(upTo(apart-step), apart-1) {
							for _, decides := range upTo(4 * time.Second) {
								c := course{sent: dueAt - 8*time.Second + sent, marked: dueAt - 7*time.Second + marked, ahead: ahead}
								c.written = c.sent + way
								c.confirmed = c.written + confirm
								c.appended = c.marked + markWay
								c.uncertain = way / 2
								c.decides = c.appended + 2*decides
								if c.delivers() {
									delivered++
									require.False(t, c.accepted(), "%+v", c)
								}
								if c.accepted() {
									accepted++
								}
							}
						}
					}
				}
			}
		}
	}
	require.Positive(t, accepted)
	require.Positive(t, delivered, "what is too late is not known in time")
}
