package delayer

import "time"

// Limits describe what a Delayer can do, as it was opened. The conformance suite holds it to them.
type Limits struct {
	// Max is the longest delay. A longer one is refused with [ErrOutOfRange].
	Max time.Duration

	// Resolution is the step between two delays. A delay in between is rounded up, never down.
	Resolution time.Duration

	// Tiers lists the only delays, in ascending order. Nil means every multiple of Resolution. A
	// delay in between is rounded up to the next tier, unless ExactTiers is set.
	Tiers []time.Duration

	// ExactTiers means that a delay that is not one of Tiers is refused with [ErrOutOfRange].
	ExactTiers bool

	// SurvivesRestart means that confirmed messages are still there after the broker was stopped
	// and started again. They arrive on time or late.
	SurvivesRestart bool

	// SurvivesCrash means the same for a broker that was killed (SIGKILL, power loss) at any
	// moment, also while a message moves from one waiting queue to the next.
	SurvivesCrash bool

	// Replicated means that messages wait in replicated queues. The loss of a minority of a
	// cluster's nodes loses no message.
	Replicated bool

	// Ordered means that two messages with the same delay and destination arrive in the order in
	// which one goroutine published them, unless the broker or a controller fails in between. The
	// comment of package controller has more exceptions.
	Ordered bool

	// ExactTopics means that a topic exchange at the destination routes a delayed message by the
	// user's keys alone. If it is false, a binding that consists of wildcards and demands a number
	// of words, such as "*.*.#", may also match keys of the backend's, and its queue then gets the
	// message as well. With an empty routing key such a binding may match in any case.
	ExactTopics bool

	// MaxPriority is the highest message priority. A higher one is refused with [ErrInvalid]. It is
	// below 9 where messages of a high priority could block others: in quorum queues of RabbitMQ
	// 4.0 to 4.2, with a TTL. It is that of the broker to which the Delayer was opened: open it
	// again after an upgrade to one of these.
	MaxPriority uint8

	// CancelBefore is how long before it is due by its ticket, at the latest, a message can be
	// cancelled or postponed. 0: Schedule, Ticket, Cancel and Postpone return an error that matches
	// [errors.ErrUnsupported].
	CancelBefore time.Duration
}
