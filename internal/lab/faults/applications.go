package faults

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/outbox"
	"github.com/delayer-go/delayer/retry"
)

// Retry is an application that delays by failing: it takes a message from a queue, fails for as
// long as the message says, and passes it on in the second attempt.
func Retry(cfg backend.Config, delays ...time.Duration) Subject {
	s := NewSubject("retry, "+cfg.Backend, cfg, delays...)
	s.Indirect = true
	behind, remove := s.Open, s.Remove
	s.Open = func(ctx context.Context, urls []string, prefix string) (delayer.Delayer, error) {
		d, err := behind(ctx, urls, prefix)
		if err != nil {
			return nil, err
		}
		w := &worker{Delayer: d, queue: workOf(prefix)}
		if err := w.open(ctx, urls); err != nil {
			return nil, errors.Join(err, d.Close())
		}
		return w, nil
	}
	s.Remove = func(ctx context.Context, urls []string, prefix string) error {
		return errors.Join(removeWork(ctx, urls, prefix), remove(ctx, urls, prefix))
	}
	return s
}

func workOf(prefix string) string { return prefix + "-work" }

// A worker consumes a queue with package retry.
type worker struct {
	delayer.Delayer
	background
	queue string
}

func (w *worker) open(ctx context.Context, urls []string) error {
	err := doOnce(ctx, urls, func(ch *amqp091.Channel) error {
		_, err := ch.QueueDeclare(w.queue, durable, autoDelete, exclusive, noWait, amqp091.Table{amqp091.QueueTypeArg: amqp091.QueueTypeQuorum})
		return err
	})
	if err != nil {
		return err
	}
	const again, attempts = time.Second, 1000 // where the destination is gone, full or silent for long
	cfg := retry.Config{
		URL: strings.Join(urls, ","), Queue: w.queue, Policy: retry.Policy{First: again, MaxAttempts: attempts},
		Concurrency: 16, HandlerTimeout: 5 * time.Second, StopTimeout: 5 * time.Second, Logger: slog.New(slog.DiscardHandler),
	}
	w.begin(func(ctx context.Context) error { return retry.Consume(ctx, w.Delayer, cfg, w.handle) })
	return nil
}

// What a message in the queue says beside its body.
const (
	toExchange = "to-exchange"
	toKey      = "to-key"
	failsFor   = "fails-for" // ms
)

// Publish publishes to the queue, at once.
func (w *worker) Publish(ctx context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing) error {
	msg.Headers = amqp091.Table{toExchange: exchange, toKey: key, failsFor: delay.Milliseconds()}
	return w.Delayer.Publish(ctx, "", w.queue, 0, msg)
}

var errNotYet = errors.New("not yet")

func (w *worker) handle(ctx context.Context, m amqp091.Delivery) error {
	if wait, _ := m.Headers[failsFor].(int64); wait > 0 && retry.Info(ctx).Number == 1 {
		return retry.After(errNotYet, time.Duration(wait)*time.Millisecond)
	}
	exchange, _ := m.Headers[toExchange].(string)
	key, _ := m.Headers[toKey].(string)
	return w.Delayer.Publish(ctx, exchange, key, 0, amqp091.Publishing{Body: m.Body})
}

// Close ends the consumer, and then the Delayer.
func (w *worker) Close() error { return errors.Join(w.end(), w.Delayer.Close()) }

func removeWork(ctx context.Context, urls []string, prefix string) error {
	return doOnce(ctx, urls, func(ch *amqp091.Channel) error {
		return errors.Join(deleteQueue(ch, workOf(prefix)), deleteQueue(ch, workOf(prefix)+".parked"))
	})
}

// A background runs something until its end.
type background struct {
	stop    context.CancelFunc
	running sync.WaitGroup
	failed  error // it could not begin: then nothing arrives
}

func (b *background) begin(run func(context.Context) error) {
	ctx, stop := context.WithCancel(context.Background())
	b.stop = stop
	b.running.Go(func() { b.failed = run(ctx) })
}

func (b *background) end() error {
	b.stop()
	b.running.Wait()
	return b.failed
}

// Outbox is an application that writes its messages into a database, and a relay. Each prefix has a
// schema of its own there.
func Outbox(database string, cfg backend.Config, delays ...time.Duration) Subject {
	s := NewSubject("outbox, "+cfg.Backend, cfg, delays...)
	s.Indirect = true
	behind, remove := s.Open, s.Remove
	s.Open = func(ctx context.Context, urls []string, prefix string) (delayer.Delayer, error) {
		pool, err := openSchema(ctx, database, prefix)
		if err != nil {
			return nil, err
		}
		d, err := behind(ctx, urls, prefix)
		if err != nil {
			pool.Close()
			return nil, err
		}
		const soon = 5 * time.Second // is tried again what cannot be published
		relay, err := outbox.NewRelay(pool, d, outbox.Config{MaxPause: soon, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			pool.Close()
			return nil, errors.Join(err, d.Close())
		}
		r := &relayed{Delayer: d, pool: pool}
		r.begin(relay.Run)
		return r, nil
	}
	s.Remove = func(ctx context.Context, urls []string, prefix string) error {
		return errors.Join(dropSchema(ctx, database, prefix), remove(ctx, urls, prefix))
	}
	return s
}

// A relayed Delayer is behind an outbox.
type relayed struct {
	delayer.Delayer
	background
	pool *pgxpool.Pool
}

// Publish commits a message.
func (r *relayed) Publish(ctx context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing) error {
	err := outbox.Enqueue(ctx, r.pool, exchange, key, delay, msg)
	var known *delayer.Error
	if err != nil && !errors.As(err, &known) {
		return unsuccessful(delayer.ErrUnknown, err)
	}
	return err
}

// Close ends the relay, and then what it needs.
func (r *relayed) Close() error {
	defer r.pool.Close()
	return errors.Join(r.end(), r.Delayer.Close())
}

// openSchema connects to a schema, which it makes if need be.
func openSchema(ctx context.Context, database, prefix string) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(database)
	if err != nil {
		return nil, errors.New("faults: the database's URL is malformed")
	}
	schema := pgx.Identifier{prefix}.Sanitize()
	cfg.ConnConfig.RuntimeParams["search_path"] = schema
	cfg.MaxConns = 24 // 16 publishers, and the relay
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	_, err = pool.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+schema)
	if err = errors.Join(err, outbox.Migrate(ctx, pool)); err != nil {
		pool.Close()
		return nil, fmt.Errorf("faults: make the outbox: %w", err)
	}
	return pool, nil
}

func dropSchema(ctx context.Context, database, prefix string) error {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "DROP SCHEMA IF EXISTS "+pgx.Identifier{prefix}.Sanitize()+" CASCADE")
	return errors.Join(err, conn.Close(ctx))
}
