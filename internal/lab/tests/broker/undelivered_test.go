package broker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/internal/lib/undelivered"
	"github.com/delayer-go/delayer/topology"
)

// unroutable returns a Client of a prefix. Nothing is declared.
func unroutable(t *testing.T, prefix string) *undelivered.Client {
	t.Helper()
	c, err := undelivered.OpenUnroutable(within(t), options(t, rabbittest.Broker(t).URL()), prefix)
	require.NoError(t, err)
	c.Rules.TTL = delivery.TTLs("", topology.Plan{})
	t.Cleanup(c.Close)
	return c
}

// kept returns a Client with n messages in its queue.
func kept(t *testing.T, n int) (*undelivered.Client, *rabbittest.Rig) {
	t.Helper()
	c := unroutable(t, rabbittest.Prefix(t))
	r := rabbittest.NewRig(t, rabbittest.Broker(t))
	r.Declare(c.Queue(), amqp091.Table{"x-queue-type": "quorum"})
	r.Publish("", c.Queue(), slices.Repeat([]amqp091.Publishing{{Body: []byte("x")}}, n)...)
	awaitKept(r, c.Queue(), n)
	return c, r
}

func awaitKept(r *rabbittest.Rig, queue string, n int) {
	r.Helper()
	require.Eventually(r, func() bool { return r.Count(queue) == n }, patience, 10*time.Millisecond)
}

