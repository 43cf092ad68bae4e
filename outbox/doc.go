// Package outbox publishes delayed messages that belong to a PostgreSQL transaction. If the
// transaction commits, they are delivered, even if the broker is away at that moment. If it rolls
// back, they never are.
//
//	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
//		if _, err := tx.Exec(ctx, "INSERT INTO orders …"); err != nil {
//			return err
//		}
//		return outbox.Enqueue(ctx, tx, "", "expire", 15*time.Minute, amqp091.Publishing{Body: order})
//	})
//
// [Enqueue] writes the message into a table, in the caller's transaction. A [Relay], in the same
// program or in `delayer outbox run`, reads the table, publishes each message through a
// [delayer.Delayer] with what is left of its delay, and deletes what the broker has confirmed.
// [Migrate] creates the table.
//
// # Guarantees
//
//   - At least once. If a relay or a connection dies between confirm and delete, the message is
//     published again. Both copies carry the same MessageId, by which package once recognises them.
//     Enqueue sets one if the message has none.
//   - Never early, by the database's clock. The delay runs from Enqueue, and the database computes
//     what is left. After a failover to a server whose clock is ahead, a message is early by that
//     much.
//   - No order. The messages of a batch are published concurrently.
//   - A message that cannot be published blocks no other and is not lost. It stays in the table
//     with its error and is tried again, after a growing pause. [Failures] lists such messages. A
//     row whose next_try is infinity is held. Nor does a destination that confirms nothing block
//     others: its rows are held off.
//
// # Delays
//
// A delay longer than [delayer.Limits].Max waits in the table until it fits. With fixed tiers, a
// message that has waited in the table stays there until what is left of its delay is a tier.
//
// Any number of relays may run. docs/patterns.md describes them, operation, [ReadLag] and sizes.
package outbox
