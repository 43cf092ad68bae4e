package binaryladder_test

import (
	"fmt"
	"log"
	"time"

	"github.com/delayer-go/delayer/backend/binaryladder"
)

// The queues in which messages wait one after another.
func ExampleHops() {
	hops, err := binaryladder.Hops(binaryladder.Config{}, 45*time.Minute, 25*time.Hour, 36*time.Hour)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(hops)
	// Output: [[45m0s] [24h0m0s 1h0m0s] [24h0m0s 12h0m0s]]
}
