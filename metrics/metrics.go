// Package metrics exports what Delayers do as Prometheus metrics:
//
//	m := metrics.New()
//	prometheus.MustRegister(m)
//	options := delayer.Options{URL: url, Observer: m.Observer()}
//
// One Collector serves any number of Delayers. The page docs/operating.md of the repository lists the
// metrics, with alerts and a Grafana dashboard. Labels of this package hold no exchange, routing key
// or id, and only those queues that package retry consumes: the number of time series is bounded.
//
// Only programs that import this package link Prometheus.
package metrics

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

// A Collector holds the metrics. It is a [prometheus.Collector], and safe for concurrent use.
type Collector struct {
	all            *prometheus.Registry // of those below
	published      *prometheus.CounterVec
	confirm        *prometheus.HistogramVec
	connections    *prometheus.GaugeVec
	reconnects     *prometheus.CounterVec
	deleted        *prometheus.CounterVec
	redeclarations *prometheus.CounterVec
	misrouted      *prometheus.CounterVec
	proofs         *prometheus.CounterVec
	held           prometheus.Gauge
	heldBytes      prometheus.Gauge
	rounds         prometheus.Counter
	delivered      *prometheus.CounterVec
	lateness       *prometheus.HistogramVec
	handled        *prometheus.CounterVec
	handling       *prometheus.HistogramVec
	parked         *prometheus.GaugeVec
}

// seconds are the bounds of the histograms.
var seconds = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}

// New returns a Collector. Register it with Prometheus.
func New() *Collector {
	all := prometheus.NewRegistry()
	with := promauto.With(all)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return with.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels)
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return with.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + name, Help: help}, labels)
	}
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return with.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: seconds}, labels)
	}
	return &Collector{
		all:            all,
		published:      counter("published_total", "Calls of Publish, by their result.", "backend", "result"),
		confirm:        histogram("confirm_seconds", "Time from the call of Publish to the broker's confirm, of confirmed messages.", "backend"),
		connections:    gauge("connections", "Connections to the broker, by their state.", "backend", "state"),
		reconnects:     counter("reconnects_total", "Connections that were lost and made again.", "backend"),
		deleted:        counter("deleted_objects_total", "Exchanges and queues that were found missing; messages in such a queue are lost.", "backend"),
		redeclarations: counter("redeclarations_total", "Attempts to declare the topology again, by their result.", "backend", "result"),
		misrouted:      counter("misrouted_total", "Misrouted messages that were moved on, by where they went.", "backend", "outcome"),
		proofs:         counter("proofs_total", "Proofs that the broker of a connection hides messages until they are due, by their result.", "backend", "result"),
		held:           gauge("controller_held_messages", "Messages in the memory of controllers.").WithLabelValues(),
		heldBytes:      gauge("controller_held_bytes", "Bytes of messages in the memory of controllers.").WithLabelValues(),
		rounds:         counter("controller_rounds_total", "Messages that controllers of rounds have sent to another waiting queue.").WithLabelValues(),
		delivered:      counter("controller_delivered_total", "Attempts of controllers to send a message that is due to its destination, by their result.", "result"),
		lateness:       histogram("lateness_seconds", "Time from when a message was due to when it was seen, by the clocks of publisher and observer.", "seen_by"),
		handled:        counter("retry_attempts_total", "Runs of handlers, by what became of the message.", "queue", "outcome"),
		handling:       histogram("retry_handler_seconds", "Time that handlers took.", "queue"),
		parked:         gauge("retry_parked_messages", "Messages that were given up, in the queue for parked ones.", "queue"),
	}
}

const prefix = "delayer_"

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(out chan<- *prometheus.Desc) { c.all.Describe(out) }

// Collect implements [prometheus.Collector].
func (c *Collector) Collect(out chan<- prometheus.Metric) { c.all.Collect(out) }

// Observer returns an Observer that counts. To see an event yourself as well, replace its function
// with one that also calls the original.
func (c *Collector) Observer() delayer.Observer {
	return delayer.Observer{
		Published:  c.publishing(),
		Connection: c.connection,
		Deleted: func(e delayer.DeletedEvent) {
			c.deleted.WithLabelValues(e.Backend).Add(float64(len(e.Objects)))
		},
		Redeclared: func(e delayer.RedeclareEvent) {
			c.redeclarations.WithLabelValues(e.Backend, okOrFailed(e.Err)).Inc()
		},
		Misrouted: func(e delayer.MisroutedEvent) {
			c.misrouted.WithLabelValues(e.Backend, outcomes[e.Outcome]).Inc()
		},
		Proved: func(e delayer.ProofEvent) {
			c.proofs.WithLabelValues(e.Backend, okOrFailed(e.Err)).Inc()
		},
		Held: func(e delayer.HeldEvent) {
			c.held.Add(float64(e.Messages))
			c.heldBytes.Add(float64(e.Bytes))
		},
		Round: func(delayer.RoundEvent) { c.rounds.Inc() },
		Delivered: func(e delayer.DeliveryEvent) {
			c.delivered.WithLabelValues(delivered(e)).Inc()
			if e.Err == nil && !e.Dropped {
				c.late("controller", e.Lateness)
			}
		},
		Handled: func(e delayer.HandledEvent) {
			c.handled.WithLabelValues(e.Queue, handlings[e.Outcome]).Inc()
			c.handling.WithLabelValues(e.Queue).Observe(e.Took.Seconds())
			if !e.Due.IsZero() {
				c.late("consumer", e.Began.Sub(e.Due))
			}
		},
		Parked: c.park,
	}
}

