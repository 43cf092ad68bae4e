package account_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/account"
)

func refused() error { return &delayer.Error{Op: "publish", Kind: delayer.ErrRefused} }
func unknown() error { return &delayer.Error{Op: "publish", Kind: delayer.ErrUnknown} }

// A book is an account whose messages are asked for at one second with a delay of one second.
type book struct{ *account.Account[string] }

func newBook() book { return book{account.New[string](time.Now())} }

// publish asks for a message, gives the answer, and lets copies arrive so long after the publish.
func (b book) publish(id string, answer error, arrivals ...time.Duration) {
	b.Ask(account.Course[string]{ID: id, Asked: time.Second, Delay: time.Second})
	b.Answer(id, time.Second+time.Millisecond, answer)
	for _, after := range arrivals {
		b.Arrive(id, time.Second+after)
	}
}

func ids(list []account.Course[string]) (ids []string) {
	for _, m := range list {
		ids = append(ids, m.ID)
	}
	return ids
}

type step func(b book)

func published(answer error, arrivals ...time.Duration) step {
	return func(b book) { b.publish("a", answer, arrivals...) }
}
func cancelled(answer error) step { return func(b book) { b.Cancel("a", answer) } }
func postponed(due time.Duration, answer error) step {
	return func(b book) { b.Postpone("a", due, answer) }
}
func kept(at time.Duration) step        { return func(b book) { b.Keep("a", at) } }
func arrived(at time.Duration) step     { return func(b book) { b.Arrive("a", at) } }
func redelivered(at time.Duration) step { return func(b book) { b.Redelivered("a", at) } }
func asked(m account.Course[string]) step {
	m.ID, m.Asked = "a", 1
	return func(b book) { b.Ask(m) }
}

// TestVerdict: each message is in the lists and counts that it belongs to, and in no other.
func TestVerdict(t *testing.T) {
	type verdict = account.Verdict[string]
	type steps = []step
	const s = time.Second
	delivered := verdict{Sent: 1, Confirmed: 1, Delivered: 1}
	gone := verdict{Sent: 1, Cancelled: 1}
	again := verdict{Sent: 1, Confirmed: 1, Delivered: 1, Extra: 1}
	tooLate := &delayer.Error{Kind: delayer.ErrTooLate}
	for _, c := range []struct {
		name  string
		do    steps
		want  verdict
		lists string // those that the message is in
	}{
		{"on time", steps{published(nil, s)}, delivered, ""},
		{"missing", steps{published(nil)}, verdict{Sent: 1, Confirmed: 1}, "Missing"},
		{"early", steps{published(nil, s-1)}, delivered, "Early"},
		{"three copies", steps{published(nil, s, 2*s, 3*s)}, verdict{Sent: 1, Confirmed: 1, Delivered: 1, Extra: 2}, "Twice"},
		{"early and twice", steps{published(nil, s-1, 2*s)}, again, "Twice Early"},
		{"an early copy that is noted last", steps{published(nil, 2*s, s-1)}, again, "Twice Early"},
		{"refused", steps{published(refused())}, verdict{Sent: 1, Refused: 1}, ""},
		{"refused and arrived", steps{published(refused(), s)}, verdict{Sent: 1, Refused: 1}, "Untrue"},
		{"an error of nobody's, and arrived", steps{published(errors.New("oops"), s)}, verdict{Sent: 1, Refused: 1}, "Untrue"},
		{"unknown", steps{published(unknown())}, verdict{Sent: 1, Unknown: 1}, ""},
		{"unknown and arrived", steps{published(unknown(), s)}, verdict{Sent: 1, Unknown: 1, Surprised: 1}, ""},
		{"unknown and early", steps{published(unknown(), s-1)}, verdict{Sent: 1, Unknown: 1, Surprised: 1}, "Early"},
		{"no answer", steps{asked(account.Course[string]{})}, verdict{Sent: 1}, ""},
		{"cancelled", steps{published(nil), cancelled(nil)}, gone, ""},
		{"cancelled and arrived", steps{published(nil), cancelled(nil), arrived(2 * s)}, gone, "Revived"},
		{"perhaps cancelled", steps{published(nil), cancelled(unknown())}, verdict{Sent: 1, Unknown: 1}, ""},
		{"not cancelled", steps{published(nil), cancelled(tooLate)}, verdict{Sent: 1, Confirmed: 1}, "Missing"},
		{
			"postponed, and early", steps{published(nil, 2*s), postponed(4*s, nil)},
			verdict{Sent: 1, Confirmed: 1, Delivered: 1, Postponed: 1}, "Early",
		},
		{"perhaps postponed", steps{published(nil, s), postponed(4*s, unknown())}, delivered, ""},
		{"kept", steps{published(nil), kept(2 * s)}, verdict{Sent: 1, Confirmed: 1, Kept: 1}, ""},
		{"kept and arrived", steps{published(nil, s), kept(2 * s)}, delivered, ""},
		{"redelivered", steps{published(nil, s), redelivered(3 * s)}, delivered, ""},
		{"redelivered, and the first delivery never came", steps{published(nil), redelivered(3 * s)}, delivered, ""},
		{"a stranger", steps{arrived(1)}, verdict{}, "Strangers"},
		{"a stranger that is kept", steps{kept(1)}, verdict{}, "Strangers"},
		{"arrived before it was asked for", steps{arrived(2 * s), published(nil)}, delivered, ""},
		{"aside", steps{
			asked(account.Course[string]{Aside: true}), func(b book) { b.Answer("a", 2, nil) },
		}, verdict{}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBook()
			for _, do := range c.do {
				do(b)
			}
			for _, list := range strings.Fields(c.lists) {
				reflect.ValueOf(&c.want).Elem().FieldByName(list).Set(reflect.ValueOf(b.Messages()))
			}
			assert.Equal(t, c.want, b.Verdict())
		})
	}
}

