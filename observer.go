package delayer

import (
	"context"
	"time"
)

// An Observer is told what a Delayer or a consumer of package retry does, for metrics and logs. A
// function that is nil is not called, and the zero Observer costs nothing. Package metrics fills
// them all in for Prometheus.
//
// The functions are called by the goroutines that do the work, several at a time, and some of them
// under a lock. They must not block and must not call the Delayer: one that has more to do hands a
// copy to a goroutine of its own. Fields may be added to the events.
type Observer struct {
	// Published is called when a Publish ends, whatever its outcome, with the ctx of that call.
	Published func(ctx context.Context, e PublishEvent)

	// Connection is called when a connection is made, lost, blocked by an alarm of the broker, or
	// closed. The events of one connection come in their order.
	Connection func(ConnectionEvent)

	// Deleted is called when exchanges or queues of the Delayer are found missing.
	Deleted func(DeletedEvent)

	// Redeclared is called when the topology was declared again, as after a lost connection, when
	// that failed, and when an object is found to have other arguments.
	Redeclared func(RedeclareEvent)

	// Misrouted is called when a message that ended before its destination was moved on. One
	// process of a prefix moves them for all.
	Misrouted func(MisroutedEvent)

	// Proved is called when backend native has tried to prove that a connection's broker hides
	// messages until they are due: before the first message, and about every ten seconds.
	Proved func(ProofEvent)

	// Held is called when a message comes into the memory of a controller, or leaves it.
	Held func(HeldEvent)

	// Round is called when a controller of rounds has sent a message to another waiting queue.
	Round func(RoundEvent)

	// Delivered is called when a controller has tried to send a message that is due.
	Delivered func(DeliveryEvent)

	// Handled is called by package retry, not by a Delayer: when a handler has run and it is
	// settled what becomes of its message.
	Handled func(HandledEvent)

	// Parked is called by package retry, with what its queue of parked messages holds: at the
	// start, and every 30 s.
	Parked func(ParkedEvent)
}

// A PublishEvent is one call of [Delayer].Publish.
type PublishEvent struct {
	Backend       string
	Exchange, Key string
	Delay         time.Duration // as it was asked for
	Took          time.Duration // from the call to its return; with a nil Err, to the broker's confirm
	Err           error         // what Publish returns
}

// ConnectionState is the state of a connection.
type ConnectionState uint8

const (
	// ConnectionClosed is the state before the first connection, and after Close.
	ConnectionClosed ConnectionState = iota
	// ConnectionUp can be used.
	ConnectionUp
	// ConnectionBlocked publishes nothing while the broker is short of memory or disk.
	ConnectionBlocked
	// ConnectionDown is lost, and made again as soon as the broker answers.
	ConnectionDown
)

// A ConnectionEvent is a change of a connection's state.
type ConnectionEvent struct {
	Backend  string
	Name     string // as the broker lists it
	Was, Now ConnectionState
	Err      error // why it was lost, where Now is ConnectionDown
}

// A DeletedEvent names objects that somebody has deleted. Messages that waited in such a queue are
// lost.
type DeletedEvent struct {
	Backend string
	Objects []string // must not be changed
}

// A RedeclareEvent is one attempt to declare the topology again.
type RedeclareEvent struct {
	Backend string
	Err     error // nil: everything is there
}

// Outcome is what became of a misrouted message.
type Outcome uint8

const (
	// SentOn went to its destination, because it was due.
	SentOn Outcome = iota
	// SentBack waits for what remained of its delay.
	SentBack
	// KeptUnroutable is in the queue for unroutable messages.
	KeptUnroutable
)

// A MisroutedEvent is a misrouted message that was moved.
type MisroutedEvent struct {
	Backend       string
	Exchange, Key string
	Outcome       Outcome
}

// A ProofEvent is one attempt to prove that the broker hides messages.
type ProofEvent struct {
	Backend string
	Err     error // nil: it does; otherwise nothing with a delay is published to that connection
}

// A HeldEvent changes how much a controller has in memory.
type HeldEvent struct {
	Backend  string
	Messages int // by so many messages; negative when they leave
	Bytes    int // and so many bytes: of bodies, or with slots of whole messages
}

// A RoundEvent is a message that a controller of rounds has sent to another waiting queue.
type RoundEvent struct {
	Backend string
	Wait    time.Duration // how long messages wait in that queue
}

// A DeliveryEvent is one attempt of a controller to send a message that is due on.
type DeliveryEvent struct {
	Backend       string
	Exchange, Key string
	// Lateness is the time since the message was due by its [Header]: by this machine's clock and
	// that of the publisher, which may differ.
	Lateness time.Duration
	Err      error // nil: the broker has confirmed it
	// Dropped: the broker has confirmed it, and its exchange had no queue for it.
	Dropped bool
}

// Handling is what became of a message that a handler of package retry was given.
type Handling uint8

const (
	// Succeeded is acknowledged: the handler returned nil.
	Succeeded Handling = iota
	// Retried comes again after a wait.
	Retried
	// Parked was given up, and is in the queue for parked messages.
	Parked
	// GivenBack goes back to its queue, and comes again as the same attempt: the consumer was
	// stopped, its connection lost, or neither the retry nor the parked message was confirmed.
	GivenBack
)

// A HandledEvent is one run of a handler of package retry.
type HandledEvent struct {
	Queue   string
	Attempt int           // from 1
	Began   time.Time     // when the handler was called
	Took    time.Duration // until it returned
	Outcome Handling
	Err     error // of the handler
	// Due is when the message was due by its [Header]: for the first time, or as a retry. It is
	// zero if no Delayer has published it.
	Due time.Time
}

// A ParkedEvent is how many messages a queue for parked messages holds.
type ParkedEvent struct {
	Queue    string // that the messages were consumed from
	Messages int
}
