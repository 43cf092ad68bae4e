package plugin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/topology"
)

// existing is the [engine.Strategy] of an exchange of the user's. It leads to its destinations by
// itself.
type existing struct {
	exchange string
	look     func(context.Context, func(*amqp091.Channel) error) error
	seen     atomic.Int64 // when the exchange was last seen, in nanoseconds since the Unix epoch
}

var _ engine.Direct = (*existing)(nil)

func (*existing) Plan() topology.Plan { return topology.Plan{} }
func (s *existing) Reset()            { s.seen.Store(0) }

// Exchange implements [engine.Direct]. How it routes is its owner's business.
func (s *existing) Exchange() topology.Exchange {
	return topology.Exchange{Name: s.exchange, Kind: delayedMessage, DelayedKind: topology.Direct}
}

func (*existing) Limits() delayer.Limits { return guarantees() }

func (*existing) Growth() message.Growth { return message.Growth{HeaderSize: headerSize} }

// Enter publishes to the exchange as it is: its bindings do the rest.
func (s *existing) Enter(ctx context.Context, m engine.Wait) (engine.Entry, error) {
	headers, err := await(ctx, m.Delay)
	return engine.Entry{Exchange: s.exchange, Headers: headers, Optional: true, Foreign: true}, err
}

// Accept refuses every other exchange.
func (s *existing) Accept(exchange string) error {
	if exchange == s.exchange {
		return nil
	}
	return fmt.Errorf("with plugin.exchange, messages go straight to that exchange: publish to %q, or leave plugin.exchange out to publish to any", s.exchange)
}

// freshFor is how long the exchange is assumed to exist after it was last seen, as for all
// destinations.
const freshFor = 100 * time.Millisecond

// Exists returns ErrUnroutable if the exchange is gone. A message to it would close the channel,
// and the outcome of other messages would be unknown.
func (s *existing) Exists(ctx context.Context) error {
	now := time.Now().UnixNano()
	if age := now - s.seen.Load(); age >= 0 && age < int64(freshFor) {
		return nil
	}
	err := s.look(ctx, func(ch *amqp091.Channel) error {
		return ch.ExchangeDeclarePassive(s.exchange, delayedMessage, durable, !autoDelete, !internal, waitForAnswer, nil)
	})
	if err != nil {
		return broker.Explain("publish", Name, fmt.Sprintf("exchange %q", s.exchange), err)
	}
	s.seen.Store(now)
	return nil
}

// Names for the bare booleans of amqp091-go.
const (
	durable       = true
	autoDelete    = true
	internal      = true
	waitForAnswer = false
)

// inspect checks that an exchange exists and has the plugin's type. AMQP cannot ask for the type.
// But when an exchange is declared again, the broker compares first the type, then the flags, then
// the alternate exchange. A missing exchange is not created: the declaration lacks x-delayed-type,
// which the plugin requires.
func inspect(ctx context.Context, c *engine.Connected, name string) error {
	guess := struct{ durable, autoDelete bool }{durable: true}
	const guesses = 4 // two flags, on or off
	var err error
	for range guesses {
		err = c.Control().Do(ctx, func(ch *amqp091.Channel) error {
			return ch.ExchangeDeclare(name, delayedMessage, guess.durable, guess.autoDelete, !internal, waitForAnswer, nil)
		})
		switch {
		case differs(err, "durable") && guess.durable:
			guess.durable = false
		case differs(err, "auto_delete") && !guess.autoDelete:
			guess.autoDelete = true
		default:
			return unfit(name, err)
		}
	}
	return unfit(name, err)
}

// differs reports whether the broker found another value of an argument.
func differs(err error, arg string) bool {
	return said(err, "inequivalent arg '"+arg+"'")
}

func said(err error, text string) bool {
	var amqpErr *amqp091.Error
	return errors.As(err, &amqpErr) && strings.Contains(amqpErr.Reason, text)
}

// unfit explains why an exchange cannot be used.
func unfit(name string, err error) error {
	object := fmt.Sprintf("exchange %q", name)
	fail := func(kind error, cause, hint string) error {
		return &delayer.Error{Op: "open", Backend: Name, Object: object, Kind: kind, Cause: errors.New(cause), Hint: hint}
	}
	const instead = "name another exchange as plugin.exchange, or leave it out for one of our own"
	switch {
	case err == nil:
		return nil
	case said(err, "x-delayed-type"):
		return fail(delayer.ErrUnroutable, "plugin.exchange does not exist", "declare it first, or leave plugin.exchange out for one of our own")
	case differs(err, "type"):
		return fail(delayer.ErrConflict, "plugin.exchange is not of type "+delayedMessage, instead)
	case differs(err, "internal"):
		return fail(delayer.ErrConflict, "plugin.exchange is internal: nobody may publish to it", instead)
	case differs(err, "alternate-exchange"):
		return fail(delayer.ErrConflict, "plugin.exchange has an alternate exchange, to which the plugin gives a copy of every delayed message at once", instead)
	}
	return broker.Explain("open", Name, object, err)
}
