package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/cli"
)

// sendCmd is `delayer send`.
type sendCmd struct {
	brokerFlags
	Exchange    string        `placeholder:"NAME" help:"The destination exchange. Without it, the queue that --key names."`
	Key         string        `placeholder:"KEY" help:"The routing key, or the queue's name."`
	Delay       time.Duration `required:"" placeholder:"90s" help:"How long the message waits, such as 250ms, 90s or 36h."`
	Body        string        `required:"" placeholder:"TEXT" help:"The body: text, @FILE, or - for standard input."`
	ContentType string        `placeholder:"TYPE" help:"The content-type property."`
	Header      []string      `sep:"none" placeholder:"K=V" help:"A header with a string value. May be repeated."`
	Timeout     time.Duration `default:"30s" help:"Give up after this time (${default})."`
}

// Validate refuses invalid values as usage errors, before anything is opened.
func (c *sendCmd) Validate() error {
	switch {
	case c.Exchange == "" && c.Key == "":
		return fmt.Errorf("--exchange, --key: give an exchange, or a queue's name as the key")
	case c.Delay < 0:
		return fmt.Errorf("--delay: %v is negative", c.Delay)
	case c.Timeout <= 0:
		return fmt.Errorf("--timeout: %v must be positive", c.Timeout)
	}
	_, err := c.headers()
	return err
}

// Run sends one message and says when it is due.
func (c *sendCmd) Run(ctx context.Context, s streams) error {
	said, err := c.send(ctx, s.in)
	if err != nil {
		return cli.InterruptedOr(ctx, failure("send", err))
	}
	_, err = fmt.Fprintln(s.out, said)
	return err
}

func (c *sendCmd) send(ctx context.Context, stdin io.Reader) (said string, err error) {
	cfg, err := c.load()
	if err != nil {
		return "", err
	}
	cfg.Logger = slog.New(slog.DiscardHandler) // the error is enough
	headers, err := c.headers()
	if err != nil {
		return "", err
	}
	body, err := c.body(stdin)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	d, err := backend.Open(ctx, cfg)
	if err != nil {
		return "", err
	}
	defer d.Close() //nolint:errcheck // the message is confirmed, or its error is what matters
	due := time.Now().Add(c.Delay)
	err = d.Publish(ctx, c.Exchange, c.Key, c.Delay, amqp091.Publishing{ContentType: c.ContentType, Headers: headers, Body: body})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("sent %d bytes to %s, due %s%s", len(body), c.destination(), due.Format("2006-01-02T15:04:05.000Z07:00"), rounded(d.Limits(), c.Delay)), nil
}

// headers are those of the flags.
func (c *sendCmd) headers() (amqp091.Table, error) {
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

func (c *sendCmd) body(stdin io.Reader) ([]byte, error) {
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

func (c *sendCmd) destination() string {
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
