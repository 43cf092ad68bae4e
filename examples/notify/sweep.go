package main

import (
	"context"
	"log/slog"

	"github.com/jackc/pgx/v5"
)

const takeOverdue = `
UPDATE orders SET overdue = now() + $1 WHERE id IN (
	SELECT id FROM orders WHERE state = 'I' AND overdue < now() ORDER BY overdue LIMIT 1000 FOR UPDATE SKIP LOCKED)
RETURNING id`

// sweep sends the messages of overdue orders again. The outbox loses no message: sweep is for
// queues that were purged and for workers that could not write the state F. The worker ignores an
// order that was sent meanwhile.
func sweep(ctx context.Context, c config, _ []string) error {
	pool, err := c.pool(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, takeOverdue, c.overdue)
		if err != nil {
			return err
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		for _, id := range ids {
			slog.Warn("an order is overdue: its message is sent again", "order", id)
			if err := enqueue(ctx, tx, c.queue, id); err != nil {
				return err
			}
		}
		return err
	})
}
