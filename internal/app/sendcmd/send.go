// Package sendcmd sends messages, and cancels or reschedules them: delayer send, cancel and
// reschedule.
package sendcmd

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
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
	Exchange    string        `placeholder:"NAME" help:"The destination exchange. Without it, the queue that --key names."`
	Key         string        `placeholder:"KEY" help:"The routing key, or the queue's name."`
	Delay       time.Duration `required:"" placeholder:"90s" help:"How long the message waits, such as 250ms, 90s or 36h."`
	Body        string        `required:"" placeholder:"TEXT" help:"The body: text, @FILE, or - for standard input."`
	ContentType string        `placeholder:"TYPE" help:"The content-type property."`
	Header      []string      `sep:"none" placeholder:"K=V" help:"A header with a string value. May be repeated."`
	flags.Deadline
	cli.Format
}

// sent is what send says.
type sent struct {
	Bytes       int    `json:"bytes"`
	Destination string `json:"destination"`
	scheduled          // no ticket where messages cannot be cancelled
	Rounded     string `json:"-"` // why it comes later than was asked for
}

// Validate refuses invalid values as usage errors, before anything is opened.
func (c *Send) Validate() error {
	switch {
	case c.Exchange == "" && c.Key == "":
		return fmt.Errorf("--exchange, --key: give an exchange, or a queue's name as the key")
	case c.Delay < 0:
		return fmt.Errorf("--delay: %v is negative", c.Delay)
	}
	if _, err := c.headers(); err != nil {
		return err
	}
	return c.Deadline.Validate()
}

// Run sends one message and says when it is due.
func (c *Send) Run(ctx context.Context, s cli.Streams) error {
	said, err := c.send(ctx, s.In)
	if err != nil {
		return err
	}
	if c.JSON() {
		return cli.WriteJSON(s.Out, said)
	}
	_, err = fmt.Fprintf(s.Out, "sent %d bytes to %s, due %s%s%s\n", said.Bytes, said.Destination, said.Due.Format(timeLayout), said.Rounded, said.named())
	return err
}

func (c *Send) send(ctx context.Context, stdin io.Reader) (said sent, err error) {
	cfg, err := c.Load()
	if err != nil {
		return said, err
	}
	headers, err := c.headers()
	if err != nil {
		return said, err
	}
	body, err := c.body(stdin)
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
	said = sent{Bytes: len(body), Destination: c.destination(), Rounded: rounded(d.Limits(), c.Delay)}
	said.Due = time.Now().Add(c.Delay)
	said.Ticket, err = c.publish(ctx, d, amqp091.Publishing{ContentType: c.ContentType, Headers: headers, Body: body})
	return said, err
}

// publish returns a ticket where messages can be cancelled.
func (c *Send) publish(ctx context.Context, d delayer.Delayer, msg amqp091.Publishing) (delayer.Ticket, error) {
	if d.Limits().CancelBefore > 0 {
		return d.Schedule(ctx, c.Exchange, c.Key, c.Delay, msg)
	}
	return "", d.Publish(ctx, c.Exchange, c.Key, c.Delay, msg)
}

// headers are those of the flags.
func (c *Send) headers() (amqp091.Table, error) {
	headers := amqp091.Table{}
	for _, text := range c.Header {
		name, value, found := strings.Cut(text, "=")
		if !found || name == "" {
			return nil, fmt.Errorf("--header: %q is not of the form name=value", text)
		}
		headers[name] = value
	}
	return headers, nil
}

func (c *Send) body(stdin io.Reader) ([]byte, error) {
	var body []byte
	var err error
	switch path, isFile := strings.CutPrefix(c.Body, "@"); {
	case c.Body == "-":
		body, err = io.ReadAll(stdin)
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

// rounded says how much longer than asked for a message waits, if the backend has tiers.
func rounded(l delayer.Limits, delay time.Duration) string {
	next := slices.IndexFunc(l.Tiers, func(tier time.Duration) bool { return tier >= delay })
	if delay == 0 || next < 0 || l.Tiers[next] == delay {
		return ""
	}
	return fmt.Sprintf(", and %v later because the next tier is %v", l.Tiers[next]-delay, l.Tiers[next])
}
