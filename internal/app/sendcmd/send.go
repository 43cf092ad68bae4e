// Package sendcmd sends messages, and cancels or postpones them: delayer send, cancel and
// postpone.
package sendcmd

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/flags"
)

// Send is `delayer send`.
type Send struct {
	flags.Broker
	Exchange    string            `placeholder:"NAME" help:"The destination exchange. Without it, the queue that --key names."`
	Key         string            `placeholder:"KEY" help:"The routing key, or the queue's name."`
	Delay       *cli.Delay        `placeholder:"90s" help:"How long the message waits, such as 250ms, 90s, 36h or 2d."`
	At          *moment           `placeholder:"TIME" help:"When it is due, instead of --delay: 2027-01-31T18:00:00Z, or 2027-01-31T18:00 in this machine's zone."`
	ID          string            `placeholder:"ID" help:"With --at: a name for the message. Sent again with the same name and time, it is delivered once, and delayer cancel takes the name and time. Needs backend controller."`
	Body        string            `required:"" placeholder:"TEXT" help:"The body: text, @FILE, or - for standard input."`
	MessageID   string            `placeholder:"ID" help:"The message-id property, by which consumers recognise duplicates. Without it, --id, or else a random one."`
	ContentType string            `placeholder:"TYPE" help:"The content-type property."`
	Header      map[string]string `mapsep:"none" placeholder:"K=V" help:"A header with a string value. May be repeated."`
	flags.Deadline
	cli.Format
}

type sent struct {
	Bytes       int    `json:"bytes"`
	Destination string `json:"destination"`
	MessageID   string `json:"message_id"`
	scheduled          // no ticket where messages cannot be cancelled
}

// Validate refuses invalid values as usage errors, before anything is opened.
func (c *Send) Validate() error {
	switch {
	case c.Exchange == "" && c.Key == "":
		return fmt.Errorf("--exchange, --key: give an exchange, or a queue's name as the key")
	case c.ID != "" && c.At == nil:
		return errors.New("--id: give --at too")
	}
	if _, err := until(c.Delay, c.At, time.Now()); err != nil {
		return err
	}
	return c.Deadline.Validate()
}

// Run sends one message and says when it is due.
func (c *Send) Run(ctx context.Context, s cli.Streams) error {
	said, err := c.send(ctx, s)
	if errors.Is(err, delayer.ErrUnknown) { // to send it again with its id, or to cancel it
		err = fmt.Errorf("%w: if it was sent, it has message-id %s, %s", err, said.MessageID, said.scheduled)
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", cli.ErrInterrupted, err)
		}
	}
	if err != nil {
		return err
	}
	if c.JSON() {
		return cli.WriteJSON(s.Out, said)
	}
	unless := ""
	if c.ID != "" {
		unless = " unless it was cancelled before"
	}
	_, err = fmt.Fprintf(s.Out, "sent %s to %s%s, message-id %s, %s\n", cli.Count(said.Bytes, "byte"), said.Destination, unless, said.MessageID, said.scheduled)
	return err
}

func (c *Send) send(ctx context.Context, s cli.Streams) (said sent, err error) {
	cfg, err := c.Load()
	if err != nil {
		return said, err
	}
	body, err := c.body(ctx, s)
	if err != nil {
		return said, err
	}
	ctx, cancel := c.Within(ctx)
	defer cancel()
	d, err := flags.OpenBriefly(ctx, cfg)
	if err != nil {
		return said, err
	}
	defer d.Close() //nolint:errcheck // the message is confirmed, or its error is what matters
	now := time.Now()
	delay, err := until(c.Delay, c.At, now)
	if err != nil {
		return said, err
	}
	said = sent{Bytes: len(body), Destination: c.destination(), MessageID: cmp.Or(c.MessageID, c.ID, rand.Text()), scheduled: due(d.Limits(), now, delay)}
	headers := amqp091.Table{}
	for name, value := range c.Header {
		headers[name] = value
	}
	msg := amqp091.Publishing{ContentType: c.ContentType, Headers: headers, Body: body, MessageId: said.MessageID}
	m := delayer.Message{Exchange: c.Exchange, Key: c.Key, Delay: delay, Publishing: msg}
	if c.ID != "" {
		m.ID, m.Due, m.Delay = c.ID, c.At.Time, 0
	}
	if m.ID != "" || d.Limits().CancelBefore > 0 {
		said.Ticket, err = d.Schedule(ctx, m)
	} else {
		err = d.Publish(ctx, c.Exchange, c.Key, delay, msg)
	}
	return said, err
}

func (c *Send) body(ctx context.Context, s cli.Streams) ([]byte, error) {
	var body []byte
	var err error
	switch path, isFile := strings.CutPrefix(c.Body, "@"); {
	case c.Body == "-":
		body, err = s.ReadAll(ctx)
	case isFile:
		body, err = os.ReadFile(path)
	default:
		return []byte(c.Body), nil
	}
	if err != nil {
		return nil, fmt.Errorf("--body: %w", err)
	}
	return body, nil
}

func (c *Send) destination() string {
	if c.Exchange == "" {
		return fmt.Sprintf("queue %q", c.Key)
	}
	return fmt.Sprintf("exchange %q with key %q", c.Exchange, c.Key)
}
