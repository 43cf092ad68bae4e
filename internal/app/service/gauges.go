package service

import (
	"cmp"
	"context"
	"log/slog"
	"strconv"
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
	askEvery   = 30 * time.Second // the least time between two questions for gauges that cost something
	askWithin  = 25 * time.Second // for the answer: 16 shards have 2,000 queues, each of which is asked twice
	scrapeWait = 2 * time.Second  // a scrape waits for the answer; Prometheus gives up after five where it asks every five
)

// Gauges are asked for when they are collected, at most every askEvery. Who waits for too long gets
// those of the last answer. Once nobody has answered there are none, and a line in the log.
type Gauges struct {
	descs []*prometheus.Desc
	Ask   func(context.Context) ([]prometheus.Metric, error) // one call at a time
	ctx   context.Context                                    // ends when the command is told to stop, or with Close
	stop  context.CancelFunc
	log   *slog.Logger

	mu     sync.Mutex
	next   time.Time
	asking chan struct{} // closed with the answer; nil while nothing is asked
	failed bool
	last   []prometheus.Metric
}

// newGauges returns gauges that can be asked for until ctx ends, or Close.
func newGauges(ctx context.Context, log *slog.Logger, ask func(context.Context) ([]prometheus.Metric, error), descs ...*prometheus.Desc) *Gauges {
	g := &Gauges{descs: descs, Ask: ask, log: log}
	g.ctx, g.stop = context.WithCancel(ctx)
	return g
}

// Describe implements [prometheus.Collector].
func (a *Gauges) Describe(out chan<- *prometheus.Desc) {
	for _, d := range a.descs {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (a *Gauges) Collect(out chan<- prometheus.Metric) {
	if asking := a.begin(); asking != nil {
		select {
		case <-asking:
		case <-time.After(scrapeWait):
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range a.last {
		out <- m
	}
}

// begin asks if it is time to. It returns what is closed with the answer, if that is still to come.
func (a *Gauges) begin() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asking == nil && !time.Now().Before(a.next) && a.ctx.Err() == nil {
		a.next, a.asking = time.Now().Add(askEvery), make(chan struct{})
		go a.ask()
	}
	return a.asking
}

func (a *Gauges) ask() {
	ctx, cancel := context.WithTimeout(a.ctx, askWithin)
	defer cancel()
	all, err := a.Ask(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil && !a.failed && a.ctx.Err() == nil {
		a.log.Warn("gauges are left out until they can be asked for", "error", err)
	}
	if a.last, a.failed = all, err != nil; a.failed {
		a.last = nil
	}
	close(a.asking)
	a.asking = nil
}

// Close ends a question that is still out. A Collect afterwards tells what the last one did.
func (a *Gauges) Close() {
	a.stop()
	a.mu.Lock()
	asking := a.asking
	a.mu.Unlock()
	if asking != nil {
		<-asking
	}
}

func gauge(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

// QueueGauges are the gauges of what a Delayer's queues hold. They are asked for over a connection
// of their own, which comes back by itself.
type QueueGauges struct {
	*Gauges
	cfg    backend.Config
	reader *status.Reader // nil until the broker has answered once
}

// NewQueueGauges asks once they are collected.
func NewQueueGauges(ctx context.Context, cfg backend.Config) *QueueGauges {
	messages := prometheus.NewDesc("delayer_messages", "Messages in the queues of the Delayer's prefix, by what they are there for.", []string{"prefix", "state"}, nil)
	prefix := cmp.Or(cfg.Prefix, delayer.DefaultOptions().Prefix)
	c := &QueueGauges{cfg: cfg}
	c.cfg.Observer, c.cfg.Logger = delayer.Observer{}, slog.New(slog.DiscardHandler) // the connection is of no interest
	c.cfg.Management = ""                                                            // AMQP tells all that is counted here
	c.Gauges = newGauges(ctx, cfg.Logger, func(ctx context.Context) (all []prometheus.Metric, err error) {
		if c.reader == nil {
			if c.reader, err = status.Open(ctx, status.Config{Backend: c.cfg}); err != nil {
				return nil, err
			}
		}
		found, err := c.reader.Read(ctx)
		if err != nil {
			return nil, err
		}
		for state, n := range byState(found) {
			all = append(all, gauge(messages, float64(n), prefix, state))
		}
		return all, nil
	}, messages)
	return c
}

// Close ends the connection too.
func (c *QueueGauges) Close() {
	c.Gauges.Close()
	if c.reader != nil {
		_ = c.reader.Close() // nothing was written
	}
}

func byState(s status.Status) map[string]int {
	sums := map[string]int{"waiting": 0, "intake": 0, "misrouted": 0, "unroutable": 0}
	for _, b := range s.Backends {
		if n, _ := b.Overdue(s.Time); n != nil {
			sums["overdue"] += *n // of those that wait
		}
		for _, q := range b.Queues {
			if q.Intake {
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

// NewOutboxGauges returns the gauges of what an outbox holds.
func NewOutboxGauges(ctx context.Context, log *slog.Logger, pool *pgxpool.Pool) *Gauges {
	messages := prometheus.NewDesc("delayer_outbox_messages", "Messages in the outbox.", []string{"state"}, nil)
	oldest := prometheus.NewDesc("delayer_outbox_oldest_seconds", "How long the oldest message that could be published has been in the outbox.", nil, nil)
	return newGauges(ctx, log, func(ctx context.Context) ([]prometheus.Metric, error) {
		lag, err := outbox.ReadLag(ctx, pool)
		if err != nil {
			return nil, err
		}
		return []prometheus.Metric{
			gauge(messages, float64(lag.Ready), "ready"), gauge(messages, float64(lag.Waiting), "waiting"),
			gauge(messages, float64(lag.Failed), "failed"), gauge(oldest, lag.Oldest.Seconds()),
		}, nil
	}, messages, oldest)
}

// NewEntryTimes returns what to register, and what to call for each message that an entry passes
// on.
func NewEntryTimes() (prometheus.Collector, func(exchange, action string, took time.Duration)) {
	times := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "delayer_entry_seconds", Help: "Time from reading a message of an entry until it was confirmed where it goes.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, 1, 5, 30},
	}, []string{"exchange", "action"})
	return times, func(exchange, action string, took time.Duration) {
		times.WithLabelValues(exchange, action).Observe(took.Seconds())
	}
}

// NewEntryGauges returns the gauges of what lies in front of entries.
func NewEntryGauges(ctx context.Context, log *slog.Logger, depths func(ctx context.Context, tell func(exchange, state string, messages int)) error) *Gauges {
	messages := prometheus.NewDesc("delayer_entry_messages", "Messages in the queues of an entry.", []string{"exchange", "state"}, nil)
	return newGauges(ctx, log, func(ctx context.Context) (all []prometheus.Metric, err error) {
		err = depths(ctx, func(exchange, state string, n int) { all = append(all, gauge(messages, float64(n), exchange, state)) })
		return all, err
	}, messages)
}

// NewHTTPTimes returns what to register, and what to call for each request of an HTTP API that was
// answered.
func NewHTTPTimes() (prometheus.Collector, func(route string, status int, took time.Duration)) {
	times := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "delayer_http_request_seconds", Help: "Time from the head of a request until it was answered.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, 1, 5, 30},
	}, []string{"route", "status"})
	return times, func(route string, status int, took time.Duration) {
		times.WithLabelValues(route, strconv.Itoa(status)).Observe(took.Seconds())
	}
}
