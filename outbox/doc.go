// Package outbox publishes delayed messages that belong to a PostgreSQL transaction: what is committed is
// delivered, whatever the broker was doing, and what is rolled back never is.
//
//	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
//		if _, err := tx.Exec(ctx, "INSERT INTO orders …"); err != nil {
//			return err
//		}
//		return outbox.Enqueue(ctx, tx, "", "expire", 15*time.Minute, amqp091.Publishing{Body: order})
//	})
//
// [Enqueue] writes the message into a table, in the caller's transaction. A [Relay], in the same program
// or in `delayer outbox run`, reads the table, publishes through a [delayer.Delayer] with what is left of
// the delay, and deletes what the broker has confirmed. [Migrate] creates the table.
//
// # Guarantees
//
//   - At least once. A relay or a connection that dies between confirm and delete publishes a message again.
//     Each message has a MessageId, its own or one that Enqueue made, and both copies carry it: package once
//     recognises them.
//   - Never early, by the database's clock: the delay runs from Enqueue, and the database computes what is
//     left. After a failover to a server whose clock is ahead, a message is early by that much.
//   - No order. Messages are published beside each other.
//   - A message that cannot be published blocks no other and is not lost. It stays in the table with its
//     error and is tried again, after a pause that grows. [Failures] lists them.
//
// # Delays
//
// A delay longer than [delayer.Limits].Max waits in the table until it fits. With fixed tiers, a message
// that has waited in the table waits on until what is left of its delay is a tier.
//
// # Several relays
//
// Any number may run. Rows are taken with FOR UPDATE SKIP LOCKED and stay locked while they are published;
// when a relay is killed, the others take its rows at once. A notification wakes a relay at commit. Polling stands
// behind it.
//
// [ReadLag] tells how many messages wait, and since when. docs/outbox.md has the rest: operation, sizes,
// what was measured.
package outbox
