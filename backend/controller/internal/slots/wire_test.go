package slots

import (
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller/internal/stamp"
	"github.com/delayer-go/delayer/backend/controller/internal/wheel"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/message"
)

func received(p amqp091.Publishing) *amqp091.Delivery {
	return &amqp091.Delivery{Headers: p.Headers, RoutingKey: "under", Body: p.Body, DeliveryTag: 7}
}

func TestRead_Small(t *testing.T) {
	due, next := brokertime.Due(1795329200000), brokertime.Due(1795329300000)
	for text, want := range map[string]wheel.Message{
		changeText("ABC1", due, next):                  {Kind: wheel.Change, ID: "ABC1", Due: due, Next: next},
		changeText("ABC1", due, 0):                     {Kind: wheel.Change, ID: "ABC1", Due: due},
		markText(wheel.MarkID{Tenure: "T", Number: 9}): {Kind: wheel.Mark, Mark: wheel.MarkID{Tenure: "T", Number: 9}},
		kindOfSummons: {Kind: wheel.Summons},
	} {
		c := read(received(small(text)))
		want.Size, want.Body = c.wheel.Size, c
		require.Equal(t, want, c.wheel, text)
		again := read(received(c.next("guest")))
		want.Body = again
		require.Equal(t, want, again.wheel, "it is the same in its next queue: %s", text)
	}
}

// A message that nobody of ours has written is foreign, whatever it pretends to be.
func TestRead_Foreign(t *testing.T) {
	for _, headers := range []amqp091.Table{
		nil,
		{kindHeader: int32(1)},
		{kindHeader: ""},
		{kindHeader: "summons now"},
		{kindHeader: "mark T"},
		{kindHeader: "mark T x"},
		{kindHeader: "change ABC1 1"},
		{kindHeader: "change  1 0"},
		{kindHeader: "change ABC1 0 0"},
		{kindHeader: "change ABC1 x 0"},
		{kindHeader: "change ABC1 -5 0"},
		{kindHeader: "change ABC1 5 99999999999999999"},
		{message.Stamp: "forged"},
		{message.Stamp: "- c 5 0 1 0 - d5:~d:=x"}, // without an envelope
		{message.Stamp: "- c 5 0 1 0 - d4:user", delayer.Header: "ABC1 1795329200000 1 "}, // not one of our keys
		{message.Stamp: "- c 5 0 1 0 - n0 d5:~d:=x", delayer.Header: "ABC1 1795329200000 1 "},
	} {
		c := read(&amqp091.Delivery{Headers: headers})
		require.Equal(t, wheel.Foreign, c.wheel.Kind, "%v", headers)
		require.Error(t, c.foreign)
	}
}

func TestRead_User(t *testing.T) {
	key := "the user's"
	first := stamp.Stamp{
		Clock: "another", OwnDue: 5, Due: 1795329200000, Ticket: true,
		Then: []brokertime.Due{1795329300000}, Key: &key, To: []any{"~d:=x", "~d:=y"}, BCC: []any{"b"},
	}
	envelope := delayer.Envelope{ID: "ABC1", Due: time.UnixMilli(1795329200000), Delay: time.Second, Exchange: "orders"}
	sent := message.Seal(amqp091.Publishing{Body: []byte("body"), Headers: amqp091.Table{"mine": "1"}}, envelope, first.Header())
	c := read(received(sent))
	require.NoError(t, c.foreign)
	require.Equal(t, wheel.Message{
		Kind: wheel.User, ID: "ABC1", Size: c.wheel.Size, Body: c, To: "orders\x00the user's", Ticket: true, OwnDue: 5,
		Due: 1795329200000, Then: []brokertime.Due{1795329300000},
	}, c.wheel)
	require.Greater(t, c.wheel.Size, len("body"))

	again := read(received(c.next("guest")))
	require.False(t, again.wheel.Own, "no process may use the clock of another")
	require.Equal(t, "the user's", again.message.Delivery.RoutingKey)
	require.Equal(t, amqp091.Table{"mine": "1"}, again.message.Delivery.Headers, "ours are not among the user's")
	require.Equal(t, c.message.Envelope, again.message.Envelope)
	require.Equal(t, c.wheel.Due, again.wheel.Due)
	require.Equal(t, c.wheel.Then, again.wheel.Then)
	require.Equal(t, first.To, again.message.Stamp.To)
	require.Equal(t, first.BCC, again.message.Stamp.BCC)

	c.wheel.PostponedTo = c.wheel.Due + 60_000
	c.wheel.Ticket, c.wheel.Due = false, 1 // its destination pauses since
	c.follow()
	c.follow()
	require.Equal(t, envelope.Due.Add(time.Minute), c.message.Envelope.Due, "consumers see the later time")
	later, err := delayer.ParseHeader(c.message.Deliver("guest").Headers)
	require.NoError(t, err)
	require.Equal(t, envelope.Due.Add(time.Minute), later.Due)
	require.Equal(t, envelope.Delay+time.Minute, later.Delay)
}

// TestRead_Size: what the memory holds is counted, also if it is in headers.
func TestRead_Size(t *testing.T) {
	size := func(headers amqp091.Table) int {
		s := stamp.Stamp{To: []any{"~d:=x"}}
		s.Clock, s.OwnDue = stamp.Own(time.Minute)
		sent := message.Seal(amqp091.Publishing{Headers: headers}, message.NewEnvelope(time.Now(), 0, ""), s.Header())
		return read(received(sent)).wheel.Size
	}
	foreign := func(headers amqp091.Table) int { return read(&amqp091.Delivery{Headers: headers}).wheel.Size }
	const large = 100_000
	many := []any{}
	for range large / besideField {
		many = append(many, int64(1))
	}
	for name, value := range map[string]any{
		"string": string(make([]byte, large)), "bytes": make([]byte, large), "list": many,
		"nested": amqp091.Table{"list": []any{amqp091.Table{"b": make([]byte, large)}}},
	} {
		headers := amqp091.Table{"mine": value}
		require.InDelta(t, large+size(nil), size(headers), 1000, name)
		require.InDelta(t, large+foreign(nil), foreign(headers), 1000, name)
	}
}

func TestRead_Own(t *testing.T) {
	s := stamp.Stamp{To: []any{"~d:=x"}, Left: time.Second}
	s.Clock, s.OwnDue = stamp.Own(time.Minute)
	c := read(received(message.Seal(amqp091.Publishing{}, message.NewEnvelope(time.Now(), 0, ""), s.Header())))
	require.True(t, c.wheel.Own)
	require.Equal(t, time.Minute, c.wheel.OwnDue)
	require.Equal(t, time.Second, c.wheel.Left)
	require.Equal(t, "~d:=x", c.wheel.To)
	again := read(received(c.next("guest")))
	require.True(t, again.wheel.Own)
	require.Equal(t, time.Minute, again.wheel.OwnDue)
}
