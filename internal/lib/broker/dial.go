package broker

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// dialTimeout is for TCP, TLS and the AMQP handshake together.
const dialTimeout = 30 * time.Second

// dial tries the addresses in turn, beginning with the one at index first. It also returns which
// failed before one answered.
func (c *Conn) dial(ctx context.Context, first int) (connState, failures, error) {
	var failed failures
	for i := range c.all {
		at := (first + i) % len(c.all)
		up, err := dial(ctx, c.all[at], c.opts, attemptDeadline(ctx, len(c.all)-i))
		if err == nil {
			c.mu.Lock()
			c.at = at
			c.mu.Unlock()
			return up, failed, nil
		}
		if ctx.Err() != nil {
			return up, nil, context.Cause(ctx)
		}
		if len(c.all) == 1 {
			return up, nil, err
		}
		failed = append(failed, failure{c.all[at], plain(err)})
	}
	return connState{}, nil, failed
}

// attemptDeadline returns when one dial attempt must end, so that a host that does not answer
// leaves time for the others. left counts the attempts still to make, this one included.
func attemptDeadline(ctx context.Context, left int) time.Time {
	timeout := dialTimeout
	if left > 1 {
		timeout = dialTimeout / 3
	}
	deadline := time.Now().Add(timeout)
	if d, ok := ctx.Deadline(); ok {
		if mine := time.Now().Add(time.Until(d) / time.Duration(left)); mine.Before(deadline) {
			return mine
		}
	}
	return deadline
}

// connectionName adds the process to what a connection is for: delayer shop publish, web1 orders[4711].
// The management page and list_connections show it.
func connectionName(use string, host func() (string, error)) string {
	machine, err := host()
	if err != nil {
		machine = "?"
	}
	return fmt.Sprintf("%s, %s %s[%d]", use, machine, filepath.Base(os.Args[0]), os.Getpid())
}

// dial makes one attempt.
func dial(ctx context.Context, to address, opts Options, deadline time.Time) (connState, error) {
	// amqp091-go takes no context: closing the socket ends the handshake.
	var socket *wire
	foreign := opts.AnyHeaders && to.uri.Scheme == "amqp"
	unhook := func() bool { return true }
	cfg := amqp091.Config{
		TLSClientConfig: opts.TLS.Clone(), // amqp091-go writes the address's host name into it
		Properties:      amqp091.NewConnectionProperties(),
		Dial: func(network, addr string) (net.Conn, error) {
			dialed, err := (&net.Dialer{Deadline: deadline}).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			socket = &wire{Conn: dialed}
			var s net.Conn = socket
			if foreign {
				s = newAnyHeaders(s)
			}
			if opts.Gate != nil {
				s = newGated(s, opts.Gate)
			}
			unhook = context.AfterFunc(ctx, func() { _ = socket.Close() })
			return s, s.SetDeadline(deadline)
		},
	}
	cfg.Properties.SetClientConnectionName(connectionName(opts.Name, os.Hostname))
	if foreign {
		cfg.FrameSize = largestFrame
	}
	conn, err := amqp091.DialConfig(to.raw, cfg)
	unhook()
	if ctx.Err() != nil {
		if conn != nil {
			_ = conn.CloseDeadline(time.Now())
		}
		return connState{}, context.Cause(ctx)
	}
	return connState{conn: conn, wire: socket}, err
}