func senderOf(t *testing.T, c *undelivered.Client) *undelivered.Sender {
	t.Helper()
	s, err := c.Sender(within(t))
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// TestUndelivered_BrokersTime: the operator's clock, which says that the message is due, decides
// nothing.
func TestUndelivered_BrokersTime(t *testing.T) {
	s := senderOf(t, unroutable(t, rabbittest.Prefix(t)))
	now := time.Now()
	m := undelivered.Kept{Ours: true, Known: true, Delivery: amqp091.Delivery{RoutingKey: "q"}}
	for _, c := range []struct {
		due, came time.Time
		stays     string
	}{
		{due: now.Add(-time.Hour)}, // the broker's time is asked for, and says the same on one machine
		{due: now.Add(-time.Minute)},
		{due: now.Add(time.Minute), stays: "it is not due before"},
		{due: now.Add(-time.Hour), came: now.Add(time.Hour), stays: "it is not due before"},
	} {
		m.Remaining, m.Came, m.Envelope.Due = time.Second, c.came, c.due
		stays, err := s.Unfit(within(t), &m)
		require.NoError(t, err)
		if c.stays == "" {
			require.Empty(t, stays)
		}
		require.Contains(t, stays, c.stays)
	}
}

// TestUndelivered_BrokersTimeRefused: nobody may declare exchanges whose names begin with amq., as
// asking for the time does.
func TestUndelivered_BrokersTimeRefused(t *testing.T) {
	s := senderOf(t, unroutable(t, "amq"))
	m := undelivered.Kept{Ours: true, Delivery: amqp091.Delivery{RoutingKey: "q"}, Envelope: message.Envelope{Due: time.Now()}}
	_, err := s.Unfit(within(t), &m)
	require.ErrorIs(t, err, delayer.ErrAccess)
	require.ErrorContains(t, err, "grant the user this permission")

	m.Known = true // and nothing remains of its delay
	stays, err := s.Unfit(within(t), &m)
	require.NoError(t, err, "no clock is needed")
	require.Empty(t, stays)
}

// TestUndelivered_Unfit: messages that are not sent, whatever their destination.
func TestUndelivered_Unfit(t *testing.T) {
	s := senderOf(t, unroutable(t, "p"))
	unfit := func(m undelivered.Kept) string {
		stays, err := s.Unfit(within(t), &m)
		require.NoError(t, err)
		return stays
	}
	require.Contains(t, unfit(undelivered.Kept{}), "no header x-delayer")
	ours := undelivered.Kept{Ours: true, Known: true, Envelope: message.Envelope{Due: time.Now()}}
	require.Empty(t, unfit(ours))
	for _, c := range [][2]string{{"", "p.unroutable"}, {"p.delivery", "k"}} {
		own := ours
		own.Envelope.Exchange, own.RoutingKey = c[0], c[1]
		require.Contains(t, unfit(own), "the Delayer's own")
	}
	ours.UserId = "somebody"
	require.Contains(t, unfit(ours), `its user-id is "somebody"`)
}

// TestUndelivered_SlowQueue: RabbitMQ counts 0 messages in a quorum queue that does not answer
// within 250 ms.
func TestUndelivered_SlowQueue(t *testing.T) {
	t.Parallel()
	c, _ := kept(t, 1)
	resume := rabbittest.Suspend(t, rabbittest.Broker(t), c.Queue())
	soon, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, _, err := c.Read(soon)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	resume()
	r, total, err := c.Read(within(t))
	require.NoError(t, err)
	defer r.Close()
	require.Equal(t, 1, total)
}

// TestUndelivered_QueueDeleted, or the connection lost: what had come is still handed out.
func TestUndelivered_QueueDeleted(t *testing.T) {
	for _, deleted := range []bool{true, false} {
		t.Run(fmt.Sprint(deleted), func(t *testing.T) {
			c, rig := kept(t, 3)
			r, total, err := c.Read(within(t))
			require.NoError(t, err)
			require.Equal(t, 3, total)
			rig.Take(c.Queue()) // the reader waits for one more than it will get
			first, err := r.Next(within(t))
			require.NoError(t, err)
			require.False(t, first.Ours)
			_, err = r.Next(within(t))
			require.NoError(t, err)
			if deleted {
				_, err = rig.Channel().QueueDelete(c.Queue(), false, false, waitForAnswer)
				require.NoError(t, err)
			} else {
				c.Close()
			}
			for err == nil {
				_, err = r.Next(within(t))
			}
			require.ErrorContains(t, err, c.Queue())
			if deleted {
				require.ErrorContains(t, err, "was the queue deleted")
				r.Close()
				_, _, err = c.Read(within(t))
				require.ErrorContains(t, err, "there is no such queue (a Delayer declares it when it is opened")
				return
			}
			require.ErrorIs(t, err, delayer.ErrUnavailable)
			require.Error(t, first.Remove())
			r.Close()
			awaitKept(rig, c.Queue(), 2)
		})
	}
}

// TestUndelivered_HeadersLargerThanAFrame: the broker lets x-death grow beyond its own limit, and
// closes the connection of a consumer of such a message with 501. It is read here, not sent, and
// can be removed.
func TestUndelivered_HeadersLargerThanAFrame(t *testing.T) {
	c, rig := kept(t, 1)
	wait := rig.Exchange("wait", "fanout", nil)
	rig.Bind(c.Queue(), "", wait, nil)
	rig.Declare(wait, amqp091.Table{"x-message-ttl": int64(0), "x-dead-letter-exchange": wait})
	var copies []any
	for i := range 200 {
		copies = append(copies, fmt.Sprintf("%0250d", i))
	}
	rig.Publish("", wait, amqp091.Publishing{Headers: amqp091.Table{
		delayer.Header: message.Envelope{ID: "large", Due: time.Unix(0, 0), Exchange: "amq.topic"}.String(),
		"CC":           copies, "pad": strings.Repeat("x", 70<<10),
	}})
	awaitKept(rig, c.Queue(), 2)
	s := senderOf(t, c)
	r, total, err := c.Read(within(t))
	require.NoError(t, err)
	require.Equal(t, 2, total)
	var unfit []string
	for {
		m, err := r.Next(within(t))
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if m.Ours {
			stays, err := s.Unfit(within(t), m)
			require.NoError(t, err)
			unfit = append(unfit, stays)
			require.NoError(t, m.Remove())
		}
	}
	r.Close()
	require.Len(t, unfit, 1)
	require.Contains(t, unfit[0], "larger than a frame")
	awaitKept(rig, c.Queue(), 1)
}

// TestUndelivered_LookingDeletesNothing: where it would, it is refused before anything is received.
func TestUndelivered_LookingDeletesNothing(t *testing.T) {
	t.Parallel()
	r := rabbittest.NewRig(t, rabbittest.Broker(t))
	ours := unroutable(t, r.Prefix)
	declare := func(name string, autoDelete bool, args amqp091.Table) {
		const durable, exclusive = true, false
		_, err := r.Channel().QueueDeclare(name, durable, autoDelete, exclusive, waitForAnswer, args)
		require.NoError(t, err)
		t.Cleanup(func() { _, _ = r.Channel().QueueDelete(name, false, false, waitForAnswer) })
	}
	look := func(c *undelivered.Client) error {
		reader, _, err := c.Read(within(t))
		if err == nil {
			defer reader.Close()
			_, err = reader.Next(within(t))
		}
		return err
	}
	const many = 25 // more than the default limit of RabbitMQ 4
	_, control := open(t, r.Broker.URL(), func() {})
	counted, four := !control.Conn().From(4, 3), control.Conn().From(4, 0)
	for name, c := range map[string]struct {
		autoDelete bool
		args       amqp091.Table
		refused    string
	}{
		"limit":                    {args: amqp091.Table{"x-queue-type": "quorum", "x-delivery-limit": int64(3)}, refused: when(counted, "at the queue's delivery limit of 3")},
		"more":                     {args: amqp091.Table{"x-queue-type": "quorum", "x-max-length": int64(9), "x-dead-letter-exchange": "x", "x-delivery-limit": int64(2)}, refused: when(counted, "limit of 2")},
		"default":                  {args: amqp091.Table{"x-queue-type": "quorum"}, refused: when(counted && four, "limit of 20")},
		"none":                     {args: amqp091.Table{"x-queue-type": "quorum", "x-delivery-limit": int64(-1)}, refused: when(!four, "limit of -1")},
		"retry":                    {args: delivery.Keeping("").Args},
		"classic":                  {args: amqp091.Table{"x-max-priority": int64(3), "x-dead-letter-exchange": "x"}},
		"auto-delete":              {autoDelete: true, refused: "it is auto-delete"},
		"single":                   {args: amqp091.Table{"x-single-active-consumer": true}, refused: "a single active consumer"},
		"stream":                   {args: amqp091.Table{"x-queue-type": "stream"}, refused: "it is a stream"},
		strings.Repeat("long", 35): {args: amqp091.Table{"x-queue-type": "quorum"}, refused: "it is not known whether a look deletes its messages"}, // the broker's answer is cut off
	} {
		queue := r.Prefix + "-" + name
		declare(queue, c.autoDelete, c.args)
		r.Publish("", queue, amqp091.Publishing{DeliveryMode: amqp091.Persistent})
		client, err := undelivered.OpenParked(within(t), options(t, r.Broker.URL()), queue)
		require.NoError(t, err)
		defer client.Close()
		awaitKept(r, queue, 1)
		for range many {
			if err = look(client); c.refused == "" {
				require.NoError(t, err, name)
			} else {
				require.ErrorIs(t, err, delayer.ErrConflict, name)
				require.ErrorContains(t, err, c.refused)
			}
		}
		awaitKept(r, queue, 1)
	}

	for _, kind := range []string{"classic", "quorum", "stream"} { // how a queue is asked, if it is gone by then
		r.Fresh(func(ch *amqp091.Channel) error {
			_, err := ch.QueueDeclare(r.Prefix+"-gone", true, false, false, waitForAnswer, amqp091.Table{
				"x-queue-type": kind, "x-delivery-limit": "?", "x-queue-mode": "?",
			})
			require.Error(t, err, kind)
			return nil
		})
	}

	// What policies set, the management API tells: of our own queue too.
	declare(ours.Queue(), false, delivery.Keeping("").Args)
	r.Publish("", ours.Queue(), amqp091.Publishing{DeliveryMode: amqp091.Persistent})
	awaitKept(r, ours.Queue(), 1)
	for want, nature := range map[string]undelivered.Nature{
		"limit of 3 (without an argument x-delivery-limit, set a policy": {Type: "quorum", Limits: []int64{objects.NeverGivenUp, 3}},
		"it is not known whether a look deletes its messages: because":   {Type: "quorum", Limits: []int64{objects.NeverGivenUp}, Hidden: "because"},
	} {
		ours.Ask = func(context.Context, string) (undelivered.Nature, error) { return nature, nil }
		if err := look(ours); counted {
			require.ErrorContains(t, err, want)
		}
	}
	awaitKept(r, ours.Queue(), 1)
}

// when is text where something holds, or else "".
func when(holds bool, text string) string {
	if holds {
		return text
	}
	return ""
}

// TestUndelivered_HeadKeepsOrder: looking at a part of a queue, more of it and less, changes
// neither the order nor the number of its messages, nor are they counted as failed; and it is not
// read further each time.
func TestUndelivered_HeadKeepsOrder(t *testing.T) {
	const n, shown = 1200, 50 // more than one channel gets
	for _, kind := range []string{"quorum", "classic"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c := unroutable(t, rabbittest.Prefix(t))
			r := rabbittest.NewRig(t, rabbittest.Broker(t))
			args := amqp091.Table{"x-queue-type": kind}
			if kind == "quorum" {
				args["x-delivery-limit"] = objects.NeverGivenUp // as a Delayer declares it
			}
			r.Declare(c.Queue(), args)
			all := make([]amqp091.Publishing, n)
			for i := range all {
				all[i] = amqp091.Publishing{MessageId: strconv.Itoa(i), DeliveryMode: amqp091.Persistent}
			}
			r.Publish("", c.Queue(), all...)
			awaitKept(r, c.Queue(), n)
			soon := shown
			look := func(want int) (read int) {
				reader, total, err := c.Read(within(t))
				require.NoError(t, err)
				require.Equal(t, n, total)
				reader.Soon(soon)
				for ; ; read++ {
					m, err := reader.Next(within(t))
					if errors.Is(err, io.EOF) {
						break
					}
					require.NoError(t, err)
					require.Equal(t, strconv.Itoa(read), m.MessageId)
					if read+1 == want {
						reader.Enough()
					}
				}
				reader.Close()
				soon = max(shown, reader.Returned())
				return read
			}
			for _, want := range []int{shown, 1, 100, 3, shown, 300, 10} {
				require.GreaterOrEqual(t, look(want), want)
			}
			before := soon
			for range 25 { // 20 is the default limit of a quorum queue, from RabbitMQ 4.0 on
				look(1)
			}
			require.LessOrEqual(t, soon, before+25)
			soon = shown // another process does not know how much was returned
			look(shown)
			require.Equal(t, n, look(n))
			in := r.Consume(c.Queue())
			for i := range n {
				require.Equal(t, strconv.Itoa(i), rabbittest.Next(t, in).MessageId)
			}
		})
	}
}
