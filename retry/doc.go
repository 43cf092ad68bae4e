// Package retry handles the messages of a queue, and lets those that fail come again after growing
// delays: after 3 s, then 10 s, then 30 s, until they succeed or are parked for a person to look at.
//
//	d, err := backend.Open(ctx, backend.Config{Options: delayer.Options{URL: url}})
//	…
//	err = retry.Consume(ctx, retry.Config{
//		Delayer: d, URL: url, Queue: "notifications",
//		Policy: retry.Policy{Intervals: []time.Duration{3 * time.Second, 10 * time.Second, 30 * time.Second}},
//	}, func(ctx context.Context, m amqp091.Delivery) error {
//		return notify(ctx, m.Body)
//	})
//
// # What becomes of a message
//
//   - The handler returns nil: the message is acknowledged.
//   - It returns an error or panics: the message is published through the Delayer to the queue it came
//     from, and to no other, and acknowledged once the broker has confirmed it there. It takes up no
//     consumer while it waits, and holds up no other message.
//   - The error is [Permanent], or the attempts or the age of the [Policy] are used up: the message goes
//     to the queue for parked messages, with the reason and its history, and is acknowledged once that
//     is confirmed. `delayer parked` lists, exports, retries and removes them.
//   - The broker confirms neither: the message is held and published again with growing pauses, and
//     goes back to its queue after Config.Hold.
//
// An error may say when to come again: [After], as for a Retry-After header.
//
// # What the handler sees
//
// The exchange, routing key, properties, headers and body of the first attempt, whichever attempt it
// is. [Info] tells which. What is different from the second attempt on:
//
//   - x-death and the other headers that the broker adds on the way are left out, and redelivered is that
//     of this delivery.
//   - user-id is empty. The broker has not checked it for this publish; Info has it.
//
// All this travels in the header x-delayer-retry. Whoever may publish to the queue can forge it. A
// forged count is bounded: it may park a message early, or make it start again, and no more.
//
// # At least once
//
// A handler may see a message more than once, also after it has succeeded: the process may end, or the
// connection be lost, before the acknowledgement. An attempt that was cut off like that does not count,
// and is made again at once. So a handler looks first whether the work is done already.
// The message id, if the publisher gave one, is the same in all attempts.
//
// # Limits
//
// The policy is held against [delayer.Limits] by [Open] and [Consume]. An interval that the backend
// cannot do is an error then.
//
// A handler must end before the broker's consumer timeout, 30 minutes by default (from RabbitMQ 4.3 on
// classic queues have none). Config.HandlerTimeout ends its ctx before that. A handler that ignores its
// ctx is not stopped: up to 4.2 the broker closes the channel, which the log says, and delivers the
// message again.
//
// From RabbitMQ 4.0 on a quorum queue drops a message, or dead-letters it where it has a dead-letter
// exchange, after 20 deliveries by default. Retries are new messages and do not count. Messages that are
// given back do, up to 4.2, also those of workers that were killed: give the queue a dead-letter
// exchange, or an x-delivery-limit that suits it.
package retry
