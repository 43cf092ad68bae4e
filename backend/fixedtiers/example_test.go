package fixedtiers_test

import (
	"fmt"
	"log"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/fixedtiers"
)

// With rounding exact no message waits longer than asked for: another delay is refused.
func ExampleLimits() {
	limits, err := fixedtiers.Limits(delayer.Options{}, fixedtiers.Config{
		Tiers:    []time.Duration{10 * time.Minute, 30 * time.Second},
		Rounding: fixedtiers.Exact,
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(limits.Tiers, limits.ExactTiers)
	// Output: [30s 10m0s] true
}
