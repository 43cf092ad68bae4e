package faults

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/amqpclient"
)

// A request is what a client publishes.
type request struct {
	Exchange string         `json:"exchange"`
	Key      string         `json:"key"`
	Headers  map[string]any `json:"headers"`
	Body     string         `json:"body"`
	Seconds  float64        `json:"seconds"` // how long it may take to connect
}

// A client publishes with a confirm, one message at a time, and knows nothing of Delayer. It
// connects again before the next message. An error matches ErrNotSent or ErrUnknown.
type client interface {
	publish(ctx context.Context, q request) error
	close()
}

func unsuccessful(kind error, cause error) error {
	return &delayer.Error{Op: "publish", Kind: kind, Cause: cause}
}

// python is the command of a Python that has pika, or "". A system's packages may be for the second
// only.
func python() string {
	for _, command := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(command, "-c", "import pika").Run() == nil {
			return command
		}
	}
	return ""
}

//go:embed publish.py
var publisher string

// A pika is a process of Python that publishes.
type pika struct {
	cmd  *exec.Cmd
	in   io.Writer
	out  *bufio.Reader
	errs bytes.Buffer
}

func startPika(python, url string) (client, error) {
	p := &pika{cmd: exec.Command(python, "-c", publisher, url)}
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.in, p.out, p.cmd.Stderr = in, bufio.NewReader(out), &p.errs
	return p, p.cmd.Start()
}

func (p *pika) publish(ctx context.Context, q request) error {
	if by, ok := ctx.Deadline(); ok {
		q.Seconds = time.Until(by).Seconds()
	}
	if err := json.NewEncoder(p.in).Encode(q); err != nil {
		return unsuccessful(delayer.ErrNotSent, err)
	}
	var answer struct{ Outcome, Error string }
	line, err := p.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &answer)
	}
	if err != nil {
		return unsuccessful(delayer.ErrUnknown, fmt.Errorf("the Python program: %w", err))
	}
	switch answer.Outcome {
	case "confirmed":
		return nil
	case "not sent":
		return unsuccessful(delayer.ErrNotSent, errors.New(answer.Error))
	}
	return unsuccessful(delayer.ErrUnknown, errors.New(answer.Error))
}

func (p *pika) close() {
	_ = p.cmd.Process.Kill() // it waits for the next message
	_ = p.cmd.Wait()
}

// A plain is a client in Go.
type plain struct {
	url  string
	conn *amqp091.Connection // nil until it is needed, and after an error
	ch   *amqp091.Channel
}

func (p *plain) connect(ctx context.Context) error {
	conn, err := amqpclient.Dial(ctx, p.url, "faults")
	if err != nil {
		return err
	}
	ch, err := conn.Channel()
	if err == nil {
		err = ch.Confirm(noWait)
	}
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	p.conn, p.ch = conn, ch
	return nil
}

func (p *plain) publish(ctx context.Context, q request) error {
	for p.conn == nil {
		err := p.connect(ctx)
		if err == nil {
			break
		}
		const pause = 100 * time.Millisecond
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return unsuccessful(delayer.ErrNotSent, err)
		}
	}
	const mandatory, immediate = false, false
	confirm, err := p.ch.PublishWithDeferredConfirm(q.Exchange, q.Key, mandatory, immediate, amqp091.Publishing{
		Headers: q.Headers, Body: []byte(q.Body), DeliveryMode: amqp091.Persistent,
	})
	stored := false
	if err == nil {
		stored, err = confirm.WaitContext(ctx)
	}
	if err == nil && !stored {
		err = errors.New("not confirmed")
	}
	if err != nil {
		p.close()
		return unsuccessful(delayer.ErrUnknown, err)
	}
	return nil
}

func (p *plain) close() {
	if p.conn != nil {
		_ = p.conn.CloseDeadline(time.Now().Add(time.Second)) // it may be lost
		p.conn, p.ch = nil, nil
	}
}
