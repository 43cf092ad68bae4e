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
	"time"
)

// A Control runs rabbitmqctl. It is safe for concurrent use.
type Control struct{ command []string }

// New parses a command line such as `kubectl exec rabbit-0 -- rabbitmqctl`, with quotes as a shell
// has them and without any expansion. It runs nothing.
func New(commandLine string) (*Control, error) {
	command, err := split(commandLine)
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

// Until returns how long it is, at most, until the node's clock shows due. It is negative if due has
// passed.
func (c Clock) Until(due int64) time.Duration {
	return time.Duration(due-c.Node)*time.Millisecond - time.Since(c.Local)
}