func TestVerdict_Order(t *testing.T) {
	b := newBook()
	for _, id := range []string{"z", "a", "m"} {
		b.publish(id, nil)
	}
	assert.Equal(t, []string{"z", "a", "m"}, ids(b.Verdict().Missing))
}

// TestCourse_Lateness: a message that was published late is late, and not early.
func TestCourse_Lateness(t *testing.T) {
	b := newBook()
	b.Ask(account.Course[string]{ID: "a", Intended: time.Second, Asked: 3 * time.Second, Delay: time.Second})
	b.Arrive("a", 3500*time.Millisecond)
	m := b.Messages()[0]
	assert.Equal(t, 2*time.Second, m.Due())
	assert.Equal(t, 1500*time.Millisecond, m.Lateness())
	assert.Equal(t, 500*time.Millisecond, m.EarlyBy(), "from when it was published")

	b.publish("unpaced", nil)
	assert.Equal(t, 2*time.Second, b.Messages()[1].Due(), "intended when it was asked for")
	assert.Zero(t, b.Messages()[1].EarlyBy(), "what has not arrived is not early")
}

// TestAccount_Again: a message that is published again may arrive when its first attempt was due.
func TestAccount_Again(t *testing.T) {
	ask := func(b book, at time.Duration) {
		b.Ask(account.Course[string]{ID: "a", Asked: at, Delay: time.Second})
		b.Arrive("a", 2*time.Second)
	}
	b := newBook()
	b.publish("a", unknown(), time.Second)
	ask(b, 5*time.Second)
	assert.Empty(t, b.Verdict().Early)

	b = newBook()
	ask(b, 5*time.Second)
	ask(b, time.Second)
	assert.Empty(t, b.Verdict().Early, "whichever is noted first")
}

func TestAccount_Counts(t *testing.T) {
	b := newBook()
	b.publish("delivered", nil, time.Second, time.Second)
	b.publish("missing", nil)
	b.publish("refused", refused())
	b.publish("surprise", unknown(), time.Second)
	b.publish("cancelled", nil)
	b.Cancel("cancelled", nil)
	b.publish("kept", nil)
	b.Keep("kept", time.Second)
	b.Arrive("stranger", time.Second)
	b.Ask(account.Course[string]{ID: "aside", Asked: 1, Aside: true})
	b.Answer("aside", 2, nil)
	b.Arrive("aside", time.Second)
	assert.Equal(t, account.Counts{Confirmed: 5, Failed: 2, Arrived: 3, Undone: 1}, b.Counts(), "what arrived unasked hides nothing")
	b.Arrive("missing", time.Minute)
	assert.Zero(t, b.Counts().Undone)
}

// awaits returns how long Await waits with ten seconds of patience.
func awaits(t *testing.T, prepare, meanwhile func(b book)) (took time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBook()
		prepare(b)
		go meanwhile(b)
		began := time.Now()
		require.NoError(t, b.Await(t.Context(), 10*time.Second))
		took = time.Since(began)
	})
	return took.Round(time.Second)
}

func TestAccount_Await(t *testing.T) {
	missing := published(nil) // due after two seconds
	with := func(more step) step { return func(b book) { missing(b); more(b) } }
	aside := func(b book) {
		b.Ask(account.Course[string]{ID: "aside", Asked: 1, Delay: time.Hour, Aside: true})
	}
	nothing := func(book) {}
	eight := func(f func(b book)) func(b book) {
		return func(b book) {
			time.Sleep(8 * time.Second)
			f(b)
		}
	}
	arrive := func(id string) func(b book) { return eight(func(b book) { b.Arrive(id, b.Now()) }) }
	assert.Zero(t, awaits(t, nothing, nothing))
	assert.Zero(t, awaits(t, func(b book) { b.publish("a", nil, time.Second) }, nothing))
	assert.Equal(t, 12*time.Second, awaits(t, missing, nothing), "from when it was due")
	assert.Equal(t, 8*time.Second, awaits(t, missing, arrive("a")))
	assert.Equal(t, 8*time.Second, awaits(t, missing, eight(func(b book) { b.Keep("a", b.Now()) })))
	assert.Equal(t, 8*time.Second, awaits(t, missing, eight(func(b book) { b.Cancel("a", nil) })))
	assert.Equal(t, 18*time.Second, awaits(t, missing, arrive("b")), "from the last arrival")
	anHour := with(func(book) { time.Sleep(time.Hour) })
	assert.Equal(t, 10*time.Second, awaits(t, anHour, nothing), "from when it began to wait")
	assert.Equal(t, 30*time.Second, awaits(t, with(postponed(20*time.Second, nil)), nothing))
	assert.Zero(t, awaits(t, func(b book) {
		aside(b)
		b.Answer("aside", 2, nil)
	}, nothing))
	assert.Equal(t, 12*time.Second, awaits(t, with(aside), nothing), "not from what is not awaited")
	both := with(func(b book) { b.publish("b", nil) })
	keepB := eight(func(b book) { b.Keep("b", b.Now()) })
	assert.Equal(t, 18*time.Second, awaits(t, both, keepB), "what is kept has come, too")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := newBook()
	missing(b)
	require.ErrorIs(t, b.Await(ctx, time.Hour), context.Canceled)
}
