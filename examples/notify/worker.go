package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

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
	d, err := backend.Open(ctx, c.delayer)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	store, err := pgstore.New(c.pool, pgstore.Config{Scope: "notify"})
	if err != nil {
		return err
	}
	w := worker{c.pool, c.service}
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
	service string // the address of the other service, which is told of orders
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
	if err := w.call(ctx, o, m.MessageId, attempt); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "UPDATE orders SET state = 'S', attempts = $2, error = NULL WHERE id = $1", o.id, attempt)
	return err
}

// failed records a failure, as F if no attempt follows. It needs its own transaction, because that
// of the attempt was rolled back. If this process dies here, the message comes again as the same
// attempt.
func (w worker) failed(ctx context.Context, m amqp091.Delivery, failure error) error {
	id, err := orderID(m)
	if err != nil {
		return err // there is no order to record it in; the parked message has it
	}
	// An order that was sent meanwhile is not changed: a message may come twice.
	_, err = w.pool.Exec(ctx, `UPDATE orders SET attempts = $2, error = $3, state = CASE WHEN $4 THEN 'F' ELSE state END
		WHERE id = $1 AND state <> 'S'`, id, retry.Info(ctx).Number, failure.Error(), retry.Last(ctx, failure))
	return err
}

// client gives up a call long before retry.Config.HandlerTimeout.
var client = &http.Client{Timeout: 10 * time.Second}

// call posts an order. The call may be repeated although the service has answered, so it carries
// a key by which the service recognises a repeated call.
func (w worker) call(ctx context.Context, o order, key string, attempt int) error {
	body := strings.NewReader(fmt.Sprintf(`{"order": %d, "customer": %q}`, o.id, o.customer))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("%s/orders/%d", w.service, o.id), body)
	if err != nil {
		return retry.Permanent(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	req.Header.Set("Attempt", strconv.Itoa(attempt))
	answer, err := client.Do(req)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<20)) // so that the connection can be used again
	_ = answer.Body.Close()
	return failure(answer)
}

// failure converts an answer to an error for package retry.
func failure(answer *http.Response) error {
	err := errors.New(answer.Status)
	switch code := answer.StatusCode; {
	case code < 300:
		return nil
	case code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable:
		if seconds, bad := strconv.Atoi(answer.Header.Get("Retry-After")); bad == nil {
			return retry.After(err, time.Duration(seconds)*time.Second)
		}
		return err
	case code >= 500 || code == http.StatusRequestTimeout:
		return err
	default: // the order is at fault: it will be the next time
		return retry.Permanent(err)
	}
}

// sent is the state S, see schema.sql.
const sent = "S"

type order struct {
	id       int64
	customer string
	state    string
}

// orderID reads the key that a message carries.
func orderID(m amqp091.Delivery) (int64, error) {
	id, err := strconv.ParseInt(string(m.Body), 10, 64)
	return id, retry.Permanent(err)
}

// loadOrder loads an order. A missing order is a permanent error.
func loadOrder(ctx context.Context, tx pgx.Tx, id int64) (order, error) {
	o := order{id: id}
	err := tx.QueryRow(ctx, "SELECT customer, state FROM orders WHERE id = $1", id).Scan(&o.customer, &o.state)
	if errors.Is(err, pgx.ErrNoRows) {
		return o, retry.Permanent(fmt.Errorf("there is no order %d", id))
	}
	return o, err
}
