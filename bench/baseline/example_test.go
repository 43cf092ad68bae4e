package baseline_test

import (
	"fmt"

	"github.com/delayer-go/delayer/bench/baseline"
)

func ExampleNames() {
	fmt.Println(baseline.Names())
	// Output: [per-message-ttl top-entry bit-entry undelayed]
}
