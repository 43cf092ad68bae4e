// Package role has the values of [topology.Queue].Role: what a queue is for.
package role

// The roles.
const (
	Waiting    = ""           // delayed messages wait here
	Hidden     = "hidden"     // as Waiting, and AMQP does not count them
	Intake     = "intake"     // controllers consume it
	Candidates = "candidates" // stays empty: controllers consume it to be counted
	Misrouted  = "misrouted"  // a Delayer sends on what is here
	Unroutable = "unroutable" // keeps messages without a destination
	Discard    = "discard"    // drops its messages
	Clock      = "clock"      // dates what expires in it: nothing waits there
	Counts     = "counts"     // keeps what a controller has last counted: nothing waits there
)
