package broker

import (
	"context"
	"errors"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// A Clock tells the broker's time. AMQP has no method for that; but the broker writes the time, in whole seconds,
// on a message that expires. So a message is published to a queue where it expires at once, and comes back from
// there.
type Clock struct {
	conn     *Conn
	exchange string
	id       string

	busy chan struct{} // held by whoever asks the broker
	ch   *amqp091.Channel
	echo <-chan amqp091.Delivery

	known time.Time // what the broker said last
	at    time.Time // when, by our monotonic clock
	again time.Time // not to be asked before
}

const (
	knownFor   = time.Second      // how long a reading is good for
	askTimeout = 5 * time.Second  // for the broker's answer
	askPause   = 30 * time.Second // after it gave none
)

// NewClock asks over conn, which also closes what the clock opens, through a direct exchange of ours. id begins the
// names of its two queues, which no other connection may use.
func NewClock(conn *Conn, exchange, id string) *Clock {
	return &Clock{conn: conn, exchange: exchange, id: id, busy: make(chan struct{}, 1)}
}

// Now returns a time that the broker's clock has certainly reached, at most about a second ago.
func (c *Clock) Now(ctx context.Context) (time.Time, error) {
	select {
	case c.busy <- struct{}{}:
		defer func() { <-c.busy }()
	case <-ctx.Done():
		return time.Time{}, context.Cause(ctx)
	}
	now := time.Now()
	if !c.known.IsZero() && now.Sub(c.at) < knownFor {
		return c.known.Add(now.Sub(c.at)), nil
	}
	if now.Before(c.again) {
		return time.Time{}, errNoAnswer
	}
	ctx, cancel := context.WithTimeoutCause(ctx, askTimeout, errNoAnswer)
	defer cancel()
	known, err := c.ask(ctx)
	if err != nil {
		c.close()
		c.again = now.Add(askPause)
		return time.Time{}, err
	}
	c.known, c.at = known, time.Now()
	return known, nil
}

var errNoAnswer = errors.New("the broker does not tell its time")

// ask sends a message round.
func (c *Clock) ask(ctx context.Context) (time.Time, error) {
	if c.ch == nil || c.ch.IsClosed() {
		if err := c.open(ctx); err != nil {
			return time.Time{}, err
		}
	}
	const mandatory = true
	err := c.ch.PublishWithContext(ctx, c.exchange, c.id, mandatory, notImmediate, amqp091.Publishing{})
	if err != nil {
		return time.Time{}, err
	}
	select {
	case d, ok := <-c.echo:
		deaths, _ := d.Headers["x-death"].([]any)
		if !ok || len(deaths) == 0 {
			return time.Time{}, errNoAnswer
		}
		death, _ := deaths[0].(amqp091.Table)
		at, ok := death["time"].(time.Time)
		if !ok {
			return time.Time{}, errNoAnswer
		}
		return at, nil
	case <-ctx.Done():
		return time.Time{}, context.Cause(ctx)
	}
}

// open declares the queue where a message expires, and the one where it comes back. Both go with the connection.
func (c *Clock) open(ctx context.Context) error {
	ch, err := c.conn.Channel(ctx)
	if err != nil {
		return err
	}
	c.ch = ch
	const durable, autoDelete, exclusive, noLocal, autoAck, anyTag = false, false, true, false, true, ""
	echo := c.id + ".echo"
	for name, args := range map[string]amqp091.Table{
		echo: {"x-queue-type": "classic"},
		c.id: {
			"x-queue-type": "classic", "x-message-ttl": int64(0),
			"x-dead-letter-exchange": c.exchange, "x-dead-letter-routing-key": echo,
		},
	} {
		if _, err := ch.QueueDeclare(name, durable, autoDelete, exclusive, waitForAnswer, args); err != nil {
			return err
		}
		if err := ch.QueueBind(name, name, c.exchange, waitForAnswer, nil); err != nil {
			return err
		}
	}
	if _, err := ch.QueuePurge(echo, waitForAnswer); err != nil { // a late answer to an earlier question
		return err
	}
	c.echo, err = ch.Consume(echo, anyTag, autoAck, exclusive, noLocal, waitForAnswer, nil)
	return err
}

// close lets go of a channel with which something is wrong.
func (c *Clock) close() {
	if c.ch != nil {
		_ = c.ch.Close()
		c.ch = nil
	}
}
