package delayer

// An About says of a backend what its [Limits] cannot, for tables and reports.
type About struct {
	WaitsIn string   // where messages wait
	Needs   string   // what it needs beside RabbitMQ
	Adds    []string // the headers that a consumer sees beside [Header] and those of dead-lettering
	Deaths  bool     // the consumer sees the headers of dead-lettering (x-death and its kin)
}
