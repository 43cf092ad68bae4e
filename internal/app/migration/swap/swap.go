package swap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/entry"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/app/migration/node"
	"github.com/delayer-go/delayer/internal/app/migration/record"
)

// An API tells what the broker has.
type API interface {
	Definition(ctx context.Context, exchange string) (inventory.Definition, error)
	Bindings(ctx context.Context, exchange string) (out, in []inventory.BindingInfo, err error)
}

// A Journal keeps the record, and the lock.
type Journal interface {
	Record() (record.Record, bool)
	Save(ctx context.Context, r record.Record) error
	Locked() bool
	Token() string
}

// A Node changes the type of an exchange on a node of the cluster, without deleting it.
type Node interface {
	CanReshape(ctx context.Context, r node.Reshaping) error
	Reshape(ctx context.Context, r node.Reshaping) error
}

// A Swapper changes the shape of one exchange. It holds the lock meanwhile.
type Swapper struct {
	Prefix, Exchange, Vhost string

	API     API
	Broker  Performer
	Journal Journal
	Node    Node                        // nil: the exchange is deleted and declared again, which is a gap. So is one of a type that is not AMQP's
	Plugin  func(context.Context) error // whether the broker still has the plugin; nil: not asked
	Now     func() time.Time
}

// A Result says what a change did.
type Result struct {
	To       Shape
	Changed  bool                    // false: it had its shape already
	Gap      time.Duration           // for how long at most the exchange did not route; 0: it always did
	Bindings int                     // that were carried over
	Gone     []inventory.BindingInfo // whose other end was deleted meanwhile
	Repaired int                     // that were made again after the gap
}

const (
	// finishFor bounds what is finished once the exchange was deleted, whatever the caller wants.
	finishFor = time.Minute
	// mostLooks is how often bindings are read again because they change.
	mostLooks = 10
	// mostRepairs is how often what is missing after the gap is made again.
	mostRepairs = 3
)

// state is what an exchange has, and its record says.
type state struct {
	record record.Record
	target string                  // the exchange of serve that has the former bindings; "" without serve
	former inventory.Definition    // the plugin's exchange, with all bindings to carry over
	is     *inventory.Exchange     // nil if it is missing
	stray  []inventory.BindingInfo // of a front, not ours: what they route goes around serve, and is early
	linked bool                    // it leads to the exchange behind, which an earlier attempt left
	onNode bool                    // it is not deleted: the node changes its type
}

// look reads the exchange, and what an interrupted change has left. r is the record, with the
// plugin's exchange in it, or zero. target is the one that it has, or gets.
func (s *Swapper) look(ctx context.Context, r record.Record, target string) (state, error) {
	st := state{record: r, target: target, former: r.Former}
	there, err := s.Broker.Exists(ctx, s.Exchange)
	if err != nil {
		return st, err
	}
	var now inventory.Definition
	if there {
		if now, err = s.API.Definition(ctx, s.Exchange); err != nil {
			return st, err
		}
		st.is = &now.Exchange
		st.linked = s.linked(st, now.Out)
		now = own(now, s.Prefix, st.behindName(s.Prefix))
	}
	if r.Step == "" {
		st.former = now
		return st, nil
	}
	return st, s.gather(ctx, &st, now)
}

// gather unites the bindings from all places where an interrupted change may have left them. A
// binding too many is better than one too few.
func (s *Swapper) gather(ctx context.Context, st *state, now inventory.Definition) error {
	former := now
	if !now.Delayed() {
		former.Exchange = st.record.Former.Exchange
	}
	if half := st.record.Step == record.Switching || st.record.Step == record.Restoring; half || st.is == nil {
		former.Exchange = st.record.Former.Exchange
		former.Out = union(former.Out, st.record.Former.Out)
		former.In = union(former.In, st.record.Former.In)
	}
	if st.isFront() {
		st.stray = now.Out
		out, err := s.behindNow(ctx, *st)
		if err != nil {
			return err
		}
		former.Out = union(former.Out, out)
	}
	st.former = former
	return nil
}

// behindNow returns the bindings of the exchange behind, as if they were the exchange's own.
func (s *Swapper) behindNow(ctx context.Context, st state) ([]inventory.BindingInfo, error) {
	name := st.behindName(s.Prefix)
	there, err := s.Broker.Exists(ctx, name)
	if err != nil || !there {
		return nil, err
	}
	out, _, err := s.API.Bindings(ctx, name)
	for i := range out {
		out[i].Source = s.Exchange
	}
	return out, err
}

// behindName is the name of the exchange that has the former bindings.
func (st state) behindName(prefix string) string {
	return cmp.Or(st.target, record.Behind(prefix, st.former.Name))
}

func (s *Swapper) linked(st state, out []inventory.BindingInfo) bool {
	behind := st.behindName(s.Prefix)
	return slices.ContainsFunc(out, func(b inventory.BindingInfo) bool { return b.ToExchange && b.Target == behind })
}

func (s *Swapper) reshaping(st state, to Shape) node.Reshaping {
	x := shaped(s.Prefix, st.former.Exchange, to)
	other, _ := x.Arguments[alternate].(string)
	return node.Reshaping{
		Vhost: s.Vhost, Exchange: s.Exchange, Lock: record.Lock(s.Prefix, s.Exchange), Token: s.Journal.Token(),
		Behind: st.behindName(s.Prefix), Hold: record.Hold(s.Prefix, s.Exchange), Queue: entry.NamesOf(s.Prefix, s.Exchange).Queue,
		Routes: st.former.DelayedType(), Type: x.Type, AutoDelete: x.AutoDelete, Internal: x.Internal, Alternate: other,
		Shape: string(to),
	}
}

func (s *Swapper) fail(op string, kind error, hint, format string, args ...any) error {
	return &delayer.Error{Op: op, Object: fmt.Sprintf("exchange %q", s.Exchange), Kind: kind, Cause: fmt.Errorf(format, args...), Hint: hint}
}

var errLost = errors.New("the connection was lost, and with it the lock")
