package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/delayer-go/delayer/internal/lab/amqpclient"
)

// A Target is the RabbitMQ that a benchmark measures. [Given] describes one that runs already. A
// nil function is not known or cannot be done, as is one that returns an error; the report leaves
// out what would need it.
type Target struct {
	URL     string // AMQP, with user and password
	Product string // "RabbitMQ"
	Version string
	How     string // "private node", "container", …
	// Platform is what the broker says that it runs on, such as "Erlang/OTP 25.2.3".
	Platform string

	// CPU is the processor time used since the broker was started.
	CPU func() (time.Duration, error)
	// Memory is the resident memory of the broker's processes, in bytes.
	Memory func() (int64, error)
	// Disk is the space that the broker's data takes, in bytes.
	Disk func() (int64, error)

	// Restart is for a broker that nobody else uses, whose address and data stay. It returns when
	// the broker takes connections again.
	Restart func(ctx context.Context) error
}

// Given connects to the broker at url once, to see that it answers and what it is. how says where
// the URL came from. The error says what to do, and never contains the password.
func Given(ctx context.Context, url, how string) (Target, error) {
	conn, err := amqpclient.Dial(ctx, url, "bench")
	if err != nil {
		return Target{}, err
	}
	const timeout = 5 * time.Second // the broker may be gone
	defer func() { _ = conn.CloseDeadline(time.Now().Add(timeout)) }()
	said := func(key string) string {
		if text, ok := conn.Properties[key].(string); ok {
			return text
		}
		return fmt.Sprintf("(unknown %s)", key)
	}
	return Target{URL: url, Product: said("product"), Version: said("version"), How: how, Platform: said("platform")}, nil
}

// read returns what a function of the Target returns, or 0 where it is not known.
func read(known func() (int64, error)) int64 {
	if known == nil {
		return 0
	}
	bytes, err := known()
	if err != nil {
		return 0
	}
	return bytes
}
