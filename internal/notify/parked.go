package notify

import (
	"strconv"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// readParked counts the parked messages of each order. They stay where they are.
func readParked(url, queue string) (map[int64]int, error) {
	conn, err := amqp091.Dial(url)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // which gives back what was read
	ch, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	const autoAck = false
	parked := map[int64]int{}
	for {
		d, ok, err := ch.Get(queue, autoAck)
		if err != nil || !ok {
			return parked, err
		}
		id, err := strconv.ParseInt(string(d.Body), 10, 64)
		if err != nil {
			return nil, err
		}
		parked[id]++
	}
}
