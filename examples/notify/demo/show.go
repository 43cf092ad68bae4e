package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

const intervals = "1s, 2s, 4s"

// answer is that of the service. Most orders succeed at once, some after one or two failures.
func answer(order int64, attempt int) (status int) {
	switch {
	case order == 4:
		return http.StatusUnprocessableEntity // for good
	case order == 6, order == 7 && attempt < 3, order%3 == 2 && attempt < 2:
		return http.StatusServiceUnavailable
	}
	return http.StatusOK
}

// A scene is something that happens at a time.
type scene struct {
	at   time.Duration
	what string
	do   func(context.Context) error
}

// show runs the program, and shows its orders until all have ended.
func show(ctx context.Context, broker, database, folder string) error {
	partner := startPartner(answer)
	defer partner.Close()
	path, err := build(ctx, folder)
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(folder, "log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	name := filepath.Base(folder)
	p := program{path: path, log: log, env: []string{
		"DATABASE_URL=" + database, "DELAYER_URL=" + broker, "DELAYER_PREFIX=" + name, "NOTIFY_QUEUE=" + name + "-orders",
		"NOTIFY_SERVICE=" + partner.URL, "NOTIFY_POLICY=" + intervals,
	}}
	pool, err := pgxpool.New(ctx, database)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := p.run(ctx, "setup"); err != nil {
		text, _ := os.ReadFile(log.Name())
		return errors.Join(err, errors.New(string(text)))
	}
	return play(ctx, p, pool)
}

func play(ctx context.Context, p program, pool *pgxpool.Pool) error {
	relay, worker := p.keep("relay"), p.keep("worker")
	defer relay.end()
	defer worker.end()
	scenes := []scene{
		{0, "8 orders are saved in state I, each with its message, in one transaction each",
			func(ctx context.Context) error { return p.run(ctx, "save", "8") }},
		{1500 * time.Millisecond, "kill -9 of the worker; it is started again", worker.kill},
		{3 * time.Second, "kill -9 of the relay; it is started again", relay.kill},
		{3 * time.Second, "4 more orders are saved meanwhile",
			func(ctx context.Context) error { return p.run(ctx, "save", "4") }},
	}
	v := newView(os.Stdout)
	began := time.Now()
	for {
		for len(scenes) > 0 && time.Since(began) >= scenes[0].at {
			v.event(time.Since(began), scenes[0].what)
			if err := scenes[0].do(ctx); err != nil {
				return err
			}
			scenes = scenes[1:]
		}
		list, err := readOrders(ctx, pool)
		if err != nil {
			return err
		}
		v.draw(time.Since(began), list)
		if len(scenes) == 0 && ended(list) {
			v.end()
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}
