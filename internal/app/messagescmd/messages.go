// Package messagescmd looks after messages that were not delivered: delayer messages.
package messagescmd

// Command is `delayer messages`.
type Command struct {
	List   listCmd   `cmd:"" help:"Show the messages in a table, and why they are there."`
	Show   showCmd   `cmd:"" help:"Show one message whole: properties, headers, body, and each error to its end."`
	Retry  retryCmd  `cmd:"" help:"Send them: unroutable ones to their destinations, parked ones to their queue."`
	Export exportCmd `cmd:"" help:"Write a copy of them as JSON lines."`
	Purge  purgeCmd  `cmd:"" help:"Delete them."`
}

// Help says which messages these are.
func (c *Command) Help() string {
	return "Unroutable messages are those whose destination was gone when they were due. They are in the queues PREFIX.misrouted and PREFIX.unroutable, which are read if no QUEUE is given. " +
		"Parked messages are those that package retry has given up. They are in a QUEUE that is usually named after the consumer's, such as orders.parked. " +
		"A command takes messages out while it looks at them, and gives back in the old order what it does not remove."
}
