package status

import (
	"errors"
	"slices"
	"time"

	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/bundle"
)

// counts tell what waits in slots and in the log, whose messages are bundles of the users'. The
// controller that leads writes them to a queue that keeps the last ones, within a second of a
// change.
type counts struct {
	at    time.Time    // when they were right, by the broker's clock; zero: the controller did not know
	held  bundle.Count // what the controller had read, and no slot had yet
	turns []turn       // what slots held, in the order of their times
}

// A turn is the time for which a slot serves: from begin, before end.
type turn struct {
	begin, end time.Time
	bundle.Count
}

// readCounts reads the body of the message in that queue. An error says why it cannot be read.
func readCounts(body []byte) (counts, error) {
	read, err := bundle.ReadCounts(body)
	if err != nil {
		return counts{}, err
	}
	c := counts{at: timeOf(read.At), held: read.Held}
	for _, t := range read.Turns {
		const mostTurns = 1 << 34 // beyond all times, and before an overflow
		if t.Turn.Level < 0 || t.Turn.Level >= len(bundle.Widths) || t.Turn.Number < 0 || t.Turn.Number > mostTurns {
			return counts{}, errors.New("it tells of slots that this version does not have")
		}
		width := bundle.Widths[t.Turn.Level]
		begin := time.UnixMilli(t.Turn.Number * width.Milliseconds()).UTC()
		c.turns = append(c.turns, turn{begin, begin.Add(width), t.Count})
	}
	slices.SortStableFunc(c.turns, func(a, b turn) int { return a.begin.Compare(b.begin) })
	return c, nil
}

func timeOf(d brokertime.Due) time.Time {
	if d == 0 {
		return time.Time{}
	}
	return d.Time().UTC()
}

// total is the sum of all, without due times.
func (c counts) total() bundle.Count {
	sum := bundle.Count{Bundles: c.held.Bundles, Messages: c.held.Messages, Changes: c.held.Changes, Exact: c.held.Exact}
	for _, t := range c.turns {
		sum.Bundles += t.Bundles
		sum.Messages += t.Messages
		sum.Changes += t.Changes
		sum.Exact = sum.Exact && t.Exact
	}
	return sum
}
