package conformance

import "github.com/delayer-go/delayer"

// A Case is one requirement on a Delayer.
type Case struct {
	// Name is the name of the case's subtest.
	Name string
	// Sentence states the requirement. Every failure begins with it.
	Sentence string
}

type testCase struct {
	Case
	check func(*trial)
	own   bool // it closes its Delayer, so it has one of its own
	alone bool // it disturbs others, so it runs after them, by itself, with a Delayer of its own
}

// cases holds the whole suite, in the order in which it runs and is documented.
var cases = []testCase{
	{Case: Case{"arrives", "a message published to an exchange must reach the queue bound there, once"}, check: arrives},
	{Case: Case{"arrives-by-queue-name", "a message published to the default exchange must reach the queue that its key names, once"}, check: arrivesByName},
	{Case: Case{"never-early", "no message may arrive before its publish time plus its delay, and none may be missing"}, check: neverEarly},
	{Case: Case{"due-header", "a delayed message must carry the header " + delayer.Header + " with an id of its own, its due time, its delay and its exchange"}, check: dueHeader},

	{Case: Case{"properties", "every property must arrive as it was published"}, check: properties},
	{Case: Case{"header-types", "headers of every AMQP type must arrive as they were published"}, check: headerTypes},
	{Case: Case{"bodies", "a body must arrive byte for byte, empty or large"}, check: bodies},
	{Case: Case{"exchange-kinds", "a message must be routed as its exchange routes, whatever kind that is"}, check: exchangeKinds},

	{Case: Case{"no-head-of-line-blocking", "a message with a long delay must not block those with a short one behind it"}, check: headOfLine},
	{Case: Case{"priorities-do-not-block", "messages of different priority must not block one another"}, check: priorities},
	{Case: Case{"same-delay-keeps-order", "messages with the same delay from one publisher must arrive in the order of publishing"}, check: keepsOrder},
	{Case: Case{"rounding-up", "a delay between two multiples of the resolution must be rounded up, never down"}, check: roundingUp},
	{Case: Case{"long-delays-wait", "a message with a delay of hours or years must be taken, wait, and hold up none with a shorter delay"}, check: longWaits},
	{Case: Case{"exact-tiers", "a delay that is no tier must be refused where only the tiers exist"}, check: exactTiers},

	{Case: Case{"zero-delay", "a message without delay must arrive at once, by the same rules"}, check: zeroDelay},
	{Case: Case{"beyond-maximum", "a delay beyond Limits().Max must be refused, never shortened, and nothing may be delivered"}, check: beyondMaximum},
	{Case: Case{"negative-delay", "a negative delay must be refused, and nothing may be delivered"}, check: negativeDelay},

	{Case: Case{"unknown-destination", "an exchange or queue that does not exist must be reported, and the Delayer must go on"}, check: unknownDestination},
	{Case: Case{"destination-deleted-while-waiting", "messages whose queue was deleted must be kept as unroutable, and must not block others"}, check: deletedWhileWaiting},
	{Case: Case{"exchange-deleted-while-waiting", "messages whose exchange was deleted must be kept as unroutable, and must not block others"}, check: exchangeDeletedWhileWaiting},
	{Case: Case{"binding-gone-while-waiting", "messages that their exchange cannot route any more must not block others"}, check: bindingGone},
	{Case: Case{"destination-created-again", "a destination that was deleted and created again must work as before"}, check: createdAgain},
	{Case: Case{"destination-comes-and-goes", "Publish must notice a destination that was deleted, and one that was created"}, check: comesAndGoes},

	{Case: Case{"refused-by-one-queue", "a message that one queue refuses and another takes must not be called safe to publish again"}, check: refusedByOne},

	{Case: Case{"destination-stuck", "a destination that confirms nothing must cost nobody else, also if it gets the first message of a Delayer"}, check: stuck, own: true},
	{Case: Case{"batch-destination-stuck", "a destination that confirms nothing must hold up no other message of a batch"}, check: batchStuck, own: true},

	{Case: Case{"odd-routing-keys", "a routing key must stay the user's own, also where it looks like one of a backend's"}, check: oddKeys},
	{Case: Case{"odd-names", "a queue or exchange may be called anything, also what looks like a backend's key"}, check: oddNames},
	{Case: Case{"topic-bindings", "a topic exchange must route a delayed message to the queues that a plain one reaches, and no others"}, check: topicBindings},
	{Case: Case{"similar-queue-names", "a queue whose name is part of another's must get its own messages and no others"}, check: similarNames},
	{Case: Case{"cc-and-bcc", "the user's CC and BCC must be honoured at an exchange as in a plain publish, once each"}, check: ccAndBCC},
	{Case: Case{"cc-and-bcc-by-queue-name", "the user's CC and BCC must be honoured at the default exchange as in a plain publish, once each"}, check: ccAndBCCByName},

	{Case: Case{"delayed-again", "a received message, published again with all its headers, must be delayed and arrive as the first time"}, check: delayedAgain},

	{Case: Case{"invalid-messages", "a message that cannot be published must be refused before the wire, and disturb no other"}, check: invalidMessages},
	{Case: Case{"message-untouched", "Publish must neither change the caller's message nor use it after it returned"}, check: untouched},

	{Case: Case{"concurrency", "many goroutines sharing a Delayer must each have their messages delivered, once"}, check: concurrency},
	{Case: Case{"two-delayers", "two Delayers with the same configuration must share the broker, and each deliver its own"}, check: twoDelayers},
	{Case: Case{"ctx-ended-before", "Publish with a ctx that has ended must say so, and store nothing"}, check: ctxEndedBefore},
	{Case: Case{"ctx-ended-during", "Publish must return when its ctx ends, and say truly whether the message may be stored"}, check: ctxEndedDuring},

	{Case: Case{"batch", "messages that are published together must each arrive, be refused and keep their order as if published one by one"}, check: batch},
	{Case: Case{"batch-ctx-ended", "PublishBatch must return when its ctx ends, and say truly of each message whether it may be stored"}, check: batchCtxEnded},

	{Case: Case{"unsupported", "Schedule, Ticket, Cancel and Postpone must match errors.ErrUnsupported, and send nothing, if and only if Limits.CancelBefore is 0; PublishBatch must refuse an ID and a Due"}, check: unsupported},
	{Case: Case{"cancel", "a message must not arrive if its Cancel has returned nil, and no other may be missing for it"}, check: ticketed(cancels)},
	{Case: Case{"cancel-too-late", "a message that cannot be held back for certain must arrive, and its Cancel must return ErrTooLate"}, check: ticketed(cancelTooLate)},
	{Case: Case{"postpone", "a message that was postponed must arrive once, not before its new time, and not at all if it is then cancelled in time by any of its tickets"}, check: ticketed(postpones)},
	{Case: Case{"postpone-earlier", "Postpone to an earlier time must return ErrOutOfRange, and change nothing"}, check: ticketed(postponesEarlier)},
	{Case: Case{"postpone-older-ticket", "with an older ticket whose time is over, Cancel and Postpone must return ErrTooLate and change nothing, though the message is due later"}, check: ticketed(olderTicket)},
	{Case: Case{"postpone-one-ticket-twice", "a message that was postponed several times by one ticket must arrive at the latest of these times, and each ticket returned must cancel it"}, check: ticketed(oneTicketTwice)},
	{Case: Case{"postpone-cancelled", "Postpone of a cancelled message must return nil, and the message must not arrive"}, check: ticketed(postponesCancelled)},
	{Case: Case{"debounce", "a message may be postponed a thousand times, and must arrive once, at the last time"}, check: ticketed(debounces)},
	{Case: Case{"tickets", "a text that is no ticket must be refused with ErrTicket, and change nothing"}, check: ticketed(tickets)},

	{Case: Case{"ids", "what is scheduled several times with the same ID and due time must arrive once, and not before that time, and Ticket must name it"}, check: ticketed(identified)},
	{Case: Case{"ids-refused", "an ID or a Due that cannot be must be refused with ErrInvalid, and nothing may arrive"}, check: ticketed(idsRefused)},

	{Case: Case{"closed", "after Close, Publish must say so, and Close again must do nothing"}, check: closed},
	{Case: Case{"waiting-survives-close", "messages that wait when their Delayer is closed must still be delivered"}, check: survivesClose, own: true},
	{Case: Case{"closed-while-publishing", "Close must let what is being published end, and Publish say truly what became of it"}, check: closedWhilePublishing},
	{Case: Case{"no-goroutine-left", "no goroutine of a Delayer may be left after Close"}, check: noGoroutineLeft},

	{Case: Case{"long-delays-arrive", "a message with a delay of hours or years must arrive, once, when the broker's clock has come so far, and not before"}, check: longArrives, alone: true},
	{Case: Case{"connection-cut", "when connections die while publishing, every nil must be delivered, every error be true, and publishing work again"}, check: connectionCut, alone: true},
	{Case: Case{"own-exchange-deleted", "when an exchange of the Delayer's own is deleted, messages that wait must arrive, or be kept as unroutable, and publishing must work again"}, check: ownExchangeDeleted, alone: true},
	{Case: Case{"broker-restart", "messages that wait while the broker restarts must all arrive, or be kept as unroutable, none early, and publishing must work again"}, check: brokerRestart, alone: true},
}

// Cases returns the suite's cases in order, for documentation.
func Cases() []Case {
	var list []Case
	for _, c := range cases {
		list = append(list, c.Case)
	}
	return list
}
