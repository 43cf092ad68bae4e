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
		"none":              {},
		"x-delay":           {headers: amqp091.Table{"x-delay": int64(5000)}, want: 5 * time.Second},
		"x-delay, int8":     {headers: amqp091.Table{"x-delay": int8(5)}, want: 5 * time.Millisecond},
		"x-delay, unsigned": {headers: amqp091.Table{"x-delay": uint32(math.MaxUint32)}, want: math.MaxUint32 * time.Millisecond},
		"x-delay, float":    {headers: amqp091.Table{"x-delay": 5000.0}, want: 5 * time.Second},
		"x-delay, fraction": {headers: amqp091.Table{"x-delay": 5000.5}, want: 5001 * time.Millisecond},
		"x-delay, digits":   {headers: amqp091.Table{"x-delay": "5000"}, want: 5 * time.Second},
		"x-delay, negative": {headers: amqp091.Table{"x-delay": int32(-1)}},
		"x-delay, 2^63":     {headers: amqp091.Table{"x-delay": "9223372036854775808"}, err: "above"},
		"x-delay, NaN":      {headers: amqp091.Table{"x-delay": math.NaN()}, err: "NaN"},
		"x-delay, table":    {headers: amqp091.Table{"x-delay": amqp091.Table{}}, err: "is a table"},
		"x-delay, decimal":  {headers: amqp091.Table{"x-delay": amqp091.Decimal{Value: 5}}, err: "is a decimal"},
		"text":              {headers: amqp091.Table{DelayHeader: "1d12h"}, want: 36 * time.Hour},
		"text, no unit":     {headers: amqp091.Table{DelayHeader: "30"}, err: "must be a time with its unit"},
		"text, a number":    {headers: amqp091.Table{DelayHeader: int32(30)}, err: "is a number: write a text"},
		"text, negative":    {headers: amqp091.Table{DelayHeader: "-1s"}, err: "negative"},
		"due, timestamp":    {headers: amqp091.Table{DueHeader: due}, want: 90 * time.Second},
		"due, ms":           {headers: amqp091.Table{DueHeader: due.UnixMilli()}, want: 90 * time.Second},
		"due, digits":       {headers: amqp091.Table{DueHeader: "1700000090500"}, want: 90 * time.Second},
		"due, RFC 3339":     {headers: amqp091.Table{DueHeader: due.Format(time.RFC3339Nano)}, want: 90 * time.Second},
		"due, past":         {headers: amqp091.Table{DueHeader: now.Add(-time.Hour)}},
		"due, seconds":      {headers: amqp091.Table{DueHeader: due.Unix()}, err: "looks like seconds"},
		"due, words":        {headers: amqp091.Table{DueHeader: "tomorrow"}, err: "write a time such as"},
		"due, bool":         {headers: amqp091.Table{DueHeader: true}, err: "is a boolean"},
		"due, too far":      {headers: amqp091.Table{DueHeader: int64(math.MaxInt64)}, err: "292 years"},
		"due, 2^63":         {headers: amqp091.Table{DueHeader: "9223372036854775808"}, err: "out of range"},
		"two":               {headers: amqp091.Table{"x-delay": 1, DueHeader: due}, err: "two of the headers"},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := read(c.headers, now)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.want, w.delay)
		})
	}
}

func TestDestinations(t *testing.T) {
	specs := []Spec{{Name: "any", Allow: []string{"billing.*", "exact", "any", "p*"}}}
	to := specs[0].destinations("p", specs)
	for name, want := range map[string]bool{
		"billing.in": true, "billing.": true, "billing": false, "exact": true, "exactly": false, "": false, "any": false, "xbilling.in": false,
		"billing.a\nb": true, "payments": true, "p.delivery": false,
	} {
		_, err := to.of(amqp091.Table{ExchangeHeader: name})
		assert.Equal(t, want, err == nil, "%q", name)
	}
	_, err := to.of(amqp091.Table{ExchangeHeader: 5})
	require.Error(t, err)
}

// TestDecide_Received: the time that the broker wrote counts if it is trusted, before the
// publisher's, and by the broker's clock. TestAllowQueue: one list has one queue, however it is
// written.
func TestAllowQueue(t *testing.T) {
	queue := func(allow ...string) string { return Spec{Name: "x", Allow: allow}.allowQueue("p").Name }
	assert.Equal(t, queue("b.*", "a"), queue("a", "a", "b.*"))
	assert.NotEqual(t, queue("a"), queue("b"))
	assert.Regexp(t, `^p\.serve\.allow\.x\.[0-9a-f]{8}$`, queue("a"))
}

func TestDecide_Received(t *testing.T) {
	const delay, hour = 5 * time.Second, time.Hour
	const later = time.Millisecond // it was received up to a millisecond later
	clock := func(at time.Time, known bool) func() (time.Time, bool) {
		return func() (time.Time, bool) { return at, known }
	}
	for name, c := range map[string]struct {
		trust   bool
		brokers func() (time.Time, bool)
		ago     time.Duration // it was received, by our clock
		want    time.Duration
	}{
		"not trusted":                  {false, nil, 2 * time.Second, delay},
		"the same clock":               {true, clock(now, true), 2 * time.Second, delay - 2*time.Second + later},
		"the broker's is behind":       {true, clock(now.Add(-hour), true), hour + 2*time.Second, delay - 2*time.Second + later},
		"the broker's is ahead":        {true, clock(now.Add(hour), true), 2*time.Second - hour, delay - 2*time.Second + later},
		"the broker's is not known":    {true, clock(time.Time{}, false), hour, delay},
		"long ago":                     {true, clock(now, true), hour, 0},
		"in the future":                {true, clock(now, true), -hour, delay},
		"in a future beyond reckoning": {true, clock(now, true), -math.MaxInt64, delay},
	} {
		d := incoming(amqp091.Table{"x-delay": int32(5000), receivedHeader: now.Add(-c.ago).UnixMilli()})
		d.Timestamp = now.Add(-hour)
		r := clean
		r.trust, r.brokers = c.trust, c.brokers
		assert.Equal(t, c.want, r.decide(r.Queue, &d, now).delay, name)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("5000", "30m", "2027-01-31T18:00:00Z", int64(1))
	f.Fuzz(func(t *testing.T, x, delay, due string, ms int64) {
		for _, h := range []amqp091.Table{{"x-delay": x}, {DelayHeader: delay}, {DueHeader: due}, {DueHeader: ms}, {"x-delay": ms}} {
			if w, err := read(h, now); err == nil && w.delay < 0 {
				t.Errorf("%v waits %v", h, w.delay)
			}
		}
	})
}
