package bench_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/bench"
)

// How late a configuration of one's own is, on one's own broker.
func ExampleBenchmark() {
	ctx, url := context.Background(), "amqp://guest:guest@localhost:5672/"
	target, err := bench.Given(ctx, url, "in the example")
	if err != nil {
		log.Fatal(err)
	}
	report := bench.Benchmark{
		URL: url, Target: target,
		Scenarios: []bench.Scenario{bench.Accuracy{
			Load: bench.Load{Messages: 1000}, DelayMin: time.Second, DelayMax: 5 * time.Second,
		}},
		Subjects: []bench.Subject{{
			Backend: "controller", Variant: "mine", QueueType: "quorum",
			Open: func(ctx context.Context, env bench.Env) (delayer.Delayer, error) {
				return backend.Open(ctx, backend.Config{
					Options: delayer.Options{URL: env.URL, Prefix: env.Prefix}, Backend: "controller",
				})
			},
		}},
	}.Run(ctx)
	for _, run := range report.Runs {
		fmt.Println(run.Lateness.P99, "ms")
	}
}

// A report that was written before.
func ExampleReadReport() {
	f, err := os.Open("../docs/results/3.10/report.json")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	report, err := bench.ReadReport(f)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Broker.Product, report.Partial)
	// Output: RabbitMQ false
}
