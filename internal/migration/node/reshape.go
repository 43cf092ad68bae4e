package node

import (
	"context"
	"fmt"
	"strconv"
)

// A Reshaping makes an exchange into another shape.
type Reshaping struct {
	Vhost, Exchange string
	Lock, Token     string // the queue that is the tool's lock, and what tells it from another tool's
	Behind, Bridge  string // the exchange that has the bindings of a front, and the queue of its bridge
	Routes          string // the type by which the plugin routes
	Type            string // what the exchange becomes
	AutoDelete      bool
	Shape           string // "plain", "front" or "delayed"
}

// Reshape changes the type of an exchange in one transaction of the cluster. The exchange keeps its
// name, arguments and bindings: no publisher sees it missing, and nothing that falls due meanwhile is
// lost. To a front and from one its bindings change too; a message may be routed twice in that
// instant.
//
// The node finishes what it has begun if this process is killed. It begins nothing if the lock is
// gone. After an error the change may have been made, or not; it may be repeated.
func (c *Control) Reshape(ctx context.Context, r Reshaping) error {
	if err := c.reshape(ctx, r); err != nil {
		return fmt.Errorf("change exchange %q on the node: %w", r.Exchange, err)
	}
	return nil
}

// CanReshape proves that the node can, as far as that is possible, and changes nothing.
func (c *Control) CanReshape(ctx context.Context, r Reshaping) error {
	r.Shape = ""
	return c.Reshape(ctx, r)
}

func (c *Control) reshape(ctx context.Context, r Reshaping) error {
	var in [][]byte
	for _, text := range []string{r.Vhost, r.Exchange, r.Lock, r.Token, r.Behind, r.Bridge, r.Routes, r.Type, strconv.FormatBool(r.AutoDelete), r.Shape} {
		in = append(in, []byte(text))
	}
	const asked = ""
	return c.eval(ctx, answerFor, asked, "reshape.erl", in, func(fields) {})
}
