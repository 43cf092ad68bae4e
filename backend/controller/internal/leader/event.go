package leader

import (
	"time"

	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/bundle"
)

// Now is a moment, by the clock of this process and what is known of the broker's.
type Now struct {
	Mono  time.Duration
	Clock brokertime.Reading
	Known bool
}

// An Event is something that has happened: one of the types below.
type Event any

type (
	// Tick is that time has passed. It is always allowed.
	Tick struct{}

	// Delivered is a bundle that came out of a queue. Bundle is nil if it could not be read, for
	// Err.
	Delivered struct {
		Queue  Queue
		Tag    uint64
		Again  bool // it has been delivered before
		Bundle *bundle.Bundle
		Err    error
		Raw    any  // what cannot be read, as it came: Deliver gives it back
		Own    bool // this process wrote it: the clock of its Own times is that of Now.Mono

		came time.Duration // by Now.Mono; Step sets it
	}

	// Written answers a Write.
	Written struct {
		ID     uint64
		Stored bool // otherwise it is not, or may be
	}

	// Sent answers a Deliver.
	Sent struct {
		Item   *Item
		Stored bool
	}

	// Kept answers a Snapshot: it is stored, or is not.
	Kept struct{}

	// Recalled answers a Recall.
	Recalled struct {
		Counts  *bundle.Counts // of the last Snapshot; nil: there is none, or it cannot be read
		Bundles map[Queue]int  // how many are in a slot now, where that is known
	}

	// Released answers a Release: the consumer is gone, and what was acknowledged before is stored.
	Released struct{ Queue Queue }
)

// An Effect is something to be done: one of the types below. The shell does them in their order.
// What is asked of a shell that has lost the log is not done.
type Effect any

type (
	// Consume consumes a slot, with so many bundles unacknowledged at most. The log is consumed
	// from the beginning.
	Consume struct {
		Queue    Queue
		Prefetch int
	}

	// Release ends that, once all acknowledgements are stored. What is not acknowledged goes back.
	Release struct{ Queue Queue }

	// Ack acknowledges a bundle, or all of the queue's up to this one.
	Ack struct {
		Queue    Queue
		Tag      uint64
		Multiple bool
	}

	// Write publishes a bundle to the log or to a slot, on the channel that consumes the log. The first
	// time in a tenure that it is to a slot, a mark of nobody goes before: the slot must answer.
	Write struct {
		ID     uint64 // also the number of the bundle
		To     Queue
		Bundle *bundle.Bundle
	}

	// Deliver publishes a message to its destination, and what is not ours to the unroutable queue,
	// as it came: Item.Raw.
	Deliver struct{ Item *Item }

	// Snapshot publishes what is known of what waits, in place of the last one, on the channel that
	// consumes the log. It is for the next leader, and for everybody who wants to know. There is no
	// other before it is answered.
	Snapshot struct{ Counts *bundle.Counts }

	// Recall asks for the last one: this process begins to lead. What it gets must have been read
	// after the first bundle of the log was delivered. It goes on without it after a while.
	Recall struct{}

	// Surrender ends the tenure: the connection is closed.
	Surrender struct{ Why string }
)
