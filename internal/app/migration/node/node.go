// Package node works on the nodes of a RabbitMQ cluster through rabbitmqctl: it changes the type of
// an exchange, and reads and removes what waits in the tables of the x-delayed-message plugin.
//
// Each node has a process and two tables of its own: the rows, one for each message, and an index
// of them that is ordered by their due time. The programs that run on a node are the files in
// programs. Data gets there as base64 only, so no name can become a part of a program.
package node

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/shlex"
)

// A Control runs rabbitmqctl. It is safe for concurrent use.
type Control struct{ command []string }

// New parses a command line such as `kubectl exec rabbit-0 -- rabbitmqctl`, with quotes as a shell
// has them and without any expansion. It runs nothing.
func New(commandLine string) (*Control, error) {
	command, err := shlex.Split(commandLine)
	if err == nil && (len(command) == 0 || command[0] == "") {
		err = errors.New("it names no command")
	}
	if err != nil {
		return nil, fmt.Errorf("--rabbitmqctl: %w", err)
	}
	return &Control{command}, nil
}

const (
	// answerFor bounds a call that touches few rows.
	answerFor = time.Minute
	// scanFor bounds a call that reads a whole table.
	scanFor = 15 * time.Minute
)

// ErrUnreached means that nodes of the cluster could not be reached.
var ErrUnreached = errors.New("nodes were not reached")

// Nodes returns the running nodes of the cluster. If others cannot be reached, it returns those
// that can, and an error that is ErrUnreached and names the others.
func (c *Control) Nodes(ctx context.Context) ([]string, error) {
	var reached, down []string
	err := c.eval(ctx, answerFor, "", "nodes.erl", nil, func(f fields) {
		if name := f.text(1); f.word(2) == "up" {
			reached = append(reached, name)
		} else {
			down = append(down, name)
		}
	})
	if err == nil && len(down) > 0 {
		err = fmt.Errorf("%w: %q (start them, or see what keeps them from answering: rabbitmqctl cluster_status)", ErrUnreached, down)
	}
	return reached, err
}

// A Clock is a look at a node's clock. The node's time was at least Node when this process's clock
// showed Local.
type Clock struct {
	Node  int64 // in milliseconds since the Unix epoch
	Local time.Time
}

// Until returns how long it is, at most, until the node's clock shows due. It is negative if due
// has passed.
func (c Clock) Until(due int64) time.Duration {
	return time.Duration(due-c.Node)*time.Millisecond - time.Since(c.Local)
}

// A Reshaping makes an exchange into another shape.
type Reshaping struct {
	Vhost, Exchange string
	Lock, Token     string // the queue that is the tool's lock, and what tells it from another tool's
	Behind, Queue   string // the exchange that has the bindings of a front, or one without any; and the queue that a front leads to
	Hold            string // the exchange that may stand for it meanwhile
	Routes          string // the type by which the plugin routes
	Type            string // what the exchange becomes
	Alternate       string // its alternate exchange by argument; "": none
	AutoDelete      bool
	Internal        bool
	Shape           Shape
}

// A Shape is what an exchange is made into.
type Shape string

// The shapes.
const (
	Plain   Shape = "plain"   // an ordinary exchange with the former bindings
	Front   Shape = "front"   // leads to the queue of delayer serve
	Delayed Shape = "delayed" // the plugin's again
)

// Reshape changes the type of an exchange in one transaction of the cluster. The exchange keeps its
// name and bindings: no publisher sees it missing, and nothing that falls due meanwhile is
// lost. To a front and from one its bindings change too; a message may be routed twice in that
// instant. In Khepri the exchange Hold has its bindings too, for two seconds.
//
// The node finishes what it has begun if this process is killed. It begins nothing if the lock is
// gone. After an error the change may have been made, or not; it may be repeated.
func (c *Control) Reshape(ctx context.Context, r Reshaping) error {
	var in [][]byte
	for _, text := range []string{r.Vhost, r.Exchange, r.Lock, r.Token, r.Behind, r.Hold, r.Queue, r.Routes, r.Type, r.Alternate,
		strconv.FormatBool(r.AutoDelete), strconv.FormatBool(r.Internal), string(r.Shape)} {
		in = append(in, []byte(text))
	}
	inKhepri, err := programs.ReadFile("programs/khepri.erl")
	if err != nil {
		return err
	}
	in = append(in, inKhepri)
	const asked = ""
	if err := c.eval(ctx, answerFor, asked, "reshape.erl", in, func(fields) {}); err != nil {
		return fmt.Errorf("change exchange %q on the node: %w", r.Exchange, err)
	}
	return nil
}

// CanReshape proves that the node can, as far as that is possible, and changes nothing.
func (c *Control) CanReshape(ctx context.Context, r Reshaping) error {
	r.Shape = ""
	return c.Reshape(ctx, r)
}
