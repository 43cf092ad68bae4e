// Package record keeps what a migration must know of an exchange in the broker, and lets one tool
// at a time work on it.
//
// The record is a marker: an exchange whose configuration says what the exchange was. It is
// declared before the exchange changes, and deleted when that is undone, or when the migration has
// ended. All else can be seen in the broker: an exchange that is still the plugin's was not switched
// yet, or its switch was interrupted.
package record

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/entry"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/messagejson"
	"github.com/delayer-go/delayer/internal/lib/pace"
	"github.com/delayer-go/delayer/topology"
)

// Names is how the names of all objects of migrations begin.
func Names(prefix string) string { return prefix + ".migration." }

// Name is the name of the marker that is the record of an exchange. A hash stands for the name of
// the exchange, which may be as long as a name may be at most: 64 bits tell apart more exchanges
// than a broker has.
func Name(prefix, exchange string) string {
	sum := sha256.Sum256([]byte(exchange))
	return Names(prefix) + hex.EncodeToString(sum[:8])
}

// Hold is the name of an exchange that stands for the exchange while a node changes it in Khepri.
func Hold(prefix, exchange string) string { return Name(prefix, exchange) + ".hold" }

// A Mode is how an exchange is switched.
type Mode string

// The modes.
const (
	InPlace Mode = "in-place" // the exchange becomes an ordinary one with its former bindings
	Serving Mode = "serve"    // the exchange leads to the queue of delayer serve
)

// A Record is what the exchange was, and how it is switched.
type Record struct {
	Exchange   messagejson.Text `json:"exchange"`
	Mode       Mode             `json:"mode"`
	Type       string           `json:"type"` // by which it routes
	AutoDelete bool             `json:"auto_delete,omitempty"`
	Internal   bool             `json:"internal,omitempty"`
	Alternate  messagejson.Text `json:"alternate,omitempty"` // its alternate exchange, by argument
	// Target is the exchange that gets its bindings, where delayer serve passes messages on; "" in
	// place.
	Target messagejson.Text `json:"target,omitempty"`
}

// Spec is the entry by which delayer serve passes on what is published to the exchange. Publishers
// may declare the exchange as they declared the plugin's, with the type that it routes by.
func (r Record) Spec() entry.Spec {
	return entry.Spec{Name: string(r.Exchange), Type: r.Type, To: string(r.Target)}
}

// Marker is the record as the broker has it.
func (r Record) Marker(prefix string) (topology.Exchange, error) {
	text, err := json.Marshal(r)
	return topology.Exchange{
		Name: Name(prefix, string(r.Exchange)), Kind: amqp091.ExchangeFanout, Alternate: start(prefix) + string(text),
	}, err
}

// start is how the configuration of a marker begins: with the prefix, as permissions require.
func start(prefix string) string { return prefix + ":migration," }

// Of returns the record that an exchange is, if it is one.
func Of(prefix string, x inventory.Exchange) (r Record, is bool, err error) {
	if !strings.HasPrefix(x.Name, Names(prefix)) {
		return r, false, nil
	}
	config, _ := x.Arguments["alternate-exchange"].(string)
	text, is := strings.CutPrefix(config, start(prefix))
	if !is {
		return r, false, nil
	}
	if err = json.Unmarshal([]byte(text), &r); err == nil && x.Name != Name(prefix, string(r.Exchange)) {
		err = errors.New("its name is another one's")
	}
	if err != nil {
		err = fmt.Errorf("exchange %q is no record of delayer migrate: %w", x.Name, err)
	}
	return r, err == nil, err
}

// Read reads the record of an exchange, if there is one.
func Read(ctx context.Context, api *inventory.API, prefix, exchange string) (r Record, found bool, err error) {
	x, err := api.Exchange(ctx, Name(prefix, exchange))
	if errors.Is(err, delayer.ErrUnroutable) {
		return r, false, nil
	}
	if err != nil {
		return r, false, err
	}
	return Of(prefix, x)
}

// Target is the exchange that consumers bind to after a switch to serve.
func Target(exchange string) string { return exchange + ".delivery" }

