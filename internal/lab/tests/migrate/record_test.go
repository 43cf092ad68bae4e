package migrate_test

import (
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/app/migration/record"
	"github.com/delayer-go/delayer/internal/lib/broker"
)

func TestRecord(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t)
	first, err := record.Open(t.Context(), r.conn, r.prefix, r.name)
	require.NoError(t, err)
	_, found := first.Record()
	require.False(t, found)
	rec := record.Record{Former: inventory.Definition{
		Exchange: inventory.Exchange{Name: r.name, Type: "x-delayed-message", Durable: true, Arguments: amqp091.Table{"x-delayed-type": "headers", "n": int64(7)}},
		Out:      []inventory.BindingInfo{{Source: r.name, Target: "\xff", Key: "k", Arguments: amqp091.Table{"x-match": "any", "f": 1.5}}},
	}}
	for range 3 {
		rec = rec.To(record.Prepared, time.Now())
		require.NoError(t, first.Save(t.Context(), rec))
	}

	another, err := broker.Dial(t.Context(), broker.Options{URL: r.Broker.URL()})
	require.NoError(t, err)
	defer another.Close()
	_, err = record.Open(t.Context(), another, r.prefix, r.name)
	require.ErrorIs(t, err, delayer.ErrConflict)
	require.ErrorContains(t, err, "another delayer migrate works on this exchange")
	list, err := record.List(t.Context(), another, r.prefix, []string{record.Queue(r.prefix, r.name), r.prefix + ".migration.evacuated"})
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.True(t, list[0].Held)

	require.NoError(t, first.Close())
	second, err := record.Open(t.Context(), another, r.prefix, r.name)
	require.NoError(t, err)
	got, found := second.Record()
	require.True(t, found)
	require.Equal(t, rec, got)
	require.Equal(t, 1, r.depth(record.Queue(r.prefix, r.name))+1, "the tool holds the only one")
	require.NoError(t, second.Close())

	for range 30 { // more often than a quorum queue delivers a message by default
		list, err = record.List(t.Context(), another, r.prefix, []string{record.Queue(r.prefix, r.name)})
		require.NoError(t, err)
		require.Equal(t, rec, list[0].Record)
	}
}

// TestRecord_Newest: a tool that was killed between the confirm and the acknowledgement has left
// two records.
func TestRecord_Newest(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t)
	journal, err := record.Open(t.Context(), r.conn, r.prefix, r.name)
	require.NoError(t, err)
	rec := record.Record{Former: inventory.Definition{Exchange: inventory.Exchange{Name: r.name}}}.To(record.Switching, time.Now())
	require.NoError(t, journal.Save(t.Context(), rec))
	require.NoError(t, journal.Close())
	newer := rec.To(record.Switched, time.Now())
	body, err := newer.MarshalJSON()
	require.NoError(t, err)
	r.Publish("", record.Queue(r.prefix, r.name), amqp091.Publishing{Body: body})
	journal, err = record.Open(t.Context(), r.conn, r.prefix, r.name)
	require.NoError(t, err)
	got, _ := journal.Record()
	require.Equal(t, record.Switched, got.Step)
	require.NoError(t, journal.Save(t.Context(), got.To(record.Restoring, time.Now())))
	require.NoError(t, journal.Close())
	r.arrives(record.Queue(r.prefix, r.name), 1) // the others are removed
}

// TestRecord_NotGivenBackYet: a tool has given up the lock, and the broker puts its record back a
// moment later. Taken for a migration that never began, the record would be overwritten.
func TestRecord_NotGivenBackYet(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t)
	journal, err := record.Open(t.Context(), r.conn, r.prefix, r.name)
	require.NoError(t, err)
	rec := record.Record{Former: inventory.Definition{Exchange: inventory.Exchange{Name: r.name}}}.To(record.Switched, time.Now())
	require.NoError(t, journal.Save(t.Context(), rec))
	require.NoError(t, journal.Close())
	before, err := r.conn.Channel(t.Context())
	require.NoError(t, err)
	for ok := false; !ok; { // it is back
		const autoAck = false
		_, ok, err = before.Get(record.Queue(r.prefix, r.name), autoAck)
		require.NoError(t, err)
	}

	opened := make(chan *record.Journal)
	go func() {
		journal, err := record.Open(t.Context(), r.conn, r.prefix, r.name)
		assert.NoError(t, err)
		opened <- journal
	}()
	another, err := broker.Dial(t.Context(), broker.Options{URL: r.Broker.URL()})
	require.NoError(t, err)
	control := broker.NewControl(another)
	defer control.Close()
	for broker.Code(err) != amqp091.ResourceLocked { // it has the lock, and looks for the record
		_, err = control.Queue(t.Context(), record.Lock(r.prefix, r.name))
	}
	time.Sleep(300 * time.Millisecond) // nothing shows that it has looked; without the wait it still passes
	require.NoError(t, before.Close())
	journal = <-opened
	got, found := journal.Record()
	require.True(t, found)
	require.Equal(t, record.Switched, got.Step)
	require.NoError(t, journal.Close())
}
