package bench_test

import (
	"context"
	"errors"
	"log"
	"os"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/bench"
)

// A configuration of one's own beside the baselines, on one's own broker.
func ExampleBenchmark() {
	ctx, url := context.Background(), "amqp://guest:guest@localhost:5672/"
	target, err := bench.Given(ctx, url, "in the example")
	if err != nil {
		log.Fatal(err)
	}
	config := func(env bench.Env) backend.Config {
		return backend.Config{Options: delayer.Options{URL: env.URL, Prefix: env.Prefix}, Backend: "controller"}
	}
	mine := bench.Subject{
		Backend: "controller", Variant: "mine", QueueType: "quorum",
		Open: func(ctx context.Context, env bench.Env) (delayer.Delayer, error) {
			return backend.Open(ctx, config(env))
		},
		Remove: func(ctx context.Context, env bench.Env) error {
			const withMessages = true
			return backend.Remove(ctx, config(env), withMessages)
		},
	}
	report, err := bench.Benchmark{
		Target: target, Subjects: append(bench.Baselines("quorum"), mine),
		Scenarios: []string{"accuracy"}, Messages: 1000, From: time.Second, To: 5 * time.Second,
	}.Run(ctx)
	if err != nil {
		log.Fatal(err)
	}
	page, err := os.Create("report.html")
	if err != nil {
		log.Fatal(err)
	}
	if err := errors.Join(report.WriteText(os.Stdout), report.WriteHTML(page), page.Close()); err != nil {
		log.Fatal(err)
	}
}
