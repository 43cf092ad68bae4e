package plugin_test

import (
	"fmt"
	"log"

	"github.com/delayer-go/delayer/backend/plugin"
)

// What is given up with an exchange that exists already.
func ExampleLimits() {
	for _, cfg := range []plugin.Config{{}, {Exchange: "orders.delayed"}} {
		limits, err := plugin.Limits(cfg)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(limits.Max, limits.KeepsUnroutable)
	}
	// Output:
	// 1193h2m47.295s true
	// 1193h2m47.295s false
}
