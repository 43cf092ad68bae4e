package outbox

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// An Execer is a pgx.Tx. For a message that belongs to no transaction, a *pgx.Conn or a
// *pgxpool.Pool also fits.
type Execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// channel is what Enqueue notifies and relays listen on.
const channel = "delayer_outbox"

// clock_timestamp() is the time of this statement. now() would be the start of the transaction,
// which may be long ago. PostgreSQL runs the insert although nothing reads from it.
const enqueue = `
WITH added AS (
	INSERT INTO delayer_outbox (message, body, due)
	VALUES ($1, $2, clock_timestamp() + $3::bigint * interval '1 microsecond'))
SELECT pg_notify('` + channel + `', (extract(epoch FROM now()) * 1000000)::bigint::text)`

// Enqueue writes msg into the outbox, as part of the transaction tx. After the commit a [Relay]
// publishes it with what is then left of delay, which runs from this call by the database's clock.
// After a rollback nothing is published. A message without a MessageId gets one.
//
// A message that no backend could publish is refused with [delayer.ErrInvalid] or
// [delayer.ErrOutOfRange]. The transaction can then continue. After any other error roll the
// transaction back: PostgreSQL accepts no further statement in it. msg is not modified and not
// kept.
func Enqueue(ctx context.Context, tx Execer, exchange, key string, delay time.Duration, msg amqp091.Publishing) error {
	refuse := func(kind, cause error) error {
		object := "exchange " + exchange
		if exchange == "" {
			object = "queue " + key
		}
		return &delayer.Error{Op: "enqueue", Object: object, Kind: kind, Cause: cause}
	}
	if delay < 0 {
		return refuse(delayer.ErrOutOfRange, fmt.Errorf("%v is negative", delay))
	}
	if err := validate(exchange, key, &msg); err != nil {
		return refuse(delayer.ErrInvalid, err)
	}
	msg.MessageId = cmp.Or(msg.MessageId, rand.Text())
	text, err := json.Marshal(envelopeOf(exchange, key, &msg))
	if err != nil {
		return refuse(delayer.ErrInvalid, err)
	}
	body := msg.Body
	if body == nil {
		body = []byte{}
	}
	// A string: with the protocols that PgBouncer is used with, pgx writes bytes as bytea, which is
	// no JSON.
	if _, err := tx.Exec(ctx, enqueue, string(text), body, microseconds(delay)); err != nil {
		return fmt.Errorf("outbox: enqueue: %w", tables.Explain(err))
	}
	return nil
}

// validate knows no broker: a priority or a size that only some brokers accept fails in the relay.
func validate(exchange, key string, msg *amqp091.Publishing) error {
	limits := message.Limits{User: msg.UserId, MaxPriority: 255}
	if err := message.Validate(exchange, key, msg, limits); err != nil {
		return err
	}
	if !namesReadable(msg.Headers) {
		return errors.New("a header's name is not UTF-8: rename it")
	}
	return nil
}

// namesReadable reports whether JSON can hold the names in a valid table.
func namesReadable(value any) bool {
	switch v := value.(type) {
	case amqp091.Table:
		for name, item := range v {
			if !utf8.ValidString(name) || !namesReadable(item) {
				return false
			}
		}
	case []any:
		for _, item := range v {
			if !namesReadable(item) {
				return false
			}
		}
	}
	return true
}

// microseconds rounds up, so that no message is early.
func microseconds(d time.Duration) int64 {
	whole := d / time.Microsecond
	if d%time.Microsecond > 0 {
		whole++
	}
	return int64(whole)
}
