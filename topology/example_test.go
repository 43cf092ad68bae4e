package topology_test

import (
	"fmt"
	"log"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
)

// The queues in which messages wait, of a configuration.
func Example() {
	plan, err := backend.Topology(backend.Config{Options: delayer.Options{Prefix: "billing"}, Backend: "fixedtiers"})
	if err != nil {
		log.Fatal(err)
	}
	for _, q := range plan.Queues {
		if q.Role == "" && !q.Optional {
			fmt.Println(q.Name, q.Args["x-message-ttl"])
		}
	}
	// Output:
	// billing.delay.1m.queue 60001
	// billing.delay.5m.queue 300001
	// billing.delay.15m.queue 900001
}
