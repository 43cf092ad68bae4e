package report_test

import (
	"fmt"
	"log"
	"strings"

	"github.com/delayer-go/delayer/bench"
	"github.com/delayer-go/delayer/bench/report"
)

// The format of benchstat, from a report.json or from [bench.Benchmark].
func ExampleWriteBenchfmt() {
	var text strings.Builder
	err := report.WriteBenchfmt(&text, &bench.Report{
		Broker: bench.BrokerInfo{Product: "RabbitMQ", Version: "4.3.0"},
		Runs: []bench.Run{{
			Scenario: "accuracy", Backend: "controller", QueueType: "quorum", Repetition: 1, Messages: 2,
			Counts: bench.Counts{Published: 2, Delivered: 2}, Lateness: bench.Lateness{P50: 1, P99: 2, Max: 2},
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	for line := range strings.Lines(text.String()) {
		if strings.HasPrefix(line, "Benchmark") {
			fmt.Println(strings.Fields(line)[0])
		}
	}
	// Output: BenchmarkAccuracy/subject=controller/queues=quorum/messages=2
}
