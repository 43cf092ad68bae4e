// Package baseline has the well-known methods to delay messages on RabbitMQ that Delayer is
// compared with. They are for measuring only: like the originals, they are early, block or lose
// messages.
//
//   - per-message-ttl: one queue, the delay as the message's own expiration. Only the head of a
//     queue expires, so a long delay blocks the short ones behind it.
//   - top-entry: a ladder of 28 topic exchanges, each with a queue of 2^k seconds, entered at the
//     top whatever the delay. Celery's delayed delivery is built so.
//   - bit-entry: the same ladder, entered at the exchange of the highest set bit. NServiceBus does
//     so.
//   - undelayed: a plain confirmed publish to the destination, the floor for everything else.
//
// # What waits where
//
// Everything has names under Config.Prefix and is removed by RemoveTopology. Waiting queues are
// classic, or quorum with at-least-once dead-lettering.
//
// # Fair play
//
// Each baseline has one connection with one channel in confirm mode and deferred confirms, so that
// any number of goroutines pipeline over it, and publishes persistent messages. It does not ask for
// returns (mandatory) and adds no header, which spares it work that a Delayer does.
package baseline
