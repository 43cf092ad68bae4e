// Package once makes a handler succeed at most once per message.
//
// RabbitMQ and Delayer deliver at least once: a connection that is lost before the ack, a relay that is
// killed, a hop that the broker repeats, and the same message comes again. [Handler] wraps a handler and
// asks a [Store] whether the message's id was handled. If so, it returns nil, so that the duplicate is
// acknowledged without a second run.
//
//	store, err := pgstore.New(pool, "billing", pgstore.Options{})
//	…
//	handle := once.Handler(store, func(ctx context.Context, tx pgx.Tx, d amqp091.Delivery) error {
//		_, err := tx.Exec(ctx, "UPDATE invoices SET paid = true WHERE id = $1", d.CorrelationId)
//		return err
//	})
//
// # Guarantees
//
// With once/pgstore the mark and what the handler does in the transaction it is given commit together. A
// crash in between leaves neither, and the message, delivered again, runs again. What a handler does
// outside the transaction, such as a call of another service, may happen twice: do it last, or make it
// idempotent by the same id.
//
// [Memory] knows what one process handled since its start. It suits tests, and effects in memory.
//
// # Ids
//
// The id is the message's MessageId, else the id in the header of Delayer. The first is better: it is the
// same when a producer publishes a message again, and package outbox sets it. A message with neither
// is an [*NoIDError].
package once
