package main

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/once"
	"github.com/delayer-go/delayer/once/pgstore"
	"github.com/delayer-go/delayer/retry"
)

// work tells the service of orders until ctx ends. Several workers may run.
func work(ctx context.Context, c config, _ []string) error {
	pool, err := c.pool(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	d, err := backend.Open(ctx, c.delayer)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	store, err := pgstore.New(pool, pgstore.Config{Scope: "notify"})
	if err != nil {
		return err
	}
	w := worker{pool, service{c.service}}
	succeedOnce := once.Handler(store, w.notify)
	return retry.Consume(ctx, d, retry.Config{
		URL: c.delayer.URL, Queue: c.queue, Policy: c.policy, Concurrency: concurrency,
	}, func(ctx context.Context, m amqp091.Delivery) error {
		err := succeedOnce(ctx, m)
		if err != nil {
			return errors.Join(err, w.failed(ctx, m, err))
		}
		return nil
	})
}

type worker struct {
	pool    *pgxpool.Pool
	service service
}

// notify is one attempt. The state S and the mark that this message was handled commit together.
func (w worker) notify(ctx context.Context, tx pgx.Tx, m amqp091.Delivery) error {
	id, err := orderID(m)
	if err != nil {
		return err
	}
	o, err := loadOrder(ctx, tx, id)
	if err != nil || o.state == sent {
		return err
	}
	attempt := retry.Info(ctx).Number
	if err := w.service.notify(ctx, o, m.MessageId, attempt); err != nil {
		return err
	}
	return o.setSent(ctx, tx, attempt)
}

// failed records a failure, as F if no attempt follows. It needs its own transaction, because that
// of the attempt was rolled back. If this process dies here, the message comes again as the same
// attempt.
func (w worker) failed(ctx context.Context, m amqp091.Delivery, failure error) error {
	id, err := orderID(m)
	if err != nil {
		return err // there is no order to record it in; the parked message has it
	}
	return setFailure(ctx, w.pool, id, retry.Info(ctx).Number, failure, retry.Last(ctx, failure))
}
