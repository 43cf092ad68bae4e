package engine

import (
	"context"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/keeper"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/topology"
)

// Connected has the control connection, but no strategy yet: a strategy may need to ask the broker
// first.
type Connected struct {
	settings Settings
	control  *broker.Control
	keeper   *keeper.Keeper // used until Start makes the engine's own

	Version string // the broker's
}

// Connect makes the control connection.
func Connect(ctx context.Context, s Settings) (*Connected, error) {
	conn, err := broker.Dial(ctx, s.BrokerOptions("control").Opening(broker.ControlChannels))
	if err != nil {
		return nil, err
	}
	_, _, version := conn.Server()
	c := &Connected{settings: s, control: broker.NewControl(conn), Version: version}
	c.keeper = keeper.New(c.keeping(topology.Plan{}))
	return c, nil
}

func (c *Connected) keeping(p topology.Plan) keeper.Config {
	return keeper.Config{
		Backend: c.settings.Backend, Log: c.settings.BrokerOptions("").Slog(), Objects: objects.Of(c.control, c.settings.Backend),
		Topology: p, Imported: c.settings.Passive, Observer: c.settings.Observer,
	}
}

// HidesMessages reports whether the broker's version has queues that hide messages until their time.
func (c *Connected) HidesMessages() bool { return c.control.Conn().From(4, 4) }

// MaxPriority is the highest message priority that waiting queues of this broker can take.
func (c *Connected) MaxPriority() uint8 { return maxPriority(c.Version, c.settings.QueueType) }

// Declare declares objects beyond the strategy's plan.
func (c *Connected) Declare(ctx context.Context, p topology.Plan) error {
	return c.keeper.Declare(ctx, p)
}

// Control is the control connection.
func (c *Connected) Control() *broker.Control { return c.control }

// Close ends the connection if Start is never called.
func (c *Connected) Close() { c.control.Close() }

// Start declares the topology, opens the publishing connections and returns the engine. After an
// error everything is closed.
func (c *Connected) Start(ctx context.Context, s Strategy) (started *Engine, err error) {
	log := c.settings.BrokerOptions("").Slog()
	e := &Engine{
		NoTickets: delayer.NoTickets{Backend: c.settings.Backend}, settings: c.settings, control: c.control,
		strategy: s, limits: s.Limits(),
	}
	e.submitter, _ = s.(Submitter)
	e.closing, e.stop = context.WithCancel(context.Background())
	frame, _, _ := c.control.Conn().Server()
	e.bounds = message.Limits{
		FrameSize: frame, User: c.control.Conn().User(), MaxPriority: e.limits.MaxPriority, Growth: s.Growth(),
	}

	keep := c.keeping(c.settings.Whole(s.Plan()))
	keep.Every, _ = ctx.Value(watchKey{}).(time.Duration)
	keep.OnUse, _ = s.(keeper.OnUse)
	e.dests = delivery.NewDestinations(c.settings.Stage(), c.control, c.settings.Backend, log)
	keep.Rebind, keep.Forget = e.dests.Rebind, e.dests.Reset
	e.keeper = keeper.New(keep)
	defer func() {
		if err != nil {
			_ = e.Close()
		}
	}()
	if keep.Imported { // else the user may declare, and so look
		if err := objects.Known(log, objects.Of(c.control, c.settings.Backend).Features(ctx, keep.Topology)); err != nil {
			return nil, err
		}
	}
	if err := e.keeper.Open(ctx); err != nil {
		return nil, err
	}

	var conns []*broker.Conn
	for range c.settings.Connections {
		conn, err := broker.Dial(ctx, c.settings.BrokerOptions("publish").Opening(broker.PublisherChannels))
		if err != nil {
			for _, made := range conns {
				made.Close()
			}
			return nil, err
		}
		conns = append(conns, conn)
	}
	e.publisher = broker.NewPublisher(c.settings.Backend, e.keeper.Reconnected, conns...)
	if c.settings.management == nil {
		log.Info("policies are not checked: that needs the address of the management API (management)")
	} else if err := c.settings.management.Check(ctx, c.settings.Prefix, keep.Topology, log); err != nil {
		return nil, err
	}

	e.running.Go(func() { e.keeper.Run(e.closing) })
	e.mover = e.startMover()
	return e, nil
}

// Opened returns a nil Delayer with an error, not an interface that holds a nil pointer.
func Opened(e *Engine, err error) (delayer.Delayer, error) {
	if err != nil {
		return nil, err
	}
	return e, nil
}
