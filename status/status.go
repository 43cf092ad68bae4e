// Package status tells what waits in the queues of a configuration, what could not be delivered, and
// who is at work. `delayer status` shows it.
//
//	r, err := status.Open(ctx, cfg, status.Options{})
//	…
//	defer r.Close()
//	s, err := r.Read(ctx)
//
// It takes no message and declares nothing. The numbers of messages and consumers come from the
// broker over AMQP, at once and exact. With an address in Management the API adds what AMQP does not
// show: what controllers hold, policies, parked messages, queues of other configurations. The API is
// up to five seconds behind. What is not known is nil, and Unknown says why.
package status

import "time"

// A Status is what one Read found.
type Status struct {
	Time   time.Time `json:"time"`
	Broker Broker    `json:"broker"`
	Prefix string    `json:"prefix"`
	// Waiting is how many messages wait in all backends; nil if that of one is not known.
	Waiting *int `json:"waiting"`
	// Backends are the configured one, first, and others that have declared their queues under this prefix.
	Backends []Backend `json:"backends"`
	// Misrouted messages ended before their destination; a Delayer sends them on.
	Misrouted *Queue `json:"misrouted"`
	// Unroutable messages had no destination when they were due; somebody must look at them.
	Unroutable *Queue `json:"unroutable"`
	// UnroutableDue is when the first message in that queue was due, by its publisher's clock; nil
	// if there is none, or if it is not known.
	UnroutableDue *time.Time `json:"unroutable_due"`
	// Parked are the queues of messages that package retry has given up; nil if not known.
	Parked []Queue `json:"parked"`
	// Others are queues under the prefix that no backend of this configuration has, with messages:
	// another configuration declared them. Nil if not known.
	Others []Queue `json:"others"`
	// Policies that would make messages early or lose them, one sentence each; nil if not known.
	Policies []string  `json:"policies"`
	Unknown  []Unknown `json:"unknown"`
}

// A Broker is where the numbers come from.
type Broker struct {
	Address string `json:"address"` // without credentials
	Version string `json:"version"` // such as 4.0.5
	Series  string `json:"series"`  // such as 4.0
}

// A Backend is one way of waiting under the prefix.
type Backend struct {
	Name       string `json:"name"`
	Configured bool   `json:"configured"` // it is the one that the configuration selects
	// Waiting is how many messages wait, without those that controllers hold; nil if not known.
	Waiting *int    `json:"waiting"`
	Queues  []Queue `json:"queues"` // in the order of the backend
	// Due is what waits by the time when it is due, without times for which nothing waits, the first
	// first; nil if the queues do not tell. The slots of backend controller do, by the broker's
	// clock, which is taken to show what this machine's shows. Those of two seconds are summed up to
	// minutes. A time that is over is that of one slot: what is in it is overdue. An hour may also be in
	// the list by its minutes, and so on: a message waits in the slot that was the right one when it was
	// published.
	Due []Due `json:"due"`
	// Missing are the queues that the configuration has and the broker has not, and the plugin's
	// exchange; of the configured backend only.
	Missing []string `json:"missing"`
	// Controllers is how many controllers are at work; nil for a backend that needs none.
	Controllers *int `json:"controllers"`
	// Held is how many messages the controllers hold; nil for a backend that needs none, or
	// if not known.
	Held *int `json:"held"`
	// Each is what the management API says of each controller; nil if not known.
	Each []Controller `json:"each"`
}

// A Queue holds messages.
type Queue struct {
	Name string `json:"queue"`
	// Wait is how long each message stays, in milliseconds; 0 if that is not the queue's to say.
	Wait      int64 `json:"wait_ms"`
	Messages  int   `json:"messages"` // that no consumer holds
	Consumers int   `json:"consumers"`
}

// A Controller is a process that consumes the intake.
type Controller struct {
	Connection string `json:"connection"` // as the broker lists it: from -> to
	User       string `json:"user"`
	Held       int    `json:"held"` // messages that it has taken and not published yet
}

// An Unknown is something that is not known.
type Unknown struct {
	What string `json:"what"`
	Why  string `json:"why"`
}
