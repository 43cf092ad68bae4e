package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	amqp091 "github.com/rabbitmq/amqp091-go"
)

// A Lag counts the messages in the outbox. Alert on Oldest, and on Failed above zero.
type Lag struct {
	// Ready are the messages that a relay could publish now, or is publishing.
	Ready int64
	// Oldest is how long the first of these has been ready; 0 if there is none.
	Oldest time.Duration
	// Waiting are the messages that wait in the table until their delay fits the backend, or are
	// held: their next_try is infinity.
	Waiting int64
	// Failed are the messages whose last try failed; see [Failures].
	Failed int64
}

const lag = `
SELECT count(*) FILTER (WHERE error IS NULL AND next_try <= now()) AS ready,
	coalesce(ceil(extract(epoch FROM now() - min(greatest(next_try, 'epoch')) FILTER (WHERE error IS NULL AND next_try <= now())) * 1000000), 0)::bigint AS oldest,
	count(*) FILTER (WHERE error IS NULL AND next_try > now()) AS waiting,
	count(*) FILTER (WHERE error IS NOT NULL) AS failed
FROM delayer_outbox`

// ReadLag counts the messages in the outbox. It reads the whole table, which is small unless the
// relays cannot keep up.
func ReadLag(ctx context.Context, db DB) (Lag, error) {
	rows, _ := db.Query(ctx, lag) // rows have its error
	l, err := pgx.CollectExactlyOneRow(rows, func(r pgx.CollectableRow) (l Lag, err error) {
		var oldest int64
		err = r.Scan(&l.Ready, &oldest, &l.Waiting, &l.Failed)
		l.Oldest = duration(oldest)
		return l, err
	})
	if err != nil {
		return Lag{}, fmt.Errorf("outbox: lag: %w", tables.Explain(err))
	}
	return l, nil
}

// A Failure is a message whose last try failed. It is tried again, after at most [Config].MaxPause,
// until it succeeds or somebody deletes its row. A time that is infinite, or not in the years 1 to
// 9999, is the zero Time.
type Failure struct {
	ID       int64 // of the row in delayer_outbox
	Exchange string
	Key      string
	Message  amqp091.Publishing // without its body
	Enqueued time.Time
	Due      time.Time
	Attempts int
	NextTry  time.Time
	Err      string
}

const failures = `
SELECT id, message, enqueued, due, attempts, next_try, error
FROM delayer_outbox WHERE error IS NOT NULL ORDER BY id LIMIT $1`

// Failures lists up to limit messages whose last try failed, oldest first.
func Failures(ctx context.Context, db DB, limit int) ([]Failure, error) {
	rows, _ := db.Query(ctx, failures, limit) // rows have its error
	list, err := pgx.CollectRows(rows, readFailure)
	if err != nil {
		return nil, fmt.Errorf("outbox: failures: %w", tables.Explain(err))
	}
	return list, nil
}

func readFailure(r pgx.CollectableRow) (Failure, error) {
	var f Failure
	var text []byte
	var enqueued, due, next pgtype.Timestamptz
	if err := r.Scan(&f.ID, &text, &enqueued, &due, &f.Attempts, &next, &f.Err); err != nil {
		return f, err
	}
	f.Enqueued, f.Due, f.NextTry = ordinary(enqueued), ordinary(due), ordinary(next)
	var m row
	if err := m.read(text, nil); err == nil { // Err says why a row cannot be read
		f.Exchange, f.Key, f.Message = m.exchange, m.key, m.msg
	}
	return f, nil
}

// ordinary is the zero Time for what cannot be written in JSON.
func ordinary(t pgtype.Timestamptz) time.Time {
	if year := t.Time.Year(); t.InfinityModifier != pgtype.Finite || year < 1 || year > 9999 {
		return time.Time{}
	}
	return t.Time
}
