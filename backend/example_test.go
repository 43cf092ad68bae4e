package backend_test

import (
	"fmt"
	"log"
	"strings"

	"github.com/delayer-go/delayer/backend"
)

// A configuration that an environment variable overrides, and what its backend can do. No broker is
// asked.
func ExampleParse() {
	cfg, err := backend.Parse(strings.NewReader(`
url: amqp://guest:guest@localhost:5672/
backend: fixedtiers
fixedtiers:
  tiers: [10s, 1m]
`))
	if err != nil {
		log.Fatal(err)
	}
	cfg, err = backend.FromEnv(cfg, []string{"DELAYER_FIXEDTIERS_TIERS=10s,1m,1h"})
	if err != nil {
		log.Fatal(err)
	}
	limits, err := backend.Limits(cfg)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(cfg.Backend, limits.Tiers, limits.Max)
	// Output: fixedtiers [10s 1m0s 1h0m0s] 1h0m0s
}
