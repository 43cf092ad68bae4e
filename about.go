package delayer

// An About describes a backend for tables and reports, where its [Limits] do not.
type About struct {
	Adds   []string // the headers that a consumer sees beside [Header] and those of dead-lettering
	Deaths bool     // the consumer sees the headers of dead-lettering: x-death and others

	// InExchange: messages wait in an exchange, so [Options].QueueType makes no difference to them,
	// and AMQP does not count them.
	InExchange bool
}
