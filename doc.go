// Package delayer delays messages on RabbitMQ. A message is published to any exchange or queue and
// arrives after any delay, as if it had been published then. A stock broker is enough, and
// consumers need no library; below is what they see.
//
// This package holds the contract: the [Delayer] interface, what a Delayer can do ([Limits]), what
// all backends take ([Options]), and the errors ([Error], [SafeToRetry]). Package backend opens a
// Delayer from a configuration:
//
//	d, err := backend.OpenURL(ctx, "amqp://guest:guest@localhost:5672/")
//	…
//	defer d.Close()
//	err = d.Publish(ctx, "orders", "order.expired", 30*time.Minute, amqp091.Publishing{Body: body})
//
// A program that needs one backend only can open it by its own package, such as
// backend/binaryladder. It then links no other. Packages metrics and tracing are told what a Delayer
// does; delayertest has one in memory, for unit tests.
//
// # How a message waits
//
// That depends on the backend; the package comment of each says it in detail.
//
//   - binaryladder, the default: in a ladder of TTL queues, one for each step of the delay.
//   - fixedtiers: in one TTL queue for each delay that the configuration lists.
//   - controller: in the queue of the due time, from which a controller takes the message shortly
//     before. Such messages can be cancelled and postponed.
//   - plugin: in an exchange of type x-delayed-message.
//   - native, experimental: in a quorum queue of RabbitMQ 4.4, which hides it until it is due.
//
// # Guarantees
//
// Publish returns nil only once the broker has confirmed the message where it waits. The message is
// never delivered earlier than the time of the call plus the delay, by the broker's clock. It is
// delivered at least once; copies carry the same id in [Header]. A message whose destination is
// gone when it is due is kept in the queue that [Options].UnroutableQueue names. An exchange that
// exists drops a message that nothing is bound for, unless it has an alternate exchange. Clocks that
// are set, policies, operators and faults of RabbitMQ make exceptions: docs/reliability.md in the
// repository lists all of them.
//
// # What it needs
//
// RabbitMQ 3.10 to 4.3; the plugin ends with 4.2. A user who may configure, write and read names
// that begin with the prefix, and write to the destinations. A Delayer opens two connections by
// default: one publishes, the other declares, binds and consumes. The controller backend adds two
// where it runs the controller.
//
// # What the consumer sees
//
// The routing key, properties, headers and body that the publisher gave, with these differences:
//
//   - [Header], which says when the message was due, how long it waited, and where it was going.
//   - What RabbitMQ adds to every dead-lettered message: x-death, x-first-death-queue, -reason and
//     -exchange, and from 3.13 on x-last-death-*. The delivery's exchange field names the exchange
//     that dead-lettered the message. With the controller it is the one that was published to.
//   - A delivery mode that was not set (0) arrives as persistent (2), because a transient message
//     would not survive a restart. amqp091.Transient, set explicitly, is kept.
//
// When a received message is published again, these headers are removed first. A message can
// therefore be delayed any number of times.
package delayer
