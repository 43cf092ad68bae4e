package service

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/internal/lib/pace"
	"github.com/delayer-go/delayer/status"
)

const (
	askEvery  = 30 * time.Second // for gauges that cost something
	askWithin = 25 * time.Second // for the answer: each queue is asked twice
)

// Gauges are asked for every half a minute. A scrape gets those of the last answer: none, and a line
// in the log, while there is no answer.
type Gauges struct {
	descs []*prometheus.Desc
	stop  context.CancelFunc
	done  chan struct{} // closed once nothing is asked any more

	mu   sync.Mutex
	last []prometheus.Metric
}

// newGauges asks until Close, and then calls end unless it is nil.
func newGauges(ctx context.Context, log *slog.Logger, ask func(context.Context) ([]prometheus.Metric, error), end func(), descs ...*prometheus.Desc) *Gauges {
	ctx, stop := context.WithCancel(ctx)
	g := &Gauges{descs: descs, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(g.done)
		failed, again := false, pace.Backoff{First: time.Second, Longest: askEvery}
		for ctx.Err() == nil {
			asking, cancel := context.WithTimeout(ctx, askWithin)
			all, err := ask(asking)
			cancel()
			if err != nil && !failed && ctx.Err() == nil {
				log.Warn("gauges are left out until they can be asked for", "error", err)
			}
			pause := askEvery
			if failed = err != nil; failed {
				all, pause = nil, again.Failed()
			} else {
				again.Reset()
			}
			g.mu.Lock()
			g.last = all
			g.mu.Unlock()
			_ = pace.Sleep(ctx, pause)
		}
		if end != nil {
			end()
		}
	}()
	return g
}

