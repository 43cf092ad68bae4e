package status

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/bundle"
	"github.com/delayer-go/delayer/internal/lib/objects"
)

// A Due is how many messages are due between two times.
type Due struct {
	From     time.Time `json:"from"`
	To       time.Time `json:"to"` // not included
	Messages int       `json:"messages"`
	Overdue  int       `json:"overdue"` // of these, at least
}

const (
	// stale is how old counts may be: a controller writes them once a minute at least.
	stale = 2 * time.Minute
	// overdueAfter is how late a message may be that nobody needs to know of.
	overdueAfter = 5 * time.Second
)

// Stale reports whether a controller should have counted again since.
func (b Backend) Stale(now time.Time) bool { return b.Counted != nil && now.Sub(*b.Counted) > stale }

// Overdue returns how many messages should have been delivered for some seconds, at least, and when
// the first of them was due. n is nil if the queues do not tell.
func (b Backend) Overdue() (n *int, since time.Time) {
	if b.Due == nil {
		return nil, since
	}
	n = new(int)
	for _, d := range b.Due {
		if d.Overdue > 0 && (*n == 0 || d.From.Before(since)) {
			since = d.From
		}
		*n += d.Overdue
	}
	return n, since
}

// readCounts adds what the leader of slots has counted. Without that it is not known what waits.
func (r *Reader) readCounts(ctx context.Context, s *Status, p part, b *Backend) error {
	body, err := objects.Of(r.conn.Control(), p.name).Last(ctx, p.counts)
	if errors.Is(err, delayer.ErrUnavailable) || ctx.Err() != nil {
		return err
	}
	var read counts
	switch {
	case err == nil && body == nil:
		err = errors.New("no controller has counted it yet, or many look at once")
	case err == nil:
		read, err = readCounts(body)
	}
	if err == nil {
		b.count(read, s.Time)
	} else if *b.Waiting > 0 || *b.Controllers > 0 { // otherwise there is nothing to count
		s.unknown("how many messages wait in slots", err)
		b.Waiting = nil
	}
	return nil
}

// count takes over what a leader has counted. now is the broker's time.
func (b *Backend) count(c counts, now time.Time) {
	inSlots := 0
	for _, q := range b.Queues {
		if !q.Intake {
			inSlots += q.Messages
		}
	}
	if *b.Controllers == 0 {
		c = left(c, *b.Unread, inSlots)
		*b.Unread = max(0, *b.Unread-c.held.Bundles)
	}
	total := c.total()
	if !total.Exact {
		total.Messages += max(0, inSlots-c.bundles()) // those that are not counted have one each, or are marks
	}
	*b.Waiting = total.Messages + *b.Unread
	b.Changes, b.Inexact = total.Changes, !total.Exact
	if !c.at.IsZero() {
		b.Counted = &c.at
	}
	if *b.Controllers > 0 && b.Counted != nil && !b.Stale(now) && c.at.Before(now) {
		now = c.at // what was due since is delivered
	}
	b.Due = dueTimes(c, now)
}

// bundles is how many are in slots.
func (c counts) bundles() (n int) {
	for _, t := range c.turns {
		n += t.Bundles
	}
	return n
}

// left is what a controller that has ended leaves. All that it held has gone back to the queues. It
// may have delivered some of it after it counted, and then there are fewer bundles.
func left(c counts, inLog, inSlots int) counts {
	if inLog < c.held.Bundles { // the last one is for the next controller, and has no messages
		c.held.Bundles, c.held.Exact = inLog, false
		c.held.Messages = min(c.held.Messages, max(0, inLog-1))
	}
	if inSlots == 0 {
		c.turns = nil
	} else if inSlots < c.bundles() {
		c.held.Exact = false
	}
	return c
}

// dueTimes returns what is due when, in order.
func dueTimes(c counts, now time.Time) []Due {
	list := []Due{}
	turns := append([]turn{{now, now.Add(time.Millisecond), c.held}}, c.turns...)
	for _, t := range turns {
		if t.Messages == 0 {
			continue
		}
		d := Due{From: t.begin, To: t.end, Messages: t.Messages}
		if t.First != 0 {
			d.From, d.To = timeOf(t.First), timeOf(t.Last).Add(time.Millisecond)
		}
		switch over := now.Add(-overdueAfter); {
		case !d.To.After(over):
			d.Overdue = d.Messages
		case d.From.Before(over):
			d.Overdue = 1 // the first
		}
		list = append(list, d)
	}
	slices.SortStableFunc(list, func(a, b Due) int { return cmp.Or(a.From.Compare(b.From), a.To.Compare(b.To)) })
	return list
}

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
