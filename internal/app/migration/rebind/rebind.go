// Package rebind moves bindings that others make on an exchange of delayer serve to where it passes
// messages on. Services that bind their queues when they start, as they did to the exchange of the
// plugin, need no release then: what they bind to the exchange itself would get messages at once,
// and again when they are due.
package rebind

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/app/entry"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/app/migration/record"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/pace"
)

const (
	// lookEvery is how often the bindings of the exchange are looked at.
	lookEvery = 5 * time.Second
	// askEvery is how often at most the API is asked whether the exchange is the plugin's: the
	// broker scans the plugin's table for the answer.
	askEvery = time.Minute
)

// A Mover moves the bindings of one entry.
type Mover struct {
	Spec    entry.Spec
	Prefix  string
	API     *inventory.API
	Control *broker.Control // binds, and holds the lock of the exchange meanwhile
	Log     *slog.Logger

	wasDelayed time.Time // when the exchange was last seen to be the plugin's
}

// Run looks every five seconds, until ctx ends.
func (m *Mover) Run(ctx context.Context) {
	for {
		if err := m.look(ctx); err != nil && ctx.Err() == nil {
			m.Log.Warn("the bindings of an exchange could not be looked at, or not all of them be moved", "exchange", m.Spec.Name, "error", err)
		}
		if pace.Sleep(ctx, lookEvery) != nil {
			return
		}
	}
}

// look changes something only while the exchange is not the plugin's and nobody else works on it:
// delayer migrate moves bindings too.
func (m *Mover) look(ctx context.Context) error {
	out, err := m.API.Bindings(ctx, m.Spec.Name)
	if err != nil || !slices.ContainsFunc(out, m.goesAround) {
		return err
	}
	// A direct exchange needs no binding to lead to serve.
	if !slices.ContainsFunc(out, m.leads) && time.Since(m.wasDelayed) < askEvery {
		return nil
	}
	const noPatience = 0
	lock, err := record.Take(ctx, m.Control.Conn(), m.Prefix, m.Spec.Name, noPatience)
	if errors.Is(err, record.ErrLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Release()
	r, migrated, err := record.Read(ctx, m.API, m.Prefix, m.Spec.Name)
	if err != nil || migrated && r.Mode != record.Serving {
		return err
	}
	// The type after the bindings, and again when they are moved: on a node the program of a rollback
	// may run whose tool was killed.
	if out, err = m.API.Bindings(ctx, m.Spec.Name); err != nil {
		return err
	}
	x, err := m.API.Exchange(ctx, m.Spec.Name)
	if x.Delayed() {
		m.wasDelayed = time.Now()
		return nil
	}
	if err != nil {
		return err
	}
	for _, b := range out {
		if !m.goesAround(b) {
			continue
		}
		if failed := m.move(ctx, b); failed != nil { // an exclusive queue is bound by its own connection alone
			err = errors.Join(err, fmt.Errorf("%q is bound to the exchange itself, and gets messages at once and twice: %w", b.Target, failed))
		}
	}
	if x, failed := m.API.Exchange(ctx, m.Spec.Name); failed != nil || !x.Delayed() {
		return errors.Join(err, failed)
	}
	for _, b := range out {
		if m.goesAround(b) {
			err = errors.Join(err, m.Control.Do(ctx, b.Bind))
		}
	}
	return err
}

func (m *Mover) queue() string { return entry.NamesOf(m.Prefix, m.Spec.Name).Queue }

// leads reports whether a binding leads to serve.
func (m *Mover) leads(b inventory.BindingInfo) bool { return !b.ToExchange && b.Target == m.queue() }

// goesAround reports whether a binding leads elsewhere. One of the exchange to itself leads nowhere.
func (m *Mover) goesAround(b inventory.BindingInfo) bool {
	return !m.leads(b) && !(b.ToExchange && b.Target == m.Spec.Name)
}

// move binds to the target before it unbinds: nothing is lost meanwhile. What the plugin still
// holds for a key of a direct exchange finds its way by a binding of that key.
func (m *Mover) move(ctx context.Context, b inventory.BindingInfo) error {
	moved, lead := b, inventory.BindingInfo{Source: b.Source, Target: m.queue(), Key: b.Key}
	moved.Source = m.Spec.To
	var err error
	if direct := b.ToExchange && b.Target == m.Spec.To; !direct {
		err = m.Control.Do(ctx, moved.Bind)
	}
	if err == nil && m.Spec.Type == amqp091.ExchangeDirect {
		err = m.Control.Do(ctx, lead.Bind)
	}
	if err != nil {
		return err
	}
	m.Log.Warn("a binding on an exchange has gone around delayer serve; it is moved", "exchange", m.Spec.Name,
		"target", b.Target, "key", b.Key, "to", m.Spec.To)
	return m.Control.Do(ctx, b.Unbind)
}
