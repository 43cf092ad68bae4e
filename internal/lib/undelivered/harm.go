package undelivered

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/broker"
)

// A Nature is what can make it harmful to receive messages of a queue and to return them.
type Nature struct {
	Type       string  // such as quorum
	AutoDelete bool    // the broker deletes the queue with its last consumer
	Single     bool    // one consumer at a time gets messages
	Limits     []int64 // the delivery limits of its argument and of its policies
	Hidden     string  // what is not known of its policies, or ""
}

const (
	// defaultLimit is the delivery limit of a quorum queue that sets none, from RabbitMQ 4.0 on.
	defaultLimit = 20
	// neverReached is a delivery limit that nobody reaches by looking.
	neverReached = 1_000_000
)

// harm says why to look at a queue would do harm, or "". Measured on 3.10.8 and 4.0.5: a message
// that is returned more often than the delivery limit is deleted, whether by a nack, a reject or a
// closed channel, and the lower one of argument and policy counts. -1 is no limit on 4.0.5, and
// less than 0 on 3.10.8. On 4.3.6 a nack does not count.
func (n Nature) harm(from func(major, minor int) bool) (why, hint string) {
	switch {
	case n.AutoDelete:
		return "it is auto-delete: the broker deletes it, with all messages, once nobody consumes it any more", "declare it without auto-delete"
	case n.Single:
		return "it has a single active consumer, so its messages cannot be looked at", "declare it without x-single-active-consumer"
	case n.Type == "stream":
		return "it is a stream, whose messages stay when they are sent again", "read it with a stream client"
	case n.Type != "quorum" || from(4, 3):
		return "", ""
	case n.Hidden != "":
		return "it is not known whether a look deletes its messages: " + n.Hidden,
			"wait some seconds, after which RabbitMQ tells of a new queue, unless it collects no statistics (management.disable_stats); or keep policies with delivery-limit from the queue, and leave out management, without which nobody looks at them"
	}
	lowest := int64(math.MaxInt64)
	if len(n.Limits) == 0 && from(4, 0) {
		lowest = defaultLimit
	}
	for _, limit := range n.Limits {
		if limit >= 0 || !from(4, 0) {
			lowest = min(lowest, limit)
		}
	}
	if lowest >= neverReached {
		return "", ""
	}
	return fmt.Sprintf("each look counts as a delivery, and RabbitMQ deletes a message at the queue's delivery limit of %d", lowest),
		`without an argument x-delivery-limit, set a policy for it with "delivery-limit": 1000000; with one, declare it again as package retry does`
}

// harmless refuses to read a queue where that would do harm. Our own queues do none but by a policy.
func (b *Client) harmless(ctx context.Context, queue string) error {
	ask := b.Ask
	if ask == nil && !b.Parked() {
		return nil // AMQP does not tell of policies
	}
	if ask == nil {
		ask = b.nature
	}
	nature, err := ask(ctx, queue)
	if err != nil {
		return err
	}
	if !b.Parked() {
		nature.Single = false // of the misrouted queue, which is read so
	}
	why, hint := nature.harm(b.conn.From)
	if why == "" {
		return nil
	}
	return &delayer.Error{Op: "read", Object: fmt.Sprintf("queue %q", queue), Kind: delayer.ErrConflict, Cause: errors.New(why), Hint: hint}
}

// nature learns the arguments of a queue over AMQP, without its policies: the broker refuses to
// declare the queue again with others, and says one that differs each time. Should the queue be gone
// by then, none can be declared with these.
func (b *Client) nature(ctx context.Context, queue string) (n Nature, err error) {
	const mostArguments = 20
	durable, args := true, amqp091.Table{limitArgument: "?"}
	for range mostArguments {
		err := b.control.Do(ctx, func(ch *amqp091.Channel) error {
			_, err := ch.QueueDeclare(queue, durable, false, !exclusive, waitForAnswer, args)
			return err
		})
		if err == nil { // nothing differs: a classic queue has no delivery limit
			return n, nil
		}
		argument, current, kind := differs(err, queue)
		switch argument {
		case "":
			return n, unknown(queue, err)
		case "durable":
			durable = false
			continue
		case "auto_delete":
			n.AutoDelete = true
			return n, nil
		case limitArgument:
			if limit, err := strconv.ParseInt(current, 10, 64); err == nil {
				n.Limits = append(n.Limits, limit)
			}
			return n, nil
		case "x-queue-type":
			n.Type, args["x-queue-mode"] = current, "?" // which only classic queues know
		case "x-single-active-consumer":
			n.Single = current == "true"
		}
		switch number, failed := strconv.ParseInt(current, 10, 64); {
		case kind == "bool":
			args[argument] = current == "true"
		case kind == "longstr" || failed != nil:
			args[argument] = current
		default:
			args[argument] = number
		}
	}
	return n, unknown(queue, errors.New("it has too many arguments"))
}

const limitArgument = "x-delivery-limit"

// other is the end of the broker's answer, unless that is cut off at 255 bytes.
var other = regexp.MustCompile(`(?s)' but current is '(.*)'$|none but current is the value '(.*)' of type '([a-z]+)'$|' but current is (none)$`)

// differs returns the argument in which a queue differs from a declaration, and what the queue has;
// "" if that cannot be read from the answer.
func differs(err error, queue string) (argument, current, kind string) {
	var refused *amqp091.Error
	if !errors.As(err, &refused) || refused.Code != amqp091.PreconditionFailed {
		return "", "", ""
	}
	rest, is := strings.CutPrefix(refused.Reason, "PRECONDITION_FAILED - inequivalent arg '")
	argument, rest, of := strings.Cut(rest, "' for queue '"+queue+"' in vhost '")
	found := other.FindStringSubmatch(rest)
	if !is || !of || found == nil {
		return "", "", ""
	}
	return argument, found[1] + found[2] + found[4], found[3]
}

func unknown(queue string, err error) error {
	return &delayer.Error{
		Op: "read", Object: fmt.Sprintf("queue %q", queue), Kind: delayer.ErrConflict,
		Cause: fmt.Errorf("it is not known whether a look deletes its messages: the broker does not tell its arguments: %w", broker.Explain("look at", "", "", err)),
		Hint:  "give the address of the management API (key management), or let the user configure the queue",
	}
}
