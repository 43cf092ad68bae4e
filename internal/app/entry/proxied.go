package entry

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/internal/lib/xdelay"
	"github.com/delayer-go/delayer/topology"
)

// Proxied is the one entry behind all exchanges that package proxy delays. Each of them has an
// exchange in front of it, named by [InFront], which leads to the entry. The broker writes that name
// into each message, so the destination is known without a list:
//
//	publisher → proxy ┬→ orders                                       without a delay
//	                  └→ delayer.proxy.orders → delayer.proxy → here → orders
func Proxied(prefix string) Spec {
	return Spec{Name: prefix + ".proxy", Type: amqp091.ExchangeFanout, Allow: []string{"*"}, proxied: true}
}

const longestName = 255 // bytes, in AMQP

// InFront is the exchange to which the proxy publishes what is delayed for an exchange. If that name
// would be too long it has a hash, and the message needs [ExchangeHeader] with the exchange: header
// is then true.
func InFront(prefix, exchange string) (name string, header bool) {
	front := Proxied(prefix).Name
	if name = front + "." + exchange; len(name) <= longestName {
		return name, false
	}
	sum := sha256.Sum256([]byte(exchange))
	return front + ":" + base64.RawURLEncoding.EncodeToString(sum[:]), true
}

// behind is the inverse of [InFront]; header is what a publisher may have written as well, and counts
// only where the name of the exchange in front is its hash.
func behind(prefix, front, header string) (exchange string, ok bool) {
	if exchange, ok = strings.CutPrefix(front, Proxied(prefix).Name+"."); ok {
		return exchange, true
	}
	name, hashed := InFront(prefix, header)
	return header, hashed && name == front
}

// Delays reports whether a header asks for a delay.
func Delays(header string) bool {
	return header == xdelay.Header || header == DelayHeader || header == DueHeader
}

// unroutable is the exchange that keeps what one of ours cannot route.
func unroutable(prefix string) string { return delivery.NewStage(prefix, false).Unroutable() }

// Fronts are the exchanges that package proxy publishes to: see [InFront].
type Fronts struct {
	control *broker.Control
	objects objects.Live
	prefix  string
	specs   []Spec
}

// Fronts are those of the broker and the prefix of the runner, which must have entries.
func (r *Runner) Fronts() *Fronts {
	return &Fronts{r.control, objects.Of(r.control, ""), r.cfg.Settings.Prefix, r.cfg.Entries}
}

// Of is [InFront].
func (f *Fronts) Of(exchange string) (front string, header bool) { return InFront(f.prefix, exchange) }

// Served reports whether an exchange is an entry itself.
func (f *Fronts) Served(exchange string) bool {
	return slices.ContainsFunc(f.specs, func(s Spec) bool { return s.Name == exchange })
}

// Refused returns why an exchange cannot be delayed, or "".
func (f *Fronts) Refused(exchange string) string {
	switch {
	case Owns(f.prefix, exchange):
		return "its name is one of delayer's own"
	case strings.ContainsAny(exchange, "\r\n"): // which the broker removes
		return "its name has a line break"
	}
	return ""
}

// plan is the exchange in front of one, and its way to the entry. What it cannot route is kept.
func (f *Fronts) plan(exchange string) topology.Plan {
	name, _ := f.Of(exchange)
	return topology.Plan{
		Exchanges: []topology.Exchange{{Name: name, Kind: amqp091.ExchangeFanout, Alternate: unroutable(f.prefix)}},
		Bindings:  []topology.Binding{{Source: name, Target: Proxied(f.prefix).Name, ToExchange: true}},
	}
}

// Put declares it.
func (f *Fronts) Put(ctx context.Context, exchange string) error {
	return f.objects.Apply(ctx, f.plan(exchange))
}

// Remove deletes it. Another that is missing is no error.
func (f *Fronts) Remove(ctx context.Context, exchange string) error {
	return f.objects.Remove(ctx, f.plan(exchange))
}

// Has asks the broker whether it exists.
func (f *Fronts) Has(ctx context.Context, exchange string) (bool, error) {
	name, _ := f.Of(exchange)
	there, err := delivery.Exists(ctx, f.control, name, "")
	if err == nil && there == delivery.Unknown {
		err = fmt.Errorf("the user of delayer serve may not look at %s: see docs/operating.md", delivery.Place(name, ""))
	}
	return there == delivery.There, err
}
