package recurring_test

import (
	"context"
	"log"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/recurring"
)

// A report every night at half past two in Berlin. All processes of the service may run this.
func Example() {
	run := func(ctx context.Context, d delayer.Delayer) error {
		berlin, err := time.LoadLocation("Europe/Berlin")
		if err != nil {
			return err
		}
		s, err := recurring.New(d, recurring.Config{Messages: []recurring.Message{{
			Name: "nightly-report",
			Cron: "30 2 * * *",
			Zone: berlin,
			Message: delayer.Message{
				Exchange: "reports", Key: "nightly",
				Publishing: amqp091.Publishing{Body: []byte(`{"customers": "all"}`), ContentType: "application/json"},
			},
		}}})
		if err != nil {
			return err
		}
		s.Run(ctx) // until ctx ends
		return nil
	}
	if err := run(context.Background(), open()); err != nil {
		log.Fatal(err)
	}
}

func open() delayer.Delayer { return nil } // backend.Open
