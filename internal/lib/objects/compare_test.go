package objects_test

import (
	"maps"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/internal/lib/role"
	"github.com/delayer-go/delayer/topology"
)

func wanted() objects.Wanted {
	return objects.Wanted{
		Prefix: "p", Leads: delivery.NewStage("p", true).Leads,
		Plan: topology.Plan{
			Markers:   []topology.Exchange{{Name: "p.ladder", Kind: amqp091.ExchangeFanout, Alternate: "p:1s"}},
			Exchanges: []topology.Exchange{{Name: "p.in", Kind: amqp091.ExchangeDirect, Alternate: "p.unroutable"}, {Name: "p.delivery", Kind: amqp091.ExchangeDirect}, {Name: "p.gate", Kind: amqp091.ExchangeDirect, AutoDelete: true}, {Name: "p.route", Kind: amqp091.ExchangeTopic, Optional: true}},
			Queues: []topology.Queue{
				{Name: "p.wait", Args: amqp091.Table{"x-queue-type": "quorum", "x-message-ttl": int64(1001)}},
				{Name: "p.discard", Role: role.Discard}, {Name: "p.route.1m", Optional: true},
			},
			Bindings: []topology.Binding{{Source: "p.in", Key: "a", Target: "p.wait"}, {Source: "p.route", Target: "p.discard"}},
		},
		OnUse: []topology.Binding{{Source: "p.in", Key: "~d:1s>end..", Target: "p.delivery", ToExchange: true}},
	}
}

// sound is a broker without differences, of which a Delayer has declared all but what is optional.
func sound() objects.Actual {
	return objects.Actual{
		Exchanges: map[string]objects.Object{
			"p.ladder":   is("fanout", objects.Object{"alternate-exchange": "p:1s"}),
			"p.in":       is("direct", objects.Object{"alternate-exchange": "p.unroutable"}),
			"p.delivery": is("direct", nil),
			"p.gate":     is("direct", objects.Object{"auto_delete": true}),
		},
		Queues: map[string]objects.Object{
			"p.wait":    is("", objects.Object{"x-queue-type": "quorum", "x-message-ttl": int64(1001)}),
			"p.discard": is("", nil),
		},
		Bindings: []objects.Bound{
			binding("", "p.wait", "p.wait"), binding("p.in", "a", "p.wait"),
			{Binding: topology.Binding{Source: "p.in", Key: "~d:1s>end", Target: "p.delivery", ToExchange: true}},
			{Binding: topology.Binding{Source: "p.in", Key: "~d:1s>end......", Target: "p.delivery", ToExchange: true}},
			binding("p.delivery", "~d:=hash", "orders"), binding("p.delivery", "~d:=hash", "p.discard"),
			binding("p.in", "x", "p.clock.ABC.answers.DEF"), binding("p.other.step", "x", "p.wait"),
			binding("orders", "#", "work"),
		},
	}
}

// is an object with all that differs from the usual.
func is(kind string, differs objects.Object) objects.Object {
	o := objects.Object{"type": kind, "durable": true, "auto_delete": false, "internal": false}
	maps.Copy(o, differs)
	return o
}

func binding(source, key, target string) objects.Bound {
	return objects.Bound{Binding: topology.Binding{Source: source, Key: key, Target: target}}
}

func TestCompare(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*objects.Actual)
		want   []string
	}{
		"nothing": {func(*objects.Actual) {}, nil},
		"no queue": {func(a *objects.Actual) { delete(a.Queues, "p.wait"); a.Bindings = a.Bindings[2:] },
			[]string{`missing: queue "p.wait": it does not exist`}},
		"no exchange": {func(a *objects.Actual) { delete(a.Exchanges, "p.in"); a.Bindings = nil },
			[]string{`missing: exchange "p.in": it does not exist`}},
		"no binding": {func(a *objects.Actual) { a.Bindings = a.Bindings[2:] },
			[]string{`missing: binding from exchange "p.in" to queue "p.wait" with key "a": it does not exist`}},
		"another configuration": {func(a *objects.Actual) { a.Exchanges["p.ladder"]["alternate-exchange"] = "p:2s" },
			[]string{`differs: exchange "p.ladder": alternate-exchange is "p:2s", want "p:1s"`}},
		"not deleted by itself": {func(a *objects.Actual) { a.Exchanges["p.gate"] = is("direct", nil) },
			[]string{`differs: exchange "p.gate": auto_delete is false, want true`}},
		"surplus to what drops": {func(a *objects.Actual) { a.Bindings = append(a.Bindings, binding("orders", "#", "p.discard")) },
			[]string{`surplus: binding from exchange "orders" to queue "p.discard" with key "#": no Delayer has made it`}},
		"other arguments": {func(a *objects.Actual) {
			a.Queues["p.wait"] = is("", objects.Object{"durable": false, "auto_delete": true, "x-queue-type": "quorum", "x-expires": int64(5)})
		}, []string{`differs: queue "p.wait": auto_delete is true, want false; durable is false, want true; x-expires is 5, want not set; x-message-ttl is not set, want 1001`}},
		"another type": {func(a *objects.Actual) { a.Exchanges["p.delivery"] = is("topic", nil) },
			[]string{`differs: exchange "p.delivery": type is "topic", want "direct"`}},
		"internal": {func(a *objects.Actual) { a.Exchanges["p.delivery"] = is("direct", objects.Object{"internal": true}) },
			[]string{`differs: exchange "p.delivery": internal is true, want false`}},
		"surplus from us": {func(a *objects.Actual) { a.Bindings = append(a.Bindings, binding("p.in", "b", "work")) },
			[]string{`surplus: binding from exchange "p.in" to queue "work" with key "b": no Delayer has made it`}},
		"surplus to us": {func(a *objects.Actual) { a.Bindings = append(a.Bindings, binding("orders", "b", "p.wait")) },
			[]string{`surplus: binding from exchange "orders" to queue "p.wait" with key "b": no Delayer has made it`}},
		"a copy from the delivery exchange": {func(a *objects.Actual) { a.Bindings = append(a.Bindings, binding("p.delivery", "b", "spy")) },
			[]string{`surplus: binding from exchange "p.delivery" to queue "spy" with key "b": no Delayer has made it`}},
		"surplus by its arguments": {func(a *objects.Actual) {
			b := binding("p.in", "a", "p.wait")
			b.Args = amqp091.Table{"x": int64(1)}
			a.Bindings = append(a.Bindings, b)
		}, []string{`surplus: binding from exchange "p.in" to queue "p.wait" with key "a": no Delayer has made it; its arguments are map[x:1]`}},
		"optional, and only a part is there": {func(a *objects.Actual) {
			a.Queues["p.route.1m"] = is("", nil)
			a.Bindings = append(a.Bindings, binding("orders", "#", "p.route.1m"))
		},
			[]string{`missing: exchange "p.route": it does not exist`}},
	} {
		t.Run(name, func(t *testing.T) {
			got := sound()
			c.change(&got)
			var found []string
			for _, d := range objects.Compare(wanted(), got) {
				found = append(found, d.Kind+": "+d.String())
			}
			require.Equal(t, c.want, found)
		})
	}
}
