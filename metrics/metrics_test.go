package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/metrics"
)

// gather returns the values of all metrics, by name and labels; of a histogram its count.
func gather(t *testing.T, m *metrics.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(m))
	families, err := registry.Gather()
	require.NoError(t, err)
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	require.NoError(t, err)
	require.Empty(t, problems)
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := family.GetName()
			for _, label := range metric.GetLabel() {
				name += " " + label.GetValue()
			}
			values[name] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
		}
	}
	return values
}

const tiers = "fixedtiers"

func connection(o delayer.Observer, states ...delayer.ConnectionState) {
	for i, now := range states[1:] {
		o.Connection(delayer.ConnectionEvent{Backend: tiers, Was: states[i], Now: now})
	}
}

func TestObserver_Published(t *testing.T) {
	m := metrics.New()
	o := m.Observer()
	for kind, want := range map[error]string{
		nil: "confirmed", delayer.ErrUnknown: "unknown", delayer.ErrRefused: "refused", delayer.ErrUnroutable: "unroutable",
		delayer.ErrNotSent: "not_sent", delayer.ErrInvalid: "invalid", delayer.ErrOutOfRange: "out_of_range",
		delayer.ErrConflict: "conflict", delayer.ErrAccess: "access", delayer.ErrUnavailable: "unavailable", delayer.ErrNotFound: "not_found",
		errors.Join(delayer.ErrRefused, delayer.ErrUnknown): "refused",
		delayer.ErrClosed: "closed", delayer.ErrConfig: "config", errors.New("of nobody"): "other",
	} {
		var err error
		if kind != nil {
			err = fmt.Errorf("wrapped: %w", &delayer.Error{Op: "publish", Kind: kind})
		}
		before := gather(t, m)["delayer_published_total "+tiers+" "+want]
		o.Published(t.Context(), delayer.PublishEvent{Backend: tiers, Took: time.Millisecond, Err: err})
		require.InDelta(t, before+1, gather(t, m)["delayer_published_total "+tiers+" "+want], 0, want)
	}
	require.InDelta(t, 1, gather(t, m)["delayer_confirm_seconds "+tiers], 0, "of the confirmed one only")
}

func TestObserver_CountersBeginAtZero(t *testing.T) {
	m := metrics.New()
	connection(m.Observer(), delayer.ConnectionClosed, delayer.ConnectionUp)
	values := gather(t, m)
	for _, name := range []string{"delayer_published_total fixedtiers refused", "delayer_misrouted_total fixedtiers unroutable", "delayer_reconnects_total fixedtiers"} {
		require.Contains(t, values, name)
		require.Zero(t, values[name], name)
	}
}

func TestObserver_Connection(t *testing.T) {
	m := metrics.New()
	o := m.Observer()
	connection(o, delayer.ConnectionClosed, delayer.ConnectionUp, delayer.ConnectionBlocked, delayer.ConnectionDown, delayer.ConnectionUp)
	connection(o, delayer.ConnectionClosed, delayer.ConnectionUp, delayer.ConnectionDown)
	values := gather(t, m)
	require.InDelta(t, 1, values["delayer_connections fixedtiers up"], 0)
	require.Zero(t, values["delayer_connections fixedtiers blocked"])
	require.InDelta(t, 1, values["delayer_connections fixedtiers down"], 0)
	require.InDelta(t, 1, values["delayer_reconnects_total fixedtiers"], 0)
	connection(o, delayer.ConnectionUp, delayer.ConnectionClosed)
	connection(o, delayer.ConnectionDown, delayer.ConnectionClosed)
	values = gather(t, m)
	require.Zero(t, values["delayer_connections fixedtiers up"]+values["delayer_connections fixedtiers down"])
}

func TestObserver_OtherEvents(t *testing.T) {
	m := metrics.New()
	o := m.Observer()
	o.Deleted(delayer.DeletedEvent{Backend: tiers, Objects: []string{"a", "b"}})
	o.Redeclared(delayer.RedeclareEvent{Backend: tiers})
	o.Redeclared(delayer.RedeclareEvent{Backend: tiers, Err: errors.New("no connection")})
	o.Misrouted(delayer.MisroutedEvent{Backend: tiers, Outcome: delayer.SentBack})
	o.Held(delayer.HeldEvent{Messages: 2, Bytes: 30})
	o.Held(delayer.HeldEvent{Messages: -1, Bytes: -10})
	o.Round(delayer.RoundEvent{})
	o.Delivered(delayer.DeliveryEvent{Lateness: -time.Second})
	o.Delivered(delayer.DeliveryEvent{Err: &delayer.Error{Kind: delayer.ErrRefused}})
	o.Delivered(delayer.DeliveryEvent{Err: context.Canceled})
	o.Delivered(delayer.DeliveryEvent{Dropped: true})
	o.Parked(delayer.ParkedEvent{Queue: "q", Messages: 3})
	o.Parked(delayer.ParkedEvent{Queue: "q", Messages: 2})
	for _, outcome := range []delayer.Handling{delayer.Succeeded, delayer.Retried, delayer.Retried} {
		o.Handled(delayer.HandledEvent{Queue: "q", Outcome: outcome, Took: time.Second})
	}
	o.Handled(delayer.HandledEvent{Queue: "q", Outcome: delayer.Parked, Began: time.Now(), Due: time.Now().Add(-time.Minute)})
	m.Arrived(&amqp091.Delivery{Headers: amqp091.Table{delayer.Header: message.NewEnvelope(time.Now(), 0, "").String()}})
	m.Arrived(&amqp091.Delivery{})
	values := gather(t, m)
	for name, want := range map[string]float64{
		"delayer_deleted_objects_total fixedtiers":       2,
		"delayer_redeclarations_total fixedtiers ok":     1,
		"delayer_redeclarations_total fixedtiers failed": 1,
		"delayer_misrouted_total fixedtiers sent_back":   1,
		"delayer_controller_held_messages":               1,
		"delayer_controller_held_bytes":                  20,
		"delayer_controller_rounds_total":                1,
		"delayer_controller_delivered_total confirmed":   1,
		"delayer_controller_delivered_total refused":     1,
		"delayer_controller_delivered_total failed":      1,
		"delayer_controller_delivered_total dropped":     1,
		"delayer_lateness_seconds controller":            1,
		"delayer_lateness_seconds consumer":              2,
		"delayer_retry_attempts_total succeeded q":       1,
		"delayer_retry_attempts_total retried q":         2,
		"delayer_retry_attempts_total parked q":          1,
		"delayer_retry_attempts_total given_back q":      0,
		"delayer_retry_handler_seconds q":                4,
		"delayer_retry_parked_messages q":                2,
	} {
		require.Contains(t, values, name)
		require.InDelta(t, want, values[name], 0, name)
	}
}

// TestObserver_PublishedAllocations: to count a confirmed message costs no memory.
func TestObserver_PublishedAllocations(t *testing.T) {
	published := metrics.New().Observer().Published
	event := delayer.PublishEvent{Backend: tiers, Exchange: "orders", Key: "k", Delay: time.Minute, Took: time.Millisecond}
	require.Zero(t, testing.AllocsPerRun(100, func() { published(context.Background(), event) }))
}
