package delayer

import "time"

// Limits describes what a Delayer can do, as it was opened. The conformance suite holds a backend to it.
type Limits struct {
	// Max is the longest delay that Publish takes; a longer one is refused with [ErrOutOfRange].
	Max time.Duration

	// Resolution is the step between two delays that can be told apart. A delay in between is rounded
	// up, never down.
	Resolution time.Duration

	// Tiers lists, ascending, the only delays there are; nil means every multiple of Resolution.
	// A delay in between is rounded up to the next tier, or refused where ExactTiers says so.
	Tiers []time.Duration

	// ExactTiers says that a delay that is not one of Tiers is refused with [ErrOutOfRange].
	ExactTiers bool

	// SurvivesRestart says that confirmed messages are still there, and on time or late, after the broker
	// was stopped and started again.
	SurvivesRestart bool

	// SurvivesCrash says the same of a broker that was killed (SIGKILL, power loss) at any moment, also
	// while a message moves from one waiting queue to the next.
	SurvivesCrash bool

	// Replicated says that messages wait in replicated queues, so that the loss of a minority of a
	// cluster's nodes loses none.
	Replicated bool

	// Ordered says that two messages with the same delay to the same destination, published one after
	// the other by one goroutine, arrive in that order unless the broker fails in between.
	Ordered bool

	// ReportsUnroutable says that Publish returns [ErrUnroutable] for an exchange or queue that does not
	// exist at that time, give or take a tenth of a second.
	ReportsUnroutable bool

	// KeepsUnroutable says that a message whose destination is gone when it is due is kept in the queue
	// for unroutable messages, where it holds up no other.
	KeepsUnroutable bool

	// ExactTopics says that a topic exchange at the destination routes a delayed message by the user's keys
	// alone. Where it is false, a binding of wildcards alone that demands a number of words, such as
	// "*.*.#", may match keys of the backend's own, and its queue then gets the message as well. (With an
	// empty routing key, which has no words to imitate, such a binding may match in any case.)
	ExactTopics bool

	// MaxPriority is the highest message priority that Publish takes; a higher one is refused with
	// [ErrInvalid]. It is below 9 where the broker would let messages of a high priority hold up others
	// (quorum queues of RabbitMQ 4.0 to 4.2).
	MaxPriority uint8
}
