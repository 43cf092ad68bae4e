package controller

import (
	"errors"
	"slices"
	"time"

	"github.com/delayer-go/delayer/backend/controller/internal/bundle"
	"github.com/delayer-go/delayer/backend/controller/internal/leader"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
)

// Counts tell what waits with [Slots], whose queues hold bundles of messages. The controller that
// leads writes them to a queue that keeps the last ones, within a second of a change.
type Counts struct {
	At    time.Time // when they were right, by the broker's clock; zero: the controller did not know
	Held  Count     // what the controller had read, and no slot had yet
	Turns []Turn    // what slots held, in the order of their times
}

// A Turn is the time for which a slot serves: from Begin, before End.
type Turn struct {
	Begin, End time.Time
	Count
	// First and Last are the due times of the first and of the last message; zero: not known, or
	// there is none.
	First, Last time.Time
}

// A Count is how much is in some bundles.
type Count struct {
	Bundles  int
	Messages int // that are not delivered yet
	// Changes are Cancels and Postpones whose messages no controller has met yet: up to as many of
	// Messages will be dropped, or are due later.
	Changes int
	// Exact: otherwise Messages is about right. A controller was lost while it wrote to the slot.
	Exact bool
}

// ReadCounts reads the body of the message in that queue, whose role is [topology.Counts]. It asks
// no broker. An error says why the body cannot be read.
func ReadCounts(body []byte) (Counts, error) {
	read, err := bundle.ReadCounts(body)
	if err != nil {
		return Counts{}, err
	}
	counts, rings := Counts{At: timeOf(read.At), Held: countOf(read.Held)}, leader.Default()
	for _, t := range read.Turns {
		const mostTurns = 1 << 34 // beyond all times, and before an overflow
		if t.Turn.Level < 0 || t.Turn.Level >= len(rings) || t.Turn.Number < 0 || t.Turn.Number > mostTurns {
			return Counts{}, errors.New("it tells of slots that this version does not have")
		}
		width := rings[t.Turn.Level].Width
		begin := time.UnixMilli(t.Turn.Number * width.Milliseconds()).UTC()
		counts.Turns = append(counts.Turns, Turn{
			Begin: begin, End: begin.Add(width), Count: countOf(t.Count), First: timeOf(t.First), Last: timeOf(t.Last),
		})
	}
	slices.SortStableFunc(counts.Turns, func(a, b Turn) int { return a.Begin.Compare(b.Begin) })
	return counts, nil
}

func countOf(c bundle.Count) Count {
	return Count{Bundles: c.Bundles, Messages: c.Messages, Changes: c.Changes, Exact: c.Exact}
}

func timeOf(d brokertime.Due) time.Time {
	if d == 0 {
		return time.Time{}
	}
	return d.Time().UTC()
}

// Total is the sum of all.
func (c Counts) Total() Count {
	sum := c.Held
	for _, t := range c.Turns {
		sum.Bundles += t.Bundles
		sum.Messages += t.Messages
		sum.Changes += t.Changes
		sum.Exact = sum.Exact && t.Exact
	}
	return sum
}

// BundleType is the content type of the bundles in which messages wait with [Slots].
const BundleType = bundle.ContentType

// ReadBundle reads the body of an AMQP message of that type, for whoever looks at what waits, or
// could not be read: how many messages it has, and whether it was written to a slot, otherwise to
// the log. A bundle without messages has Cancels or Postpones, or only what controllers need. The
// error says why it cannot be read.
func ReadBundle(body []byte) (messages int, inSlot bool, err error) {
	read, err := bundle.Read(body)
	if err != nil {
		return 0, false, err
	}
	for i := range read.Records {
		if read.Records[i].Kind == bundle.Message {
			messages++
		}
	}
	return messages, read.InSlot, nil
}
