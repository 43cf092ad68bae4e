package entry

import (
	"math"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRead(t *testing.T) {
	due := now.Add(90 * time.Second)
	for name, c := range map[string]struct {
		headers amqp091.Table
		want    time.Duration
		err     string
	}{
		"none":           {},
		"x-delay":        {headers: amqp091.Table{"x-delay": int64(5000)}, want: 5 * time.Second},
		"x-delay, words": {headers: amqp091.Table{"x-delay": "soon"}, err: `"soon"`},
		"text":           {headers: amqp091.Table{DelayHeader: "1d12h"}, want: 36 * time.Hour},
		"text, no unit":  {headers: amqp091.Table{DelayHeader: "30"}, err: "must be a time with its unit"},
		"text, a number": {headers: amqp091.Table{DelayHeader: int32(30)}, err: "is a number: write a text"},
		"text, negative": {headers: amqp091.Table{DelayHeader: "-1s"}, err: "negative"},
		"due, timestamp": {headers: amqp091.Table{DueHeader: due}, want: 90 * time.Second},
		"due, ms":        {headers: amqp091.Table{DueHeader: due.UnixMilli()}, want: 90 * time.Second},
		"due, digits":    {headers: amqp091.Table{DueHeader: "1700000090500"}, want: 90 * time.Second},
		"due, RFC 3339":  {headers: amqp091.Table{DueHeader: due.Format(time.RFC3339Nano)}, want: 90 * time.Second},
		"due, past":      {headers: amqp091.Table{DueHeader: now.Add(-time.Hour)}},
		"due, seconds":   {headers: amqp091.Table{DueHeader: due.Unix()}, err: "looks like seconds"},
		"due, words":     {headers: amqp091.Table{DueHeader: "tomorrow"}, err: "write a time such as"},
		"due, bool":      {headers: amqp091.Table{DueHeader: true}, err: "is a boolean"},
		"due, too far":   {headers: amqp091.Table{DueHeader: int64(math.MaxInt64)}, err: "292 years"},
		"due, 2^63":      {headers: amqp091.Table{DueHeader: "9223372036854775808"}, err: "out of range"},
		"due, year 2^62": {headers: amqp091.Table{DueHeader: time.Unix(1<<62, 0)}, err: "after the year 9999"},
		"due, wrapped":   {headers: amqp091.Table{DueHeader: time.Unix(-1, 0)}, err: "after the year 9999"},
		"two":            {headers: amqp091.Table{"x-delay": 1, DueHeader: due}, err: "two of the headers"},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := read(c.headers, now)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.want, w)
		})
	}
}

func TestDestinations(t *testing.T) {
	r := rules{allowed: Spec{Name: "any", Allow: []string{"billing.*", "exact", "any", "p*"}}.allowed("p", []string{"any"})}
	for name, want := range map[string]bool{
		"billing.in": true, "billing.": true, "billing": false, "exact": true, "exactly": false, "": false, "any": false, "xbilling.in": false,
		"billing.a\nb": true, "payments": true, "p.delivery": false,
	} {
		_, err := r.destination(&amqp091.Delivery{Headers: amqp091.Table{ExchangeHeader: name}})
		assert.Equal(t, want, err == nil, "%q", name)
	}
	_, err := r.destination(&amqp091.Delivery{Headers: amqp091.Table{ExchangeHeader: 5}})
	require.Error(t, err)
}

func FuzzRead(f *testing.F) {
	f.Add("5000", "30m", "2027-01-31T18:00:00Z", int64(1))
	f.Fuzz(func(t *testing.T, x, delay, due string, ms int64) {
		for _, h := range []amqp091.Table{{"x-delay": x}, {DelayHeader: delay}, {DueHeader: due}, {DueHeader: ms}, {"x-delay": ms}} {
			if w, err := read(h, now); err == nil && w < 0 {
				t.Errorf("%v waits %v", h, w)
			}
		}
	})
}
