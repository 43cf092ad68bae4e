package notify

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
)

// failing is the share of calls that fail.
const failing = 0.3

// A Campaign saves orders while the worker, the relay and the broker are killed and restarted.
type Campaign struct {
	Folder     string // for the program
	Database   string
	Broker     string // its address
	Restart    func(context.Context) error
	Name       string   // begins the names of queues and exchanges
	Env        []string // of the backend
	Orders     int
	Intervals  []time.Duration
	WorkerKill int // how often
	RelayKill  int
	Restarts   int
	Random     *rand.Rand
	Logf       func(format string, args ...any)
}

// Run does it, and returns what became of the orders.
func (c Campaign) Run(ctx context.Context) (Account, error) {
	partner := NewPartner(c.answer)
	defer partner.Close()
	pool, err := pgxpool.New(ctx, c.Database)
	if err != nil {
		return Account{}, err
	}
	defer pool.Close()
	path, err := Build(ctx, c.Folder)
	if err != nil {
		return Account{}, err
	}
	p := Program{Path: path, Env: c.env(partner.URL())}
	if err := p.Run(ctx, "setup"); err != nil {
		return Account{}, err
	}
	if _, err := pool.Exec(ctx, watch); err != nil {
		return Account{}, err
	}
	resent, err := c.disturb(ctx, p, pool)
	if err != nil {
		return Account{}, err
	}
	seen, err := readSeen(ctx, pool)
	if err != nil {
		return Account{}, err
	}
	seen.Calls, seen.Intervals = partner.Calls(), c.Intervals
	seen.Parked, err = readParked(c.Broker, c.queue()+".parked")
	a := seen.Account()
	a.Resent = resent
	return a, err
}

func (c Campaign) queue() string { return c.Name + "-orders" }

func (c Campaign) env(partner string) []string {
	policy := make([]string, len(c.Intervals))
	for i, d := range c.Intervals {
		policy[i] = d.String()
	}
	return append([]string{
		"DATABASE_URL=" + c.Database, "DELAYER_URL=" + c.Broker, "DELAYER_PREFIX=" + c.Name,
		"NOTIFY_SERVICE=" + partner, "NOTIFY_QUEUE=" + c.queue(), "NOTIFY_POLICY=" + strings.Join(policy, ","),
		"NOTIFY_OVERDUE=24h",
	}, c.Env...)
}

// answer fails at random. The last order always fails: it tells when every other message has come.
func (c Campaign) answer(order int64, _ int) (status int) {
	if order == int64(c.Orders) || rand.Float64() < failing {
		return 503
	}
	return 200
}

// disturb runs the program until every order has ended. It returns how many messages the sweep sent again.
func (c Campaign) disturb(ctx context.Context, p Program, pool *pgxpool.Pool) (resent int, err error) {
	worker, relay := p.Keep("worker"), p.Keep("relay")
	defer relay.Stop()
	defer worker.Stop()
	faults := c.faults(worker, relay)
	left := c.Orders - 1
	for i, f := range faults {
		burst := left / (len(faults) - i)
		left -= burst
		if err := c.strike(ctx, p, burst, f); err != nil {
			return 0, err
		}
		c.Logf("%2d of %d: %s while orders were saved", i+1, len(faults), f.name)
	}
	if resent, err = c.end(ctx, p, pool); err != nil {
		return resent, err
	}
	if err := p.Run(ctx, "save", "1"); err != nil { // its attempts take as long as those of any duplicate
		return resent, err
	}
	more, err := c.end(ctx, p, pool)
	return resent + more, err
}

type fault struct {
	name string
	do   func(context.Context) error
}

// faults are in random order.
func (c Campaign) faults(worker, relay *Service) (list []fault) {
	for _, f := range []struct {
		fault
		times int
	}{
		{fault{"kill -9 of the worker", worker.Kill}, c.WorkerKill},
		{fault{"kill -9 of the relay", relay.Kill}, c.RelayKill},
		{fault{"restart of the broker", c.Restart}, c.Restarts},
	} {
		for range f.times {
			list = append(list, f.fault)
		}
	}
	c.Random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// strike saves orders, and lets a fault happen at some moment while they are saved, relayed and handled.
func (c Campaign) strike(ctx context.Context, p Program, orders int, f fault) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return p.Run(ctx, "save", strconv.Itoa(orders)) })
	g.Go(func() error {
		wait(ctx, time.Duration(c.Random.Int64N(int64(2*time.Second))))
		return f.do(ctx)
	})
	return g.Wait()
}

// stuck is how long no order ends before what is left is taken to be lost: far longer than an order takes.
const stuck = 30 * time.Second

// sweepLimit is how many orders one sweep takes.
const sweepLimit = 1000

// end waits until no order is in state I, with the sweep's help where a backend has lost messages.
func (c Campaign) end(ctx context.Context, p Program, pool *pgxpool.Pool) (resent int, err error) {
	for {
		left, err := c.remaining(ctx, pool)
		if err != nil || left == 0 {
			return resent, err
		}
		c.Logf("%d orders are overdue: the sweep sends their messages again", left)
		resent += min(left, sweepLimit)
		if _, err := pool.Exec(ctx, "UPDATE orders SET overdue = now() WHERE state = 'I'"); err != nil {
			return resent, err
		}
		if err := p.Run(ctx, "sweep"); err != nil {
			return resent, err
		}
	}
}

// remaining returns how many orders are in state I when none has ended for long.
func (c Campaign) remaining(ctx context.Context, pool *pgxpool.Pool) (left int, err error) {
	const poll = 100 * time.Millisecond
	for progress := time.Now(); time.Since(progress) < stuck; wait(ctx, poll) {
		states, err := States(ctx, pool)
		if err != nil {
			return left, fmt.Errorf("waiting for the last orders: %w", err)
		}
		if now := states[Initial]; now != left {
			left, progress = now, time.Now()
		}
		if left == 0 {
			return 0, nil
		}
	}
	return left, ctx.Err()
}
