package retry

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/message"
)

// Config says what to consume and what becomes of messages that fail. A field that is zero takes its
// default.
type Config struct {
	// Delayer publishes retries and parked messages. It is of the same broker and virtual host as URL.
	// The caller opens it, and closes it afterwards. Required.
	Delayer delayer.Delayer `yaml:"-"`

	// URL is the broker's address, as in [delayer.Options]. Required.
	URL string `yaml:"url"`
	// TLS is used with amqps:// addresses. Default: the system's authorities, and the URL's parameters.
	TLS *tls.Config `yaml:"-"`

	// Queue is the queue to consume. It must exist. Retries go to it and to no other. Required.
	Queue string `yaml:"queue"`
	// Policy says when a failed message comes again. Required.
	Policy Policy `yaml:"policy"`
	// Parked is the queue for messages that are given up. It is declared as a quorum queue unless it
	// exists. Default: Queue with ".parked" behind it.
	Parked string `yaml:"parked"`

	// Concurrency is how many handlers run at a time. Default: 1, which keeps the order of the queue.
	Concurrency int `yaml:"concurrency"`
	// Prefetch is how many messages the broker sends ahead; those that wait for the confirm of their
	// retry are among them. At least Concurrency. Default: 50, or Concurrency if that is more.
	Prefetch int `yaml:"prefetch"`

	// HandlerTimeout is when a handler's ctx ends, which counts as a failure if it returns an error
	// then. Together with Hold it must stay below the broker's consumer timeout (30 minutes by
	// default): after that the broker closes the channel, and delivers the message again while the
	// handler may still run. Default: 10m.
	HandlerTimeout time.Duration `yaml:"handler_timeout"`
	// StopTimeout is how long handlers may go on once ctx has ended, before theirs ends. Default: 30s.
	StopTimeout time.Duration `yaml:"stop_timeout"`
	// Hold is how long a message is held whose retry the broker does not confirm. It is published again
	// with growing pauses, and given back to the queue after that. At least 1s. Default: 5m.
	Hold time.Duration `yaml:"hold"`

	// Logger receives what fails. Default: slog.Default().
	Logger *slog.Logger `yaml:"-"`
}

const shortestHold = time.Second

// resolve fills in the defaults and checks all.
func (c Config) resolve() (Config, error) {
	c.Parked = cmp.Or(c.Parked, c.Queue+".parked")
	c.Concurrency = cmp.Or(c.Concurrency, 1)
	c.Prefetch = cmp.Or(c.Prefetch, max(50, c.Concurrency))
	c.HandlerTimeout = cmp.Or(c.HandlerTimeout, 10*time.Minute)
	c.StopTimeout = cmp.Or(c.StopTimeout, 30*time.Second)
	c.Hold = cmp.Or(c.Hold, 5*time.Minute)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.Logger = c.Logger.With("queue", c.Queue)
	if key, err := c.check(); err != nil {
		return c, &delayer.Error{Op: "open retry", Object: key, Kind: delayer.ErrConfig, Cause: err}
	}
	return c, c.Policy.Validate(c.Delayer.Limits())
}

// check returns what is wrong, and its key.
func (c Config) check() (key string, err error) {
	switch {
	case c.Delayer == nil:
		return "delayer", errors.New("there is none: open one with package backend")
	case c.Queue == "":
		return "queue", errors.New("empty: name the queue to consume")
	case c.Parked == c.Queue:
		return "parked", errors.New("it is the queue itself: messages would never be given up")
	case c.Concurrency < 0 || c.Concurrency > math.MaxUint16:
		return "concurrency", fmt.Errorf("%d is not between 1 and %d", c.Concurrency, math.MaxUint16)
	case c.Prefetch < c.Concurrency || c.Prefetch > math.MaxUint16:
		return "prefetch", fmt.Errorf("%d is not between concurrency (%d) and %d", c.Prefetch, c.Concurrency, math.MaxUint16)
	case c.HandlerTimeout < 0:
		return "handler_timeout", fmt.Errorf("%v is negative", c.HandlerTimeout)
	case c.StopTimeout < 0:
		return "stop_timeout", fmt.Errorf("%v is negative", c.StopTimeout)
	case c.Hold < shortestHold:
		return "hold", fmt.Errorf("%v is below %v: a message would go round in circles", c.Hold, shortestHold)
	}
	if err := message.Validate("", c.Queue, &amqp091.Publishing{}, message.Limits{}); err != nil {
		return "queue", err
	}
	if err := message.Validate("", c.Parked, &amqp091.Publishing{}, message.Limits{}); err != nil {
		return "parked", err
	}
	return "", nil
}