// Arrived counts how late a message reached its consumer. Messages that no Delayer published are
// not counted. Do not call it in a handler of package retry that has the [Collector.Observer]: they
// are counted there.
func (c *Collector) Arrived(d *amqp091.Delivery) {
	if e, err := delayer.ParseHeader(d.Headers); err == nil {
		c.late("consumer", time.Since(e.Due))
	}
}

// confirmed are the metrics of a backend's confirmed messages.
type confirmed struct {
	backend string
	total   prometheus.Counter
	seconds prometheus.Observer
}

// publishing returns a function that counts published messages. It keeps the metrics of confirmed
// ones: finding them by their labels costs more than counting, and one Delayer has one backend.
func (c *Collector) publishing() func(context.Context, delayer.PublishEvent) {
	var kept atomic.Pointer[confirmed]
	return func(_ context.Context, e delayer.PublishEvent) {
		if e.Err != nil {
			c.published.WithLabelValues(e.Backend, result(e.Err)).Inc()
			return
		}
		to := kept.Load()
		if to == nil || to.backend != e.Backend {
			to = &confirmed{e.Backend, c.published.WithLabelValues(e.Backend, result(nil)), c.confirm.WithLabelValues(e.Backend)}
			kept.Store(to)
		}
		to.total.Inc()
		to.seconds.Observe(e.Took.Seconds())
	}
}

// connection counts the states. The first connection of a backend sets its counters to 0, because
// Prometheus does not see the increase of a counter that appears with 1.
func (c *Collector) connection(e delayer.ConnectionEvent) {
	if e.Was == delayer.ConnectionClosed {
		c.begin(e.Backend)
	} else {
		c.connections.WithLabelValues(e.Backend, states[e.Was]).Dec()
	}
	if e.Now != delayer.ConnectionClosed {
		c.connections.WithLabelValues(e.Backend, states[e.Now]).Inc()
	}
	if e.Was == delayer.ConnectionDown && e.Now == delayer.ConnectionUp {
		c.reconnects.WithLabelValues(e.Backend).Inc()
	}
}

func (c *Collector) begin(backend string) {
	for _, state := range states[delayer.ConnectionUp:] {
		c.connections.WithLabelValues(backend, state)
	}
	c.reconnects.WithLabelValues(backend)
	if backend == "" { // a connection of a command, which publishes through a Delayer of its own
		return
	}
	for _, r := range results {
		c.published.WithLabelValues(backend, r.name)
	}
	c.confirm.WithLabelValues(backend)
	c.deleted.WithLabelValues(backend)
	c.redeclarations.WithLabelValues(backend, okOrFailed(nil))
	c.redeclarations.WithLabelValues(backend, okOrFailed(delayer.ErrUnavailable))
	for _, outcome := range outcomes {
		c.misrouted.WithLabelValues(backend, outcome)
	}
	for _, r := range deliveryResults {
		c.delivered.WithLabelValues(r)
	}
	c.lateness.WithLabelValues("controller")
}

// park is called when a consumer begins, which sets its counters to 0, and from then on.
func (c *Collector) park(e delayer.ParkedEvent) {
	for _, outcome := range handlings {
		c.handled.WithLabelValues(e.Queue, outcome)
	}
	c.handling.WithLabelValues(e.Queue)
	c.parked.WithLabelValues(e.Queue).Set(float64(e.Messages))
}

// late counts a message. One that seems early, because the clocks differ, counts as on time.
func (c *Collector) late(by string, lateness time.Duration) {
	c.lateness.WithLabelValues(by).Observe(max(lateness, 0).Seconds())
}

var results = []struct {
	kind error
	name string
}{
	{nil, "confirmed"},
	{delayer.ErrRefused, "refused"}, // before unknown, which it may be too
	{delayer.ErrUnknown, "unknown"}, // before the others: its chain may have another kind
	{delayer.ErrUnroutable, "unroutable"},
	{delayer.ErrNotSent, "not_sent"},
	{delayer.ErrInvalid, "invalid"},
	{delayer.ErrOutOfRange, "out_of_range"},
	{delayer.ErrConflict, "conflict"},
	{delayer.ErrAccess, "access"},
	{delayer.ErrUnavailable, "unavailable"},
	{delayer.ErrNotFound, "not_found"},
	{delayer.ErrClosed, "closed"},
	{delayer.ErrConfig, "config"},
	{errOther, "other"},
}

// errOther stands for errors that are not of package delayer.
var errOther = errors.New("other")

func result(err error) string {
	if err == nil {
		return results[0].name
	}
	for _, r := range results[1:] {
		if errors.Is(err, r.kind) {
			return r.name
		}
	}
	return "other"
}

func okOrFailed(err error) string {
	if err != nil {
		return "failed"
	}
	return "ok"
}

var deliveryResults = [...]string{"confirmed", "refused", "failed", "dropped"}

func delivered(e delayer.DeliveryEvent) string {
	switch {
	case e.Dropped:
		return deliveryResults[3]
	case e.Err == nil:
		return deliveryResults[0]
	case errors.Is(e.Err, delayer.ErrRefused), errors.Is(e.Err, delayer.ErrUnroutable):
		return deliveryResults[1]
	}
	return deliveryResults[2]
}

var states = [...]string{
	delayer.ConnectionClosed: "closed", delayer.ConnectionUp: "up", delayer.ConnectionBlocked: "blocked",
	delayer.ConnectionDown: "down",
}

var outcomes = [...]string{
	delayer.SentOn: "sent_on", delayer.SentBack: "sent_back", delayer.KeptUnroutable: "unroutable",
}

var handlings = [...]string{
	delayer.Succeeded: "succeeded", delayer.Retried: "retried", delayer.Parked: "parked", delayer.GivenBack: "given_back",
}
