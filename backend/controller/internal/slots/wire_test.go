package slots

import (
	"context"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

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

var ourTickets = newTickets("/", "delayer", "52x4s")

func TestTickets_RoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		was := ticket{
			id:  string(rapid.SliceOfN(rapid.Byte(), 1, bundle.MaxID).Draw(t, "id")),
			due: brokertime.Due(rapid.Int64Range(1, 16_725_225_600_000).Draw(t, "due")),
		}
		text := ourTickets.write(was)
		require.LessOrEqual(t, len(text), 120)
		require.Regexp(t, `^[-_.A-Za-z0-9]+$`, string(text))
		is, err := ourTickets.read(text)
		require.NoError(t, err)
		require.Equal(t, was, is)
	})
}

// TestReadTicket: without a broker, and with the reason if it is another's.
func TestReadTicket(t *testing.T) {
	w := New("/", "delayer", 1<<20)
	d := &Delayer{wheel: w}
	of := func(vhost string) delayer.Ticket {
		return newTickets(vhost, "delayer", w.rings.String()).write(ticket{id: "ABC1", due: 1795329200000})
	}
	id, due, err := d.ReadTicket(of("/"))
	require.NoError(t, err)
	require.Equal(t, "ABC1", id)
	require.Equal(t, int64(1795329200000), due.UnixMilli())
	_, _, err = d.ReadTicket(of("other"))
	require.ErrorIs(t, err, delayer.ErrTicket)
	require.ErrorIs(t, err, errOthers)
}

func TestTickets_RefuseOthers(t *testing.T) {
	good := ticket{id: "ABC1", due: 1795329200000}
	text := ourTickets.write(good)
	for name, c := range map[string]struct {
		text delayer.Ticket
		why  error
	}{
		"another vhost":  {newTickets("other", "delayer", "52x4s").write(good), errOthers},
		"another prefix": {newTickets("/", "other", "52x4s").write(good), errOthers},
		"another wheel":  {newTickets("/", "delayer", "64x3s").write(good), errOthers},
		"nothing":        {"", errDamaged},
		"no ticket":      {"hello", errDamaged},
		"longer":         {text + "AAAA", errDamaged},
		"no time":        {ourTickets.write(ticket{id: "ABC1"}), errDamaged},
		"no id":          {ourTickets.write(ticket{due: good.due}), errDamaged},
		"an id too long": {ourTickets.write(ticket{id: strings.Repeat("A", bundle.MaxID+1), due: good.due}), errDamaged},
	} {
		_, err := ourTickets.read(c.text)
		require.ErrorIs(t, err, c.why, name)
	}
	for i := range text {
		_, err := ourTickets.read(text[:i])
		require.ErrorIs(t, err, errDamaged, "cut short: %s", text[:i])
		for _, letter := range "A_9" {
			changed := text[:i] + delayer.Ticket(letter) + text[i+1:]
			if changed == text {
				continue
			}
			_, err := ourTickets.read(changed)
			require.Error(t, err, "changed by a letter: %s", changed)
		}
	}
}

// FuzzTickets: whatever is read can be written again, and is then the same.
func FuzzTickets(f *testing.F) {
	f.Add(string(ourTickets.write(ticket{id: "ABC1", due: 1795329200000})))
	f.Fuzz(func(t *testing.T, text string) {
		if is, err := ourTickets.read(delayer.Ticket(text)); err == nil {
			require.Equal(t, text, string(ourTickets.write(is)))
		}
	})
}

// TestWheel_Plan: names and keys are the protocol, no two queues share one, and each slot has one.
func TestWheel_Plan(t *testing.T) {
	w := New("/", "p", 0)
	slot := leader.Queue{Ring: 1, Index: 7}
	exchange, key := w.to(slot)
	require.Equal(t, []string{"p.controller.slot.32s.07", "p.controller.enter.slots", "~d:slot:32s-07", "p.controller.log", "p.controller.enter"},
		[]string{w.queue(slot), exchange, key, w.queue(leader.Log), w.enter()})
	require.Equal(t, "p:controller,log,slots="+leader.Default().String()+",quorum", w.config())
	require.Equal(t, "p.controller", w.Plan().Markers[0].Name, "that of rounds: another wheel is a conflict")
	queues := map[string]bool{}
	for _, q := range w.Plan().Queues {
		require.False(t, queues[q.Name], q.Name)
		queues[q.Name] = true
	}
	const most = 64
	require.LessOrEqual(t, len(queues), most)
	for _, q := range w.rings.Slots() {
		require.True(t, queues[w.queue(q)], w.queue(q))
	}
	keys := map[string]bool{}
	for _, b := range w.Plan().Bindings {
		at := b.Source + " " + b.Key
		require.False(t, keys[at] && b.Source == w.enterSlots(), "two queues get %s", at)
		keys[at] = true
	}
}

// TestUntil: this process stands still after it has read the broker's time.
func TestUntil(t *testing.T) {
	now := newClock(brokertime.Config{}).now()
	due := time.Now().Add(10 * time.Second)
	now.Mono -= time.Second
	require.InDelta(t, 11*time.Second, until(due, now), float64(500*time.Millisecond))
}

// TestClock_Closed: nobody waits for the time once it is not asked for any more.
func TestClock_Closed(t *testing.T) {
	d := &Delayer{clock: newClock(brokertime.Config{})}
	waits := make(chan error)
	go func() {
		_, err := d.time(context.Background(), "cancel")
		waits <- err
	}()
	d.clock.close()
	require.ErrorIs(t, <-waits, delayer.ErrClosed)
}

// TestNamed: an error that others have too is not changed, and says what is to be fixed.
func TestNamed(t *testing.T) {
	d := &Delayer{}
	shared := &delayer.Error{Op: "declare", Object: `queue "q"`, Kind: delayer.ErrConflict}
	require.ErrorContains(t, d.named("cancel", ticket{id: "m"}, shared), `declare queue "q"`)
	nameless := &delayer.Error{Op: "publish", Kind: delayer.ErrNotSent}
	require.ErrorContains(t, d.named("cancel", ticket{id: "m"}, nameless), "cancel message m")
	require.Equal(t, "publish", nameless.Op)
}
