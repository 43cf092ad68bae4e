// Package delayer delivers a RabbitMQ message to any exchange or queue after any delay, on a stock
// broker, exactly as if it had been published at that moment.
//
// This package holds the contract alone: the [Delayer] interface, what a backend promises ([Limits]),
// and the errors ([Error], [SafeToRetry]). A Delayer is opened by package backend, which selects one of
// several strategies from a configuration:
//
//	d, err := backend.Open(ctx, backend.Config{Options: delayer.Options{URL: "amqp://guest:guest@localhost:5672/"}})
//	…
//	err = d.Publish(ctx, "orders", "order.expired", 30*time.Minute, amqp091.Publishing{Body: body})
//
// # Promises
//
// Publish returns nil only once the broker has confirmed the message where it waits. A message is never
// delivered before its publish time plus its delay, by the broker's clock; a delay between two multiples
// of [Limits].Resolution is rounded up. It is delivered at least once. A delay is never clamped or
// truncated: one that cannot be kept is refused with [ErrOutOfRange].
//
// # What the consumer sees
//
// The exchange's routing, the routing key, the properties, the headers and the body that the publisher
// gave, with these differences:
//
//   - a header of ours, [Header], which says when the message was due and where it was going;
//   - what the broker adds to every dead-lettered message: x-death, x-first-death-queue, -reason and
//     -exchange, and from RabbitMQ 3.13 on x-last-death-*; and the delivery's exchange field, which names
//     the exchange that dead-lettered it, as RabbitMQ does for every dead-lettered message;
//   - a delivery mode that was not set (0) arrives as persistent (2): a delay is a promise, and a
//     transient message would not survive a restart. amqp091.Transient, set explicitly, is kept.
//
// Those same headers, when a received message is published again, are stripped from it first, so that a
// message can be delayed any number of times.
package delayer
