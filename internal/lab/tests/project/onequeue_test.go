package project_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/docs"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// TestOneQueue: the two queues that docs/choosing.md shows, with a second instead of half an hour.
// The same without that TTL, and with an expiration on each message: B, of 1 s, waits for A, of 4 s.
func TestOneQueue(t *testing.T) {
	var file struct {
		Queues []struct {
			Name      string
			Arguments amqp091.Table
		}
	}
	for _, b := range docs.Blocks(read(t, "docs/choosing.md")) {
		if b.Lang == "json" {
			require.NoError(t, json.Unmarshal([]byte(b.Text), &file))
		}
	}
	require.Len(t, file.Queues, 2)
	r := rabbittest.NewRig(t, rabbittest.Broker(t))
	work := r.Queue(file.Queues[0].Name, file.Queues[0].Arguments)
	in, args := r.Consume(work), file.Queues[1].Arguments
	require.Equal(t, file.Queues[0].Name, args["x-dead-letter-routing-key"])
	args["x-dead-letter-routing-key"] = work
	delete(args, "x-message-ttl")
	mixed := r.Queue("mixed", args)
	args["x-message-ttl"] = int64(1000)
	equal := r.Queue(file.Queues[1].Name, args)

	began := time.Now()
	r.Publish("", equal, amqp091.Publishing{Body: []byte("statistics")})
	d := rabbittest.Next(t, in)
	require.GreaterOrEqual(t, time.Since(began), time.Second, "early")
	require.Equal(t, []string{"statistics", work}, []string{string(d.Body), d.RoutingKey})

	began = time.Now()
	r.Publish("", mixed, amqp091.Publishing{Body: []byte("A"), Expiration: "4000"}, amqp091.Publishing{Body: []byte("B"), Expiration: "1000"})
	var arrived []string
	for range 2 {
		d := rabbittest.Next(t, in)
		after := time.Since(began)
		require.GreaterOrEqual(t, after, 4*time.Second)
		arrived = append(arrived, fmt.Sprintf("%s %.1f s", d.Body, after.Seconds()))
	}
	t.Log(strings.Join(arrived, ", "))
}