// New is the record of an exchange of the plugin.
func New(x inventory.Exchange, mode Mode) Record {
	r := Record{
		Exchange: messagejson.Text(x.Name), Mode: mode, Type: x.DelayedType(), AutoDelete: x.AutoDelete, Internal: x.Internal,
	}
	if other, ok := x.Arguments["alternate-exchange"].(string); ok {
		r.Alternate = messagejson.Text(other)
	}
	if mode == Serving {
		r.Target = messagejson.Text(Target(x.Name))
	}
	return r
}

// CanBeSwitched reports whether an exchange routes by a type that a migration knows.
func CanBeSwitched(x inventory.Exchange) bool {
	return slices.Contains(entry.Types, x.DelayedType())
}

// A Lock is held by one tool at a time. It is a queue that belongs to a connection, and is gone
// with it.
type Lock struct {
	Name  string
	Token string // tells it from the lock of another tool: an argument of the queue
	ch    *amqp091.Channel
}

// ErrLocked means that another tool is at work.
var ErrLocked = errors.New("another delayer migrate is at work")

// Take takes the lock of an exchange, or of all with "". It waits for a tool that holds it, for as
// long as patience: the broker may take some seconds to see that one which was killed is gone. conn
// must live until Release.
func Take(ctx context.Context, conn *broker.Conn, prefix, exchange string, patience time.Duration) (*Lock, error) {
	const pause = 250 * time.Millisecond
	for began := time.Now(); ; {
		l, err := take(ctx, conn, prefix, exchange)
		if !errors.Is(err, ErrLocked) || time.Since(began)+pause > patience {
			return l, err
		}
		if err := pace.Sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

func take(ctx context.Context, conn *broker.Conn, prefix, exchange string) (*Lock, error) {
	ch, err := conn.Channel(ctx)
	if err != nil {
		return nil, err
	}
	l := &Lock{Name: Names(prefix) + "lock", Token: rand.Text(), ch: ch}
	if exchange != "" {
		l.Name = Name(prefix, exchange) + ".lock"
	}
	const durable, autoDelete, exclusive = false, false, true
	args := amqp091.Table{"x-queue-type": "classic", "x-delayer-holder": l.Token}
	_, err = ch.QueueDeclare(l.Name, durable, autoDelete, exclusive, waitForAnswer, args)
	if err == nil {
		return l, nil
	}
	_ = ch.Close()
	object := fmt.Sprintf("queue %q", l.Name)
	if broker.Code(err) == amqp091.ResourceLocked {
		return nil, &delayer.Error{
			Op: "lock", Object: object, Kind: delayer.ErrConflict, Cause: ErrLocked,
			Hint: "wait until it has ended; the queue shows its connection",
		}
	}
	return nil, broker.Explain("lock", "", object, err)
}

// Declare declares a record, and Delete deletes one, on the channel of the lock: with a lock that is
// lost they fail.
func (l *Lock) Declare(x topology.Exchange) error {
	const durable, autoDelete, internal = true, false, false
	err := l.ch.ExchangeDeclare(x.Name, x.Kind, durable, autoDelete, internal, waitForAnswer, x.Args())
	return broker.Explain("declare", "", fmt.Sprintf("exchange %q", x.Name), err)
}

// Delete deletes a record.
func (l *Lock) Delete(name string) error {
	const ifUnused = false
	return broker.Explain("delete", "", fmt.Sprintf("exchange %q", name), l.ch.ExchangeDelete(name, ifUnused, waitForAnswer))
}

// Lost reports whether the lock went with its connection.
func (l *Lock) Lost() bool { return l.ch.IsClosed() }

// Release gives the lock back. A connection that is lost has done so already.
func (l *Lock) Release() {
	const ifUnused, ifEmpty = false, false
	_, _ = l.ch.QueueDelete(l.Name, ifUnused, ifEmpty, waitForAnswer)
	_ = l.ch.Close()
}

const waitForAnswer = false // the noWait argument of amqp091-go's methods
