// Package retry handles the messages of a queue. A message that fails comes again after growing
// delays, such as 3 s, 10 s and 30 s, until it succeeds or is parked for a person to look at.
//
//	d, err := backend.Open(ctx, backend.Config{Options: delayer.Options{URL: url}})
//	…
//	err = retry.Consume(ctx, d, retry.Config{
//		URL: url, Queue: "notifications",
//		Policy: retry.Policy{Intervals: []time.Duration{3 * time.Second, 10 * time.Second}},
//	}, func(ctx context.Context, m amqp091.Delivery) error {
//		return notify(ctx, m.Body)
//	})
//
// # What becomes of a message
//
//   - The handler returns nil: the message is acknowledged.
//   - The handler returns an error, panics or calls runtime.Goexit: the message is published
//     through the Delayer to the queue it came from, and to no other, and acknowledged once the
//     broker has confirmed it there. While it waits it occupies no consumer and blocks no other
//     message.
//   - The error is [Permanent], or the attempts or the age of the [Policy] are used up: the message
//     is published to the queue for parked messages, with the reason and its history, and
//     acknowledged once that is confirmed. `delayer messages` shows, exports, retries and removes
//     parked messages.
//   - The broker does not confirm: the message is held and published again with growing pauses.
//     After [Config].Hold it goes back to its queue.
//
// An error may say when to come again: [After], as for a Retry-After header.
//
// # What the handler sees
//
// Every attempt sees the exchange, routing key, properties, headers and body of the first. [Info]
// returns which attempt it is. From the second attempt on:
//
//   - x-death and other headers that the broker adds are left out, and redelivered is that of this
//     delivery.
//   - user-id is empty, because the broker has not checked it for this publish. [Info] has it.
//
// The history travels in the header x-delayer-retry, which anyone who may publish to the queue can
// forge. A forged header can park a message early or restart its count, and no more.
//
// # At least once
//
// A handler may see a message more than once, also after it has succeeded: the process may end or
// the connection may be lost before the acknowledgement. Such an attempt does not count, and is
// made again at once. So let the handler check first whether the work is done. The message id, if
// the publisher set one, is the same in all attempts.
//
// # Limits
//
// A message must be acknowledged within the broker's consumer timeout: [Config].ConsumerTimeout says
// what follows for the prefetch. [Config].HandlerTimeout ends a handler's ctx; a handler that ignores
// its ctx is not stopped.
//
// From RabbitMQ 4.0 on, a quorum queue drops or dead-letters a message after 20 deliveries by
// default. Retries do not count: they are new messages. Messages that are given back count up to
// 4.2, also those of workers that were killed: give the queue a dead-letter exchange.
package retry
