package delayer_test

import (
	"math"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
)

func header(value any) amqp091.Table { return amqp091.Table{"other": 1, delayer.Header: value} }

func TestParseHeader_RoundTrip(t *testing.T) {
	for _, exchange := range []string{"", "orders", "with two spaces", "été"} {
		for _, id := range []string{"id", "remind/order 17", "100 %", "été\x00\xff", "nightly@2027-01-31T18:00Z"} {
			e := delayer.Envelope{ID: id, Due: time.UnixMilli(1795234405786), Delay: 90 * time.Second, Exchange: exchange}
			require.Regexp(t, `^[!-~]+ \d+ \d+ `, e.String())
			got, err := delayer.ParseHeader(header(e.String()))
			require.NoError(t, err)
			require.Equal(t, e, got)
		}
	}
}

func TestParseHeader_None(t *testing.T) {
	for _, headers := range []amqp091.Table{nil, {}, {"x-death": []any{}}} {
		e, err := delayer.ParseHeader(headers)
		require.ErrorIs(t, err, delayer.ErrNotFound)
		require.NotErrorIs(t, err, delayer.ErrInvalid)
		require.Zero(t, e)
		require.EqualError(t, err, "delayer: parse header x-delayer: not found (no Delayer has published the message)")
	}
}

func TestParseHeader_Garbled(t *testing.T) {
	for _, value := range []any{
		nil, 5, []byte("id 1 1 x"), amqp091.Table{}, "", "id", "id 1", "id 1 1", " 1 1 x", "id x 1 y", "id 1 x y", "id 1 -1 x", "id 1 1.5 x",
		"id 99999999999999999999 1 x", "id 1 9223372036855 x", "id  1 1 x", "%zz 1 1 x", strings.Repeat("x", 10_000),
	} {
		e, err := delayer.ParseHeader(header(value))
		require.ErrorIs(t, err, delayer.ErrInvalid, "%v", value)
		require.NotErrorIs(t, err, delayer.ErrNotFound)
		require.Zero(t, e)
		require.Less(t, len(err.Error()), 300, "an error must not repeat a large input")
	}
}

func FuzzParseHeader(f *testing.F) {
	f.Add("id 1795234405786 90000 orders")
	f.Add("  ")
	f.Add("id x y")
	f.Fuzz(func(t *testing.T, s string) {
		e, err := delayer.ParseHeader(header(s))
		if err != nil {
			return
		}
		again, err := delayer.ParseHeader(header(e.String()))
		require.NoError(t, err)
		require.Equal(t, e, again)
	})
}

func TestEnvelope_LongestDelay(t *testing.T) {
	e := delayer.Envelope{ID: "id", Due: time.UnixMilli(0), Delay: math.MaxInt64 / time.Millisecond * time.Millisecond}
	got, err := delayer.ParseHeader(header(e.String()))
	require.NoError(t, err)
	require.Equal(t, e, got)
}
