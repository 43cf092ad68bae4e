package guard

import (
	"context"
	"log/slog"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/broker"
	"github.com/delayer-go/delayer/internal/topology"
)

type Config struct {
	Backend, Prefix string
	QueueType       delayer.QueueType
	Logger          *slog.Logger
	Every           time.Duration
	Control         *broker.Control
	Publish         func(context.Context, broker.Publishing) error
	Inspect         func(context.Context) error
}
type Guard struct{}

func New(Config) *Guard                                             { return &Guard{} }
func (*Guard) Open(context.Context) error                           { return nil }
func (*Guard) Run(ctx context.Context, _ func() bool)               { <-ctx.Done() }
func (*Guard) Fault() *delayer.Error                                { return nil }
func Plan(prefix string, kind topology.QueueType) (p topology.Plan) { return p }
