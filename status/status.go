// Package status reads what waits in the queues of a configuration, what could not be delivered,
// and which controllers are running. `delayer status` shows it.
//
//	r, err := status.Open(ctx, status.Config{Backend: cfg})
//	…
//	defer r.Close()
//	s, err := r.Read(ctx)
//
// It removes no message and declares nothing. The counts of messages and consumers come from the
// broker over AMQP, and are exact. With [delayer.Options].Management, the management API adds what
// AMQP does not show: policies, parked messages, queues of other configurations. The API lags by up to five seconds. A value that is not known is nil, and Unknown
// says why.
package status

import "time"

// A Status is what one Read found.
type Status struct {
	Time   time.Time `json:"time"`
	Broker Broker    `json:"broker"`
	Prefix string    `json:"prefix"`
	// Waiting is how many messages wait in all backends; nil if it is not known for one of them.
	// See Backend.Waiting.
	Waiting *int `json:"waiting"`
	// Backends are the configured one, first, and others whose queues exist under this prefix. One that
	// was not there is looked for again after an hour: the broker logs each such question as an error.
	Backends []Backend `json:"backends"`
	// Misrouted holds messages that did not reach their destination; a Delayer sends them on.
	Misrouted *Queue `json:"misrouted"`
	// Unroutable holds messages whose destination was gone when they were due; look at them.
	Unroutable *Queue `json:"unroutable"`
	// Parked are the queues of messages that package retry has parked; nil if not known.
	Parked []Queue `json:"parked"`
	// Entries are those of Config.Entries that exist, where Parked is not known.
	Entries []Queue `json:"entries,omitempty"`
	// Others are queues under the prefix that hold messages and belong to another configuration; nil
	// if not known.
	Others []Queue `json:"others"`
	// Policies has a sentence for each policy that would make messages early or lose them;
	// nil if not known.
	Policies []string `json:"policies"`
	// Bindings has a sentence for each binding on an exchange of delayer serve that gives messages
	// to somebody at once; nil if not known.
	Bindings []string  `json:"bindings"`
	Unknown  []Unknown `json:"unknown"`
}

// A Broker is the broker that was asked.
type Broker struct {
	Address string `json:"address"` // without credentials
	Version string `json:"version"` // such as 4.0.5
}

// A Backend is a backend and its queues.
type Backend struct {
	Name       string `json:"name"`
	Configured bool   `json:"configured"` // selected by the configuration
	// Waiting is how many messages wait, without those that controllers of rounds hold; nil if not
	// known. With slots of backend controller, whose queues hold bundles of messages, the controller
	// that leads counts them, and those that it holds too. Bundles that are Unread count as one
	// message each. It is exact then, but for Unread, Changes and Inexact.
	Waiting *int    `json:"waiting"`
	Queues  []Queue `json:"queues"` // in the order of the backend
	// Due is how many messages are due when, in order, counted as Waiting is, without Unread; nil if
	// not known. Each entry is a slot, with the times of its first and its last message. They are the
	// broker's; this machine's clock is assumed to agree. They may overlap. What the controller holds
	// and no slot has yet is due now: its times are not told, and within a second it is in a slot, or
	// it is due within seconds.
	Due []Due `json:"due"`
	// Counted is when the controller counted them, by the broker's clock; nil if not known.
	Counted *time.Time `json:"counted,omitempty"`
	// Unread is how many bundles no controller has read; nil but for slots. They have one message
	// each, or up to some hundred.
	Unread *int `json:"unread,omitempty"`
	// Changes are Cancels and Postpones whose messages are in slots: up to as many messages are
	// dropped when their slot is read, or due later.
	Changes int `json:"changes,omitempty"`
	// Inexact says that Waiting is about right: a controller has ended before it had counted all.
	Inexact bool `json:"inexact,omitempty"`
	// Missing are the queues, the plugin's exchange or the feature flag that the configured backend
	// needs and the broker does not have.
	Missing []string `json:"missing"`
	// Controllers is how many controllers are running; nil for a backend that needs none.
	Controllers *int `json:"controllers"`
}

// A Queue holds messages.
type Queue struct {
	Name string `json:"queue"`
	// Wait is how long each message stays, in milliseconds; 0 if the queue does not determine that.
	Wait      int64 `json:"wait_ms"`
	Messages  int   `json:"messages"` // not counting those that consumers hold; bundles where Backend.Unread is there
	Consumers int   `json:"consumers"`
	// Hidden says that AMQP does not count the messages, and the management API, which lags by up to
	// twelve seconds, has not either: Messages is not known.
	Hidden bool `json:"hidden,omitempty"`
	// Intake is the queue that controllers consume: from there messages go to another one, or to a
	// controller's memory, at once.
	Intake bool `json:"intake,omitempty"`
}

// An Unknown is a value that could not be read, and why.
type Unknown struct {
	What string `json:"what"`
	Why  string `json:"why"`
}
