package conformance_test

import (
	"context"
	"os"
	"testing"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/conformance"
	"github.com/delayer-go/delayer/conformance/rabbitworld"
)

// The body of a backend's TestConformance.
func ExampleRun() {
	var t *testing.T // the test's
	url := os.Getenv("AMQP_URL")
	worlds, err := rabbitworld.Open(t.Context(), rabbitworld.Config{URL: url, Unroutable: "mine.unroutable"})
	if err != nil {
		t.Fatal(err)
	}
	defer worlds.Close()
	conformance.Run(t, conformance.Harness{
		Open: func(ctx context.Context) (delayer.Delayer, error) { // your backend's
			return backend.Open(ctx, backend.Config{Options: delayer.Options{URL: url, Prefix: "mine"}})
		},
		World: worlds.World,
		User:  "guest",
	})
}
