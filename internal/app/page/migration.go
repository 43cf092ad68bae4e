package page

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/app/migration/standing"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/engine"
)

const migrationPath = "/page/migration"

const (
	listEvery  = time.Minute // exchanges of the plugin: the broker scans its table
	listWithin = 10 * time.Minute
)

// A Migration knows how far the exchanges of the plugin are.
type Migration struct {
	managed bool
	prefix  string
	stands  *question[stands]
	delayed *question[[]inventory.Exchange] // asked only when somebody wants to know
}

// stands is what is known without those exchanges of the plugin whose migration has not begun.
type stands struct {
	Exchanges []*standing.Exchange
	Enabled   bool // the plugin, on this broker
}

// NewMigration reads the records of a configuration's prefix, until Close.
func NewMigration(cfg backend.Config) (*Migration, error) {
	cfg.Observer, cfg.Logger = delayer.Observer{}, slog.New(slog.DiscardHandler) // the connection is of no interest
	settings, err := engine.Resolve(cfg.Options, "")
	if err != nil || cfg.Management == "" {
		return newMigration(settings.Prefix, false, nil, nil, time.Now), err
	}
	client, vhost, err := settings.API()
	if err != nil {
		return nil, err
	}
	api := inventory.New(client, vhost)
	list := func(ctx context.Context, _ []inventory.Exchange) ([]inventory.Exchange, error) {
		return api.Delayed(ctx)
	}
	return newMigration(settings.Prefix, true, func(ctx context.Context, _ stands) (s stands, err error) {
		if s.Enabled, err = api.Enabled(ctx); err != nil {
			return s, err
		}
		conn, err := broker.Dial(ctx, settings.BrokerOptions("page"))
		if err != nil {
			return s, err
		}
		defer conn.Close()
		s.Exchanges, err = standing.Read(ctx, conn, api, settings.Prefix)
		return s, err
	}, list, time.Now), nil
}

func newMigration(prefix string, managed bool, ask func(context.Context, stands) (stands, error),
	list func(context.Context, []inventory.Exchange) ([]inventory.Exchange, error), now func() time.Time) *Migration {
	return &Migration{
		managed: managed, prefix: prefix, stands: newQuestion(lookEvery, lookWithin, now, ask), delayed: newQuestion(listEvery, listWithin, now, list),
	}
}

// Close ends what is under way.
func (m *Migration) Close() {
	m.stands.Close()
	m.delayed.Close()
}

// migrationView is the page.
type migrationView struct {
	reading[stands]
	Prefix  string
	Managed bool
	Listed  *reading[[]inventory.Exchange] // nil: nobody has asked for it
	Rows    []*standing.Exchange
}

func (p *Page) migration(w http.ResponseWriter, r *http.Request, v *visitor) {
	m := p.Migration
	view := migrationView{Prefix: m.prefix, Managed: m.managed}
	again := false
	if m.managed {
		view.reading = m.stands.look(r.Context())
		again = view.Coming
		view.Rows = view.Value.Exchanges
		if view.Value.Enabled && r.FormValue("plugin") == "list" {
			listed := m.delayed.look(r.Context())
			again = again || listed.Coming
			view.Listed, view.Rows = &listed, standing.With(view.Rows, m.prefix, listed.Value)
		}
	}
	p.show(w, http.StatusOK, "migration", frame{Title: "Migration", At: migrationPath, Visitor: v, Again: again, Content: view})
}
