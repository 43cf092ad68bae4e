package bench

// Findings are what only some scenarios ask for. A field that a scenario did not measure is left
// out.
type Findings struct {
	// BodyBytes is the size of each message's body.
	BodyBytes int `json:"body_bytes,omitempty"`

	// DrainMS is how long after all were due the last message of a burst arrived.
	DrainMS float64 `json:"drain_ms,omitempty"`

	// Waiting is how many messages were waiting when memory and disk were read.
	Waiting int `json:"waiting,omitempty"`
	// MemoryPerMessage is by how many bytes the broker's memory grew for each message that waits.
	MemoryPerMessage float64 `json:"broker_memory_bytes_per_msg,omitempty"`
	// DiskPerMessage is by how many bytes the broker's data folder grew for each message that
	// waits.
	DiskPerMessage float64 `json:"broker_disk_bytes_per_msg,omitempty"`

	// ByHops are the costs of delays with different numbers of set bits.
	ByHops []HopCost `json:"by_hops,omitempty"`

	// DownMS is how long after it was stopped or killed the broker took connections again, and
	// ServesMS how long until it confirmed a message to the subject's first queue.
	DownMS   float64 `json:"down_ms,omitempty"`
	ServesMS float64 `json:"serves_ms,omitempty"`

	// Outage says that the broker was killed or restarted during the run: then a message may arrive
	// twice.
	Outage bool `json:"outage,omitempty"`
	// LossDeclared says that the subject does not claim to survive what was done to the broker:
	// what is lost does not fail the run.
	LossDeclared bool `json:"loss_declared,omitempty"`
	// Kept is how many of the published messages were unroutable while the broker started, and are
	// in the queue for unroutable messages. They are not Lost.
	Kept int `json:"kept_unroutable,omitempty"`

	// Distribution is the lateness at fixed percentiles, for pictures.
	Distribution []Quantile `json:"distribution,omitempty"`
	// Points are some of the messages, evenly chosen, in publishing order, for pictures.
	Points []Point `json:"points,omitempty"`
}

// A HopCost is what delays of one number of hops cost.
type HopCost struct {
	Hops      int      `json:"hops"` // set bits of the delay in the smallest unit: hops of a ladder with one bit a level
	DelayMS   float64  `json:"delay_ms"`
	BrokerCPU float64  `json:"broker_cpu_us_per_msg,omitempty"`
	Lateness  Lateness `json:"lateness_ms"`
}

// A Quantile is a percentile of the lateness.
type Quantile struct {
	Percent float64 `json:"percent"`
	MS      float64 `json:"ms"`
}

// A Point is one message, in milliseconds from the first publish.
type Point struct {
	DueMS     float64 `json:"due_ms"`
	ArrivedMS float64 `json:"arrived_ms"`
}
