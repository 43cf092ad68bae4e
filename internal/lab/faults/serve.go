package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/lab/amqpclient"
	"github.com/delayer-go/delayer/internal/lab/process"
	"github.com/delayer-go/delayer/internal/lib/pace"
	"github.com/delayer-go/delayer/topology"
)

// Serve is delayer serve in front of a wheel of slots: two processes of the command, and clients
// that know nothing of Delayer, and publish with a header.
func Serve(name string, command Command, delays ...time.Duration) Subject {
	s := NewSubject(name, backend.Config{Backend: "controller", Options: delayer.Options{QueueType: Quorum}}, delays...)
	s.Serve = true
	s.Open = func(ctx context.Context, urls []string, prefix string) (delayer.Delayer, error) {
		return openServing(ctx, urls[0], prefix, command)
	}
	behind := s.Remove
	s.Remove = func(ctx context.Context, urls []string, prefix string) error {
		return errors.Join(removeServing(ctx, urls, prefix), behind(ctx, urls, prefix))
	}
	return s
}

// The exchanges that clients publish to. The first leads to the run's, the other to what a header
// says.
func toOne(prefix string) string { return prefix + "-orders" }
func toAny(prefix string) string { return prefix + "-later" }

// A serving publishes through clients to what services serve. Of a Delayer it has what a Run needs.
type serving struct {
	delayer.Delayer // nil

	prefix   string
	folder   string // of the configuration
	services []*process.Service
	clients  chan *client // those that publish nothing now
}

// openServing returns when both processes serve both exchanges: before that an exchange may be there
// and lead nowhere, and what a client publishes to it is confirmed and dropped.
func openServing(ctx context.Context, url, prefix string, command Command) (delayer.Delayer, error) {
	const processes, exchanges, clients = 2, 2, 4
	d := &serving{prefix: prefix, clients: make(chan *client, clients)}
	var err error
	if d.folder, err = os.MkdirTemp("", "delayer-faults-serve-"); err != nil {
		return nil, err
	}
	config := filepath.Join(d.folder, "delayer.yaml")
	text := fmt.Sprintf("url: %q\nprefix: %s\nbackend: controller\nserve:\n  exchanges:\n", url, prefix) +
		fmt.Sprintf("    - {name: %s, to: %s}\n", toOne(prefix), exchangeOf(prefix)) +
		fmt.Sprintf("    - {name: %s, allow: [%s]}\n", toAny(prefix), exchangeOf(prefix))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	log := served{all: make(chan struct{})}
	log.left.Store(processes * exchanges)
	for range processes {
		d.services = append(d.services, process.Keep(func(ctx context.Context) *exec.Cmd {
			cmd := command(ctx, "serve", "--config", config)
			cmd.Stderr = &log
			return cmd
		}))
	}
	select {
	case <-log.all:
	case <-ctx.Done():
		return nil, errors.Join(fmt.Errorf("delayer serve does not serve: %w", ctx.Err()), d.Close())
	}
	for range clients {
		d.clients <- &client{url: url}
	}
	return d, nil
}

// A served is the log of processes. It closes all when as many lines as are left have said that an
// exchange is served.
type served struct {
	left atomic.Int64
	all  chan struct{}
}

func (s *served) Write(p []byte) (int, error) {
	for range bytes.Count(p, []byte("an exchange is served")) {
		if s.left.Add(-1) == 0 {
			close(s.all)
		}
	}
	return len(p), nil
}

func (d *serving) Publish(ctx context.Context, exchange, _ string, delay time.Duration, msg amqp091.Publishing) error {
	c := <-d.clients
	defer func() { d.clients <- c }()
	to := toOne(d.prefix)
	msg.Headers, msg.DeliveryMode = amqp091.Table{}, amqp091.Persistent
	if exchange != "" {
		to, msg.Headers["x-delayer-exchange"] = toAny(d.prefix), exchange
	}
	if delay > 0 {
		msg.Headers["x-delay"] = delay.Milliseconds()
	}
	return c.publish(ctx, to, msg)
}

// Limits are those of who cannot cancel.
func (d *serving) Limits() delayer.Limits { return delayer.Limits{} }

func (d *serving) Close() error {
	for range len(d.clients) {
		(<-d.clients).close()
	}
	for _, p := range d.services {
		p.Close()
	}
	return os.RemoveAll(d.folder)
}

func removeServing(ctx context.Context, urls []string, prefix string) error {
	client, err := openClient(ctx, urls)
	if err != nil {
		return err
	}
	var p topology.Plan
	for _, x := range []string{toOne(prefix), toAny(prefix)} {
		for _, what := range []string{"queue", "back", "parked"} {
			p.Queues = append(p.Queues, topology.Queue{Name: prefix + ".serve." + what + "." + x})
		}
		for _, name := range []string{x, prefix + ".serve.expired." + x, prefix + ".serve.entry." + x} {
			p.Exchanges = append(p.Exchanges, topology.Exchange{Name: name})
		}
	}
	defer client.Close()
	return client.Remove(ctx, p)
}

// A client publishes with a confirm, one message at a time. It connects again before the next
// message.
type client struct {
	url  string
	conn *amqp091.Connection // nil until it is needed, and after an error
	ch   *amqp091.Channel
}

// publish publishes, and does not try again. An error is either delayer.ErrNotSent or ErrUnknown.
func (c *client) publish(ctx context.Context, exchange string, msg amqp091.Publishing) error {
	failed := func(kind, cause error) error { return &delayer.Error{Op: "publish", Kind: kind, Cause: cause} }
	for c.conn == nil {
		conn, err := amqpclient.Dial(ctx, c.url, "faults")
		if err == nil {
			c.conn = conn
			if c.ch, err = conn.Channel(); err == nil {
				err = c.ch.Confirm(noWait)
			}
		}
		if err != nil {
			c.close()
			if pace.Sleep(ctx, 100*time.Millisecond) != nil {
				return failed(delayer.ErrNotSent, err)
			}
		}
	}
	const mandatory, immediate = false, false
	stored := false
	confirm, err := c.ch.PublishWithDeferredConfirm(exchange, "to.it", mandatory, immediate, msg)
	if err == nil {
		stored, err = confirm.WaitContext(ctx)
	}
	if err == nil && !stored {
		err = errors.New("not confirmed")
	}
	if err != nil {
		c.close()
		return failed(delayer.ErrUnknown, err)
	}
	return nil
}

func (c *client) close() {
	if c.conn != nil {
		_ = c.conn.CloseDeadline(time.Now().Add(time.Second)) // it may be lost
		c.conn, c.ch = nil, nil
	}
}
