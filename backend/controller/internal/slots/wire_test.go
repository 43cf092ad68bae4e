package slots

import (
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller/internal/leader"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/bundle"
	"github.com/delayer-go/delayer/internal/lib/engine"
)

const (
	at    = brokertime.Due(1795329200000)
	frame = 128 << 10
)

func waiting(t *testing.T) bundle.Record {
	envelope := delayer.Envelope{ID: "ABC1", Due: time.UnixMilli(1795329200500), Delay: time.Second, Exchange: "orders"}
	msg := amqp091.Publishing{Body: []byte("body"), Headers: amqp091.Table{"mine": "1"}, UserId: "alice", Priority: 3}
	rec, err := record(engine.Wait{Key: "the user's", Destinations: []any{"~d:=x", "~d:=y"}, Envelope: envelope}, msg, at)
	require.NoError(t, err)
	rec.Due = at
	return rec
}

// TestDue: what waits comes out as it was published, and where it was postponed or refused says what
// is right.
func TestDue(t *testing.T) {
	rec := waiting(t)
	require.Equal(t, "orders\x00the user's", rec.To)
	m, err := due(&leader.Item{Record: rec}, frame)
	require.NoError(t, err)
	require.Equal(t, "the user's", m.Delivery.RoutingKey)
	require.Equal(t, "alice", m.Delivery.UserId)
	require.Equal(t, amqp091.Table{"mine": "1"}, m.Delivery.Headers)
	require.Equal(t, uint8(3), m.Delivery.Priority)
	require.Equal(t, []any{"~d:=x", "~d:=y"}, m.To)
	require.Equal(t, time.Second, m.Envelope.Delay)
	rec.Due += 5000
	m, err = due(&leader.Item{Record: rec}, frame)
	require.NoError(t, err)
	require.Equal(t, []any{6 * time.Second, int64(1795329205500)}, []any{m.Envelope.Delay, m.Envelope.Due.UnixMilli()}, "postponed")
	rec.Wanted = at
	m, err = due(&leader.Item{Record: rec}, frame)
	require.NoError(t, err)
	require.Equal(t, time.Second, m.Envelope.Delay, "refused for a while")
}

// TestDue_Forged: what no Delayer has written is kept.
func TestDue_Forged(t *testing.T) {
	for _, payload := range [][]byte{nil, []byte("x"), waiting(t).Payload[:5]} {
		_, err := due(&leader.Item{Record: bundle.Record{ID: "A", Payload: payload}}, frame)
		require.Error(t, err)
	}
	rec, err := record(engine.Wait{Destinations: []any{"a queue of somebody"}}, amqp091.Publishing{}, at)
	require.NoError(t, err)
	_, err = due(&leader.Item{Record: rec}, frame)
	require.ErrorContains(t, err, "no destination")
	_, err = due(&leader.Item{Record: waiting(t)}, 200)
	require.ErrorContains(t, err, "must fit into one frame")
	_, err = record(engine.Wait{Envelope: delayer.Envelope{ID: strings.Repeat("x", 49)}}, amqp091.Publishing{}, at)
	require.ErrorContains(t, err, "its id has 49 bytes")
}

// TestRead_User: a user-id is believed if the broker has checked it, on its own message or on one of
// the controller.
func TestRead_User(t *testing.T) {
	for name, c := range map[string]struct {
		checked string
		inSlot  bool
		want    string
	}{
		"its own message":                 {"alice", false, "alice"},
		"nobody's":                        {"", false, ""},
		"another's":                       {"mallory", false, ""},
		"the controller's, in a slot":     {"controller", true, "alice"},
		"the controller's, in the log":    {"controller", false, ""},
		"a forged one in a slot":          {"mallory", true, ""},
		"her own, which somebody has put": {"alice", true, "alice"},
	} {
		b := &bundle.Bundle{Writer: "w", InSlot: c.inSlot, Records: []bundle.Record{waiting(t)}}
		e := read(&amqp091.Delivery{Body: b.Bytes(), UserId: c.checked}, leader.Log, "controller", "w")
		require.NoError(t, e.Err, name)
		require.Equal(t, c.want, e.Bundle.Records[0].User, name)
		require.True(t, e.Own)
	}
	e := read(&amqp091.Delivery{Body: []byte("x")}, leader.Log, "", "")
	require.ErrorIs(t, e.Raw.(foreign).why, bundle.ErrForeign)
}
