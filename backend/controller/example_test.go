package controller_test

import (
	"context"
	"log"
	"os/signal"
	"syscall"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller"
)

// A process that does nothing but run a controller, as `delayer serve` does. The services that
// publish set [controller.Config].Run to false.
func ExampleServe() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	err := controller.Serve(ctx, delayer.Options{URL: "amqp://guest:guest@localhost:5672/"}, controller.Config{})
	if err != nil {
		log.Fatal(err)
	}
}
