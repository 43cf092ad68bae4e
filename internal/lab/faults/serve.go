package faults

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
)

// Serve is delayer serve in front of the wheel of slots: two processes of the command, and clients
// that publish with a header. The clients are in Python where it has pika, otherwise in Go.
func Serve(command func(args ...string) *exec.Cmd, delays ...time.Duration) Subject {
	s := NewSubject("serve slots, pika", backend.Config{Backend: "controller", Options: delayer.Options{QueueType: Quorum}}, delays...)
	by := python()
	if by == "" {
		s.Name = "serve slots, Go (no pika)"
	}
	s.Serve = true
	s.Open = func(ctx context.Context, urls []string, prefix string) (delayer.Delayer, error) {
		return openServing(ctx, urls[0], prefix, command, func() (client, error) {
			if by == "" {
				return &plain{url: urls[0]}, nil
			}
			return startPika(by, urls[0])
		})
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

func serveConfig(url, prefix string) string {
	return fmt.Sprintf("url: %q\nprefix: %s\nbackend: controller\nserve:\n  exchanges:\n    - {name: %s, to: %s}\n    - {name: %s, allow: [%s]}\n",
		url, prefix, toOne(prefix), exchangeOf(prefix), toAny(prefix), exchangeOf(prefix))
}

// A serving publishes through clients to what services serve. Of a Delayer it has what a Run needs.
type serving struct {
	delayer.Delayer // nil

	prefix   string
	folder   string // of the configuration
	services []*service
	clients  chan client // those that publish nothing now
}

func openServing(
	ctx context.Context, url, prefix string, command func(args ...string) *exec.Cmd, open func() (client, error),
) (delayer.Delayer, error) {
	const processes, clients = 2, 4
	d := &serving{prefix: prefix, clients: make(chan client, clients)}
	var err error
	if d.folder, err = os.MkdirTemp("", "delayer-faults-serve-"); err != nil {
		return nil, err
	}
	config := filepath.Join(d.folder, "delayer.yaml")
	if err := os.WriteFile(config, []byte(serveConfig(url, prefix)), 0o600); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	for range processes {
		p := startService(func() *exec.Cmd { return command("serve", "--config", config) })
		d.services = append(d.services, p)
		if err := p.await(ctx, 0); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	for range clients {
		c, err := open()
		if err != nil {
			return nil, errors.Join(err, d.Close())
		}
		d.clients <- c
	}
	return d, nil
}

// Publish lets a client publish to one of the two exchanges.
func (d *serving) Publish(ctx context.Context, exchange, _ string, delay time.Duration, msg amqp091.Publishing) error {
	var c client
	select {
	case c = <-d.clients:
	case <-ctx.Done():
		return unsuccessful(delayer.ErrNotSent, ctx.Err())
	}
	defer func() { d.clients <- c }()
	q := request{Exchange: toOne(d.prefix), Key: "to.it", Headers: map[string]any{}, Body: string(msg.Body)}
	if exchange != "" {
		q.Exchange, q.Headers["x-delayer-exchange"] = toAny(d.prefix), exchange
	}
	if delay > 0 {
		q.Headers["x-delay"] = delay.Milliseconds()
	}
	return c.publish(ctx, q)
}

// Limits are those of who cannot cancel.
func (d *serving) Limits() delayer.Limits { return delayer.Limits{} }

// Close ends the clients, which publish nothing any more, and the services.
func (d *serving) Close() error {
	for range len(d.clients) {
		(<-d.clients).close()
	}
	for _, p := range d.services {
		p.close()
	}
	return os.RemoveAll(d.folder)
}

// removeServing deletes what the services have declared for their exchanges.
func removeServing(ctx context.Context, urls []string, prefix string) error {
	return doOnce(ctx, urls, func(ch *amqp091.Channel) error {
		for _, x := range []string{toOne(prefix), toAny(prefix)} {
			for _, what := range []string{"queue", "back", "parked"} {
				if err := deleteQueue(ch, prefix+".serve."+what+"."+x); err != nil {
					return err
				}
			}
			for _, name := range []string{x, prefix + ".serve.expired." + x, prefix + ".serve.entry." + x} {
				if err := ch.ExchangeDelete(name, ifUnused, noWait); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// A service is a process of delayer serve that is started again whenever it has ended, as Docker,
// Kubernetes and systemd do.
type service struct {
	command func() *exec.Cmd
	stop    context.CancelFunc
	running sync.WaitGroup
	serves  chan int // the number of the start that serves, if nobody has awaited it yet

	mu     sync.Mutex
	starts int
	kill   func() error // the process
	last   string       // line of its log
}

func startService(command func() *exec.Cmd) *service {
	ctx, stop := context.WithCancel(context.Background())
	p := &service{command: command, stop: stop, serves: make(chan int, 1)}
	p.running.Go(func() {
		for ctx.Err() == nil {
			p.run(ctx)
			const pause = 200 * time.Millisecond
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
	})
	return p
}

// run starts the process, and returns when it has ended.
func (p *service) run(ctx context.Context) {
	cmd := p.command()
	out, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		p.say(err.Error())
		return
	}
	p.mu.Lock()
	p.starts++
	n := p.starts
	p.kill = cmd.Process.Kill
	p.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	left := 2 // exchanges
	for lines := bufio.NewScanner(out); lines.Scan(); {
		p.say(lines.Text())
		if !strings.Contains(lines.Text(), "an exchange is served") {
			continue
		}
		if left--; left == 0 {
			select {
			case <-p.serves: // an earlier one
			default:
			}
			p.serves <- n
		}
	}
	_ = cmd.Wait() // says how it was ended
}

func (p *service) say(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = line
}

// killed kills the process, and returns the number of its start.
func (p *service) killed() (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.kill()
	if errors.Is(err, os.ErrProcessDone) { // it found no broker
		err = nil
	}
	return p.starts, err
}

// await returns once the process serves that was started after another.
func (p *service) await(ctx context.Context, after int) error {
	for {
		select {
		case n := <-p.serves:
			if n > after {
				return nil
			}
		case <-ctx.Done():
			p.mu.Lock()
			defer p.mu.Unlock()
			return fmt.Errorf("delayer serve does not serve, and has said last %q: %w", p.last, context.Cause(ctx))
		}
	}
}

func (p *service) close() {
	p.stop()
	p.running.Wait()
}
