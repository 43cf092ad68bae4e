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
	"github.com/delayer-go/delayer/internal/lib/attempt"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// Config says what to consume and what becomes of messages that fail. A zero field has its default.
type Config struct {
	// URL is the broker's address, as in [delayer.Options]: the Delayer's broker and virtual host.
	// Required.
	URL string `yaml:"url"`
	// TLS is used with amqps:// addresses. Default: the system's authorities and the URL's
	// parameters.
	TLS *tls.Config `yaml:"-"`

	// Queue is the queue to consume, a quorum or a classic one. It must exist. Retries go to it and
	// to no other. Required.
	Queue string `yaml:"queue"`
	// Policy says when a failed message comes again. Required.
	Policy Policy `yaml:"policy"`
	// Parked is the queue for messages that are given up. It is declared as a quorum queue unless
	// it exists. Default: Queue + ".parked".
	Parked string `yaml:"parked"`

	// Concurrency is how many handlers run at once. Default: 1, which keeps the order of the queue.
	Concurrency int `yaml:"concurrency"`
	// Prefetch is how many messages the broker delivers before they are acknowledged, including
	// those that wait for the confirm of their retry. At least Concurrency, and at most what the
	// timeouts below allow. Default: 50, or Concurrency if that is more, or what they allow if that
	// is less.
	Prefetch int `yaml:"prefetch"`

	// HandlerTimeout is the time after which a handler's ctx ends. Default: 1m.
	HandlerTimeout time.Duration `yaml:"handler_timeout"`
	// ConsumerTimeout is the broker's: how long a message of the queue may be unacknowledged. After
	// that the broker ends the consumer, and delivers its messages again while their handlers may
	// still run. So Prefetch / Concurrency, rounded up, × HandlerTimeout + Hold must stay below it.
	// Default: 30m, as RabbitMQ's.
	ConsumerTimeout time.Duration `yaml:"consumer_timeout"`
	// StopTimeout is how long handlers may continue after the ctx of [Consume] has ended. Then
	// their own ctx ends. Default: 30s.
	StopTimeout time.Duration `yaml:"stop_timeout"`
	// Hold is how long a message is held if the broker does not confirm its retry. It is published
	// again with growing pauses, and goes back to its queue after Hold: the handler then runs
	// again. At least 1m. Default: 5m.
	Hold time.Duration `yaml:"hold"`

	// Observer is told of each run of the handler (Handled) and of what is parked (Parked). The
	// Delayer tells the rest to its own.
	Observer delayer.Observer `yaml:"-"`
	// Logger receives failures. Default: slog.Default().
	Logger *slog.Logger `yaml:"-"`
}

// mostPrefetch is the highest Prefetch with which each message is acknowledged in time. The last
// waits for those before it, its handler takes HandlerTimeout, and its retry is held for Hold.
func (c Config) mostPrefetch() int {
	in := c.ConsumerTimeout - c.Hold - 1 // below it
	if in < 0 || c.HandlerTimeout <= 0 {
		return 0
	}
	return c.Concurrency * int(min(in/c.HandlerTimeout, math.MaxUint16))
}

const shortestHold = time.Minute

func (c Config) resolve(l delayer.Limits) (Config, error) {
	c.Parked = cmp.Or(c.Parked, attempt.ParkedQueue(c.Queue))
	c.Concurrency = cmp.Or(c.Concurrency, 1)
	c.HandlerTimeout = cmp.Or(c.HandlerTimeout, time.Minute)
	c.ConsumerTimeout = cmp.Or(c.ConsumerTimeout, 30*time.Minute)
	c.StopTimeout = cmp.Or(c.StopTimeout, 30*time.Second)
	c.Hold = cmp.Or(c.Hold, 5*time.Minute)
	c.Prefetch = cmp.Or(c.Prefetch, max(c.Concurrency, min(50, c.mostPrefetch())))
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.Logger = c.Logger.With("queue", c.Queue)
	if key, err := c.check(); err != nil {
		return c, &delayer.Error{Op: "open retry", Object: key, Kind: delayer.ErrConfig, Cause: err}
	}
	return c, c.Policy.validate(l)
}

func (c Config) check() (key string, err error) {
	switch {
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
	case c.ConsumerTimeout < 0:
		return "consumer_timeout", fmt.Errorf("%v is negative", c.ConsumerTimeout)
	case c.StopTimeout < 0:
		return "stop_timeout", fmt.Errorf("%v is negative", c.StopTimeout)
	case c.Hold < shortestHold:
		return "hold", fmt.Errorf("%v is below %v: the handler would run for nothing again and again", c.Hold, shortestHold)
	}
	if most := c.mostPrefetch(); most == 0 {
		return "handler_timeout", fmt.Errorf("with hold, %v in all, it is not below consumer_timeout, %v, after which the broker delivers a message again: "+
			"lower one of them, or raise the broker's timeout and say so", c.HandlerTimeout+c.Hold, c.ConsumerTimeout)
	} else if c.Prefetch > most {
		return "prefetch", fmt.Errorf("%d is above %d: the last message would be unacknowledged for consumer_timeout, %v, after which the broker delivers it again; "+
			"lower prefetch, handler_timeout or hold, or raise concurrency", c.Prefetch, most, c.ConsumerTimeout)
	}
	if err := message.Validate("", c.Queue, &amqp091.Publishing{}, message.Limits{}); err != nil {
		return "queue", err
	}
	if err := message.Validate("", c.Parked, &amqp091.Publishing{}, message.Limits{}); err != nil {
		return "parked", err
	}
	return "", nil
}
