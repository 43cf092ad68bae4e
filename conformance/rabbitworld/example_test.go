package rabbitworld_test

import (
	"context"
	"log"
	"os/exec"

	"github.com/delayer-go/delayer/conformance/rabbitworld"
)

// A broker that the suite may disturb, because the test can run rabbitmqctl.
func ExampleOpen() {
	worlds, err := rabbitworld.Open(context.Background(), rabbitworld.Config{
		URL:        "amqp://guest:guest@localhost:5672/",
		Unroutable: "mine.unroutable",
		Cut: func(ctx context.Context) error {
			return exec.CommandContext(ctx, "rabbitmqctl", "close_all_connections", "conformance").Run()
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer worlds.Close()
}