// Describe implements [prometheus.Collector].
func (g *Gauges) Describe(out chan<- *prometheus.Desc) {
	for _, d := range g.descs {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (g *Gauges) Collect(out chan<- prometheus.Metric) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.last {
		out <- m
	}
}

// Close ends a question that is still out.
func (g *Gauges) Close() {
	g.stop()
	<-g.done
}

func gauge(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

// NewQueueGauges are those of what a Delayer's queues hold. They are asked for over a connection of
// their own, which comes back by itself.
func NewQueueGauges(ctx context.Context, cfg backend.Config) *Gauges {
	messages := prometheus.NewDesc("delayer_messages", "Messages in the queues of the Delayer's prefix, by what they are there for.", []string{"prefix", "state"}, nil)
	log := cfg.Logger
	cfg.Observer, cfg.Logger = delayer.Observer{}, slog.New(slog.DiscardHandler) // the connection is of no interest
	cfg.Management = ""                                                          // AMQP tells all that is counted here
	var reader *status.Reader                                                    // nil until the broker has answered once
	return newGauges(ctx, log, func(ctx context.Context) (all []prometheus.Metric, err error) {
		if reader == nil {
			if reader, err = status.Open(ctx, status.Config{Backend: cfg}); err != nil {
				return nil, err
			}
		}
		found, err := reader.Read(ctx)
		if err != nil {
			return nil, err
		}
		for state, n := range byState(found) {
			all = append(all, gauge(messages, float64(n), found.Prefix, state))
		}
		return all, nil
	}, func() {
		if reader != nil {
			_ = reader.Close() // nothing was written
		}
	}, messages)
}

// NewPolicyGauges are asked for through the management API.
func NewPolicyGauges(ctx context.Context, cfg backend.Config) *Gauges {
	harmful := prometheus.NewDesc("delayer_harmful_policies",
		"Policies that would make messages early or lose them, counted for each queue or exchange.", []string{"prefix"}, nil)
	return newGauges(ctx, cfg.Logger, func(ctx context.Context) ([]prometheus.Metric, error) {
		settings, err := engine.Resolve(cfg.Options, cfg.Backend)
		if err != nil {
			return nil, err
		}
		plan, err := backend.Topology(cfg)
		if err != nil {
			return nil, err
		}
		found, err := settings.Problems(ctx, plan)
		if err != nil {
			return nil, err
		}
		harm := 0
		for _, p := range found {
			if p.Kind == objects.IsUnknown {
				err = errors.New(p.String())
			} else {
				harm++
			}
		}
		if harm == 0 && err != nil { // 0 would say that there is none
			return nil, err
		}
		prefix := cmp.Or(cfg.Prefix, delayer.DefaultOptions().Prefix)
		return []prometheus.Metric{gauge(harmful, float64(harm), prefix)}, nil
	}, nil, harmful)
}

func byState(s status.Status) map[string]int {
	unknown := false
	sums := map[string]int{"waiting": 0, "intake": 0, "misrouted": 0, "unroutable": 0}
	for _, b := range s.Backends {
		if n, _ := b.Overdue(); n != nil {
			sums["overdue"] += *n // of those that wait
		}
		if b.Unread != nil { // slots, whose queues hold bundles
			sums["intake"] += *b.Unread
			if b.Waiting == nil {
				unknown = true
			} else {
				sums["waiting"] += *b.Waiting - *b.Unread
			}
			continue
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
	if unknown { // 0 would say that nothing waits
		delete(sums, "waiting")
	}
	return sums
}

// NewOutboxGauges returns the gauges of what an outbox holds: messages that could be published, that
// wait and that failed, and how old the oldest of the first is.
func NewOutboxGauges(ctx context.Context, log *slog.Logger, read func(context.Context) (ready, waiting, failed int64, oldest time.Duration, err error)) *Gauges {
	messages := prometheus.NewDesc("delayer_outbox_messages", "Messages in the outbox.", []string{"state"}, nil)
	age := prometheus.NewDesc("delayer_outbox_oldest_seconds", "How long the oldest message that could be published has been in the outbox.", nil, nil)
	return newGauges(ctx, log, func(ctx context.Context) ([]prometheus.Metric, error) {
		ready, waiting, failed, oldest, err := read(ctx)
		if err != nil {
			return nil, err
		}
		return []prometheus.Metric{
			gauge(messages, float64(ready), "ready"), gauge(messages, float64(waiting), "waiting"),
			gauge(messages, float64(failed), "failed"), gauge(age, oldest.Seconds()),
		}, nil
	}, nil, messages, age)
}

// NewEntryTimes returns what to register, and what to call for each message that an entry passes
// on.
func NewEntryTimes() (*prometheus.HistogramVec, func(exchange, action string, took time.Duration)) {
	times := newTimes("delayer_entry_seconds", "Time from reading a message of an entry until it was confirmed where it goes.", "exchange", "action")
	return times, func(exchange, action string, took time.Duration) {
		times.WithLabelValues(exchange, action).Observe(took.Seconds())
	}
}

func newTimes(name, help string, labels ...string) *prometheus.HistogramVec {
	buckets := []float64{.001, .0025, .005, .01, .025, .05, .1, .25, 1, 5, 30}
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

// NewEntryGauges returns the gauges of what lies in front of entries.
func NewEntryGauges(ctx context.Context, log *slog.Logger, depths func(ctx context.Context, tell func(exchange, state string, messages int)) error) *Gauges {
	messages := prometheus.NewDesc("delayer_entry_messages", "Messages in the queues of an entry.", []string{"exchange", "state"}, nil)
	return newGauges(ctx, log, func(ctx context.Context) (all []prometheus.Metric, err error) {
		err = depths(ctx, func(exchange, state string, n int) { all = append(all, gauge(messages, float64(n), exchange, state)) })
		return all, err
	}, nil, messages)
}

// NewProxyMetrics returns what to register: how many clients the proxy has, which the caller keeps,
// and what is counted; and what to call for each thing that is.
func NewProxyMetrics(counted ...string) (clients prometheus.Gauge, counts prometheus.Collector, count func(what string)) {
	clients = prometheus.NewGauge(prometheus.GaugeOpts{Name: "delayer_proxy_connections", Help: "Clients that are connected to the proxy."})
	total := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "delayer_proxy_total", Help: "Delayed exchanges declared through the proxy, and messages that it diverted or passed."}, []string{"action"})
	by := map[string]prometheus.Counter{}
	for _, what := range counted {
		by[what] = total.WithLabelValues(what)
	}
	return clients, total, func(what string) { by[what].Inc() }
}

// NewHTTPTimes returns what to register, and what to call for each request of an HTTP API that was
// answered.
func NewHTTPTimes() (prometheus.Collector, func(route string, status int, took time.Duration)) {
	times := newTimes("delayer_http_request_seconds", "Time from the head of a request until it was answered.", "route", "status")
	return times, func(route string, status int, took time.Duration) {
		times.WithLabelValues(route, strconv.Itoa(status)).Observe(took.Seconds())
	}
}
