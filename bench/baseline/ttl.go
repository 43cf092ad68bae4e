package baseline

import (
	"strconv"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

// ttlDesign is one queue for all delays, which the message's own expiration ends.
//
// The queue dead-letters to a direct exchange of its own rather than to the default exchange: the
// routing key then is the destination's name on both sides, and nothing is rewritten.
func ttlDesign(cfg Config) design {
	in, out, wait := cfg.Prefix+".in", cfg.Prefix+".out", cfg.Prefix+".wait"
	return design{
		topology: topology{
			destination: cfg.Destination,
			exchanges:   []exchange{{in, amqp091.ExchangeDirect}, {out, amqp091.ExchangeDirect}},
			queues:      []queue{{wait, waitingArgs(cfg.QueueType, out, 0)}},
			bindings: []binding{
				{from: in, key: cfg.Destination, to: wait, toQueue: true},
				{from: out, key: cfg.Destination, to: cfg.Destination, toQueue: true},
			},
		},
		// An expiration is an unsigned 32-bit number of milliseconds.
		limits: delayer.Limits{Max: (1<<32 - 1) * time.Millisecond, Resolution: time.Millisecond},
		route: func(ticks int64, msg *amqp091.Publishing) (string, string) {
			msg.Expiration = strconv.FormatInt(ticks, 10)
			return in, cfg.Destination
		},
	}
}
