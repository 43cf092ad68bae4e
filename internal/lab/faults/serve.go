package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
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
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lib/pace"
	"github.com/delayer-go/delayer/topology"
)

// Serve is delayer serve in front of a wheel of slots: two processes of the command, each with its
// proxy, and clients that know nothing of Delayer, and publish with a header.
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

// The exchanges that clients publish to. The first leads to the run's, the second to what a header
// says. The third is one that clients of the proxies declare as the plugin's, and bind to the run's.
func toOne(prefix string) string   { return prefix + "-orders" }
func toAny(prefix string) string   { return prefix + "-later" }
func delayed(prefix string) string { return prefix + "-delayed" }

// A serving publishes through clients to what services serve. Of a Delayer it has what a Run needs.
type serving struct {
	delayer.Delayer // nil

	prefix   string
	folder   string // of the configuration
	services []*process.Service
	clients  chan *client // those that publish nothing now
}

// openServing returns when both processes serve all exchanges: before that an exchange may be there
// and lead nowhere, and what a client publishes to it is confirmed and dropped. Of the clients one
// half is connected to the broker, and the other to a proxy each.
func openServing(ctx context.Context, at, prefix string, command Command) (delayer.Delayer, error) {
	const processes, exchanges = 2, 3
	d := &serving{prefix: prefix, clients: make(chan *client, 2*processes)}
	proxied, err := url.Parse(at)
	if err != nil {
		return nil, errors.New("faults: serve: the URL is malformed")
	}
	if d.folder, err = os.MkdirTemp("", "delayer-faults-serve-"); err != nil {
		return nil, err
	}
	log := served{all: make(chan struct{})}
	log.left.Store(processes * exchanges)
	for i := range processes {
		if proxied.Host, err = rabbit.FreeAddress(); err != nil {
			return nil, errors.Join(err, d.Close())
		}
		config := filepath.Join(d.folder, fmt.Sprintf("delayer-%d.yaml", i))
		text := fmt.Sprintf("url: %q\nprefix: %s\nbackend: controller\nserve:\n", at, prefix) +
			fmt.Sprintf("  amqp: {listen: %q}\n  exchanges:\n", proxied.Host) +
			fmt.Sprintf("    - {name: %s, to: %s}\n", toOne(prefix), exchangeOf(prefix)) +
			fmt.Sprintf("    - {name: %s, allow: [%s]}\n", toAny(prefix), exchangeOf(prefix))
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			return nil, errors.Join(err, d.Close())
		}
		d.services = append(d.services, process.Keep(func(ctx context.Context) *exec.Cmd {
			cmd := command(ctx, "serve", "--config", config)
			cmd.Stderr = &log
			return cmd
		}))
		d.clients <- &client{url: at}
		d.clients <- &client{url: proxied.String(), proxied: prefix}
	}
	select {
	case <-log.all:
	case <-ctx.Done():
		return nil, errors.Join(fmt.Errorf("delayer serve does not serve: %w", ctx.Err()), d.Close())
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
	switch {
	case c.proxied != "":
		to = delayed(d.prefix)
	case exchange != "":
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
	p := topology.Plan{Exchanges: []topology.Exchange{{Name: delayed(prefix)}, {Name: prefix + ".proxy." + delayed(prefix)}}}
	for _, x := range []string{toOne(prefix), toAny(prefix), prefix + ".proxy"} {
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
	url     string
	proxied string              // the prefix of the run, if the URL is that of a proxy
	conn    *amqp091.Connection // nil until it is needed, and after an error
	ch      *amqp091.Channel
}

// connect opens a confirming channel. Through a proxy it also declares the exchange, as those do
// that know only the plugin.
func (c *client) connect(ctx context.Context) (err error) {
	if c.conn, err = amqpclient.Dial(ctx, c.url, "faults"); err != nil {
		return err
	}
	if c.ch, err = c.conn.Channel(); err != nil {
		return err
	}
	if c.proxied != "" {
		const durable, autoDelete, internal = true, false, false
		x, args := delayed(c.proxied), amqp091.Table{"x-delayed-type": "topic"}
		err = c.ch.ExchangeDeclare(x, "x-delayed-message", durable, autoDelete, internal, noWait, args)
		if err == nil {
			err = c.ch.ExchangeBind(exchangeOf(c.proxied), "#", x, noWait, nil)
		}
	}
	return errors.Join(err, c.ch.Confirm(noWait))
}

// publish publishes, and does not try again. An error is either delayer.ErrNotSent or ErrUnknown.
func (c *client) publish(ctx context.Context, exchange string, msg amqp091.Publishing) error {
	failed := func(kind, cause error) error { return &delayer.Error{Op: "publish", Kind: kind, Cause: cause} }
	for c.conn == nil {
		if err := c.connect(ctx); err != nil {
			c.close()
			if pace.Sleep(ctx, 100*time.Millisecond) != nil {
				return failed(delayer.ErrNotSent, err)
			}
		}
	}
	if err := amqpclient.Publish(ctx, c.ch, exchange, "to.it", msg); err != nil {
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
