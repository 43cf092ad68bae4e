// Package once makes a handler succeed at most once per message.
//
// RabbitMQ and Delayer deliver at least once. The same message comes again when a connection is
// lost before the ack, when a relay is killed, or when the broker repeats a hop. [Handler] wraps a
// handler and asks a [Store] whether the message's id was handled. If so, it returns nil: the
// duplicate is acknowledged without a second run.
//
//	store, err := pgstore.New(pool, pgstore.Config{Scope: "billing"})
//	…
//	handle := once.Handler(store, func(ctx context.Context, tx pgx.Tx, d amqp091.Delivery) error {
//		_, err := tx.Exec(ctx, "UPDATE invoices SET paid = true WHERE id = $1", d.CorrelationId)
//		return err
//	})
//
// # Guarantees
//
// With once/pgstore, the mark and the handler's own statements in the transaction commit together.
// After a crash in between neither is stored, and the message is delivered and handled again. Work
// outside the transaction, such as a call of another service, may happen twice: do it last, or make
// it idempotent by the same id.
//
// # Ids
//
// The id is the message's MessageId, or else the id in Delayer's header. Set a MessageId: it stays
// the same when a producer publishes a message again. Package outbox always sets one. A message
// with neither id is an error, [ErrNoID].
package once
