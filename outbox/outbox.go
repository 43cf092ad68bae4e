package outbox

import (
	"cmp"
	"context"
	"crypto/rand"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/messagejson"
	"github.com/delayer-go/delayer/internal/lib/schema"
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
SELECT pg_notify('` + channel + `', '')`

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
	// No broker is known here: a priority or a size that only some accept fails in the relay.
	if err := message.Validate(exchange, key, &msg, message.Limits{User: msg.UserId, MaxPriority: 255}); err != nil {
		return refuse(delayer.ErrInvalid, err)
	}
	if !namesReadable(msg.Headers) {
		return refuse(delayer.ErrInvalid, errors.New("a header's name is not UTF-8: rename it"))
	}
	msg.MessageId = cmp.Or(msg.MessageId, rand.Text())
	text, err := json.Marshal(envelope{
		Exchange: messagejson.Text(exchange), Key: messagejson.Text(key),
		Properties: messagejson.PropertiesOf(&msg), Headers: messagejson.Headers(msg.Headers),
	})
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

// An envelope is the column message of a row: all of a message but its body.
type envelope struct {
	Exchange   messagejson.Text       `json:"exchange"`
	Key        messagejson.Text       `json:"routing_key"`
	Properties messagejson.Properties `json:"properties"`
	Headers    messagejson.Headers    `json:"headers"`
}

type row struct {
	id       int64
	attempts int
	exchange string
	key      string
	msg      amqp091.Publishing
}

// read fills the row from its columns, which may have been written by hand.
func (r *row) read(text, body []byte) error {
	var e envelope
	if err := json.Unmarshal(text, &e); err != nil {
		return fmt.Errorf("the column message cannot be read: %w", err)
	}
	r.exchange, r.key = string(e.Exchange), string(e.Key)
	r.msg = e.Properties.Publishing()
	r.msg.Headers, r.msg.Body = amqp091.Table(e.Headers), body
	return nil
}

//go:embed migrations/*.sql
var migrations embed.FS

// ErrSchema means that the outbox's tables are missing or older than this program needs.
var ErrSchema = errors.New("the database is not migrated")

var tables = schema.Schema{
	Component: "outbox", Files: schema.Files(migrations), Err: ErrSchema,
	Hint: "call outbox.Migrate, run `delayer outbox migrate`, or apply outbox/migrations by hand; search_path must lead there",
}

// A DB is a *pgx.Conn, a *pgxpool.Pool or a pgx.Tx.
type DB interface {
	Begin(ctx context.Context) (pgx.Tx, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Migrate creates the outbox's tables in the first schema of search_path, or upgrades them, in one
// transaction. Programs may call it at every start, several at once. Errors are the
// database's.
func Migrate(ctx context.Context, db DB) error { return tables.Apply(ctx, db) }
