package main

import (
	"context"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/outbox"
	"github.com/delayer-go/delayer/status"
)

const (
	askEvery  = 30 * time.Second // the least time between two questions for gauges that cost something
	askWithin = 5 * time.Second  // for the answer: a scrape waits for it
)

// An asked collector asks somebody for its gauges, not more often than askEvery. While nobody
// answers it has none.
type asked struct {
	descs []*prometheus.Desc
	ask   func(context.Context) ([]prometheus.Metric, error)
	ctx   context.Context // ends when the command is told to stop

	mu   sync.Mutex
	next time.Time
	last []prometheus.Metric
}

// Describe implements [prometheus.Collector].
func (a *asked) Describe(out chan<- *prometheus.Desc) {
	for _, d := range a.descs {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (a *asked) Collect(out chan<- prometheus.Metric) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := time.Now(); !now.Before(a.next) && a.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(a.ctx, askWithin)
		defer cancel()
		a.last, _ = a.ask(ctx) // the log says already that the broker or the database is away
		a.next = now.Add(askEvery)
	}
	for _, m := range a.last {
		out <- m
	}
}

func gauge(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

// A queueCollector has the gauges of what a Delayer's queues hold. It asks over a connection of its
// own, which comes back by itself.
type queueCollector struct {
	asked
	cfg    backend.Config
	reader *status.Reader // nil until the broker has answered once
	stop   context.CancelFunc
}

func newQueueCollector(ctx context.Context, cfg backend.Config) *queueCollector {
	cfg.Observer, cfg.Logger = delayer.Observer{}, slog.New(slog.DiscardHandler) // the connection is of no interest
	cfg.Management = ""                                                          // AMQP tells all that is counted here
	messages := prometheus.NewDesc("delayer_messages", "Messages in the queues of the Delayer's prefix, by what they are there for.", []string{"state"}, nil)
	c := &queueCollector{cfg: cfg}
	c.descs = []*prometheus.Desc{messages}
	c.ctx, c.stop = context.WithCancel(ctx)
	c.ask = func(ctx context.Context) (all []prometheus.Metric, err error) {
		found, err := c.read(ctx)
		if err != nil {
			return nil, err
		}
		for state, n := range byState(found) {
			all = append(all, gauge(messages, float64(n), state))
		}
		return all, nil
	}
	return c
}

func (c *queueCollector) read(ctx context.Context) (found status.Status, err error) {
	if c.reader == nil {
		if c.reader, err = status.Open(ctx, c.cfg, status.Options{}); err != nil {
			return found, err
		}
	}
	return c.reader.Read(ctx)
}

// close ends the connection. A Collect afterwards tells what the last one did.
func (c *queueCollector) close() {
	c.stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reader != nil {
		c.reader.Close()
	}
}

// byState adds up what the queues hold.
func byState(s status.Status) map[string]int {
	sums := map[string]int{"waiting": 0, "intake": 0, "misrouted": 0, "unroutable": 0}
	for _, b := range s.Backends {
		for _, q := range b.Queues {
			if q.Name == s.Prefix+".controller.intake" {
				sums["intake"] += q.Messages
			} else {
				sums["waiting"] += q.Messages
			}
		}
	}
	for state, q := range map[string]*status.Queue{"misrouted": s.Misrouted, "unroutable": s.Unroutable} {
		if q != nil {
			sums[state] = q.Messages
		}
	}
	return sums
}

// newOutboxCollector returns the gauges of what an outbox holds.
func newOutboxCollector(ctx context.Context, pool *pgxpool.Pool) *asked {
	messages := prometheus.NewDesc("delayer_outbox_messages", "Messages in the outbox.", []string{"state"}, nil)
	oldest := prometheus.NewDesc("delayer_outbox_oldest_seconds", "How long the oldest message that could be published has been in the outbox.", nil, nil)
	return &asked{
		ctx: ctx, descs: []*prometheus.Desc{messages, oldest},
		ask: func(ctx context.Context) ([]prometheus.Metric, error) {
			lag, err := outbox.ReadLag(ctx, pool)
			if err != nil {
				return nil, err
			}
			return []prometheus.Metric{
				gauge(messages, float64(lag.Ready), "ready"), gauge(messages, float64(lag.Waiting), "waiting"),
				gauge(messages, float64(lag.Failed), "failed"), gauge(oldest, lag.Oldest.Seconds()),
			}, nil
		},
	}
}

// A bridgeCollector counts what a bridge has passed on: messages without a delay go through no
// Delayer, whose Observer would count them.
type bridgeCollector struct {
	messages *prometheus.Desc
	counts   iter.Seq2[string, int64]
}

func newBridgeCollector(counts iter.Seq2[string, int64]) *bridgeCollector {
	return &bridgeCollector{prometheus.NewDesc("delayer_bridge_messages_total", "Messages that a bridge has passed on, by how.", []string{"action"}, nil), counts}
}

// Describe implements [prometheus.Collector].
func (c *bridgeCollector) Describe(out chan<- *prometheus.Desc) { out <- c.messages }

// Collect implements [prometheus.Collector].
func (c *bridgeCollector) Collect(out chan<- prometheus.Metric) {
	for action, n := range c.counts {
		out <- prometheus.MustNewConstMetric(c.messages, prometheus.CounterValue, float64(n), action)
	}
}
