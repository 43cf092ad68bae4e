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

// TestVerdict: each message is in the lists and counts that it belongs to, and in no other.
func TestVerdict(t *testing.T) {
	type verdict = account.Verdict[string]
	const s = time.Second
	published := func(answer error, arrivals ...time.Duration) func(book) {
		return func(b book) { b.publish("a", answer, arrivals...) }
	}
	for _, c := range []struct {
		name  string
		do    func(b book)
		want  verdict
		lists string // those that the message is in
	}{
		{"on time", published(nil, s), verdict{Sent: 1, Confirmed: 1, Delivered: 1}, ""},
		{"missing", published(nil), verdict{Sent: 1, Confirmed: 1}, "Missing"},
		{"early", published(nil, s-1), verdict{Sent: 1, Confirmed: 1, Delivered: 1}, "Early"},
		{"three copies", published(nil, s, 2*s, 3*s), verdict{Sent: 1, Confirmed: 1, Delivered: 1, Extra: 2}, "Twice"},
		{"early and twice", published(nil, s-1, 2*s), verdict{Sent: 1, Confirmed: 1, Delivered: 1, Extra: 1}, "Twice Early"},
		{"an early copy that is noted last", published(nil, 2*s, s-1), verdict{Sent: 1, Confirmed: 1, Delivered: 1, Extra: 1}, "Twice Early"},
		{"refused", published(refused()), verdict{Sent: 1, Refused: 1}, ""},
		{"refused and arrived", published(refused(), s), verdict{Sent: 1, Refused: 1}, "Untrue"},
		{"an error of nobody's, and arrived", published(errors.New("oops"), s), verdict{Sent: 1, Refused: 1}, "Untrue"},
		{"unknown", published(unknown()), verdict{Sent: 1, Unknown: 1}, ""},
		{"unknown and arrived", published(unknown(), s), verdict{Sent: 1, Unknown: 1, Surprised: 1}, ""},
		{"unknown and early", published(unknown(), s-1), verdict{Sent: 1, Unknown: 1, Surprised: 1}, "Early"},
		{"no answer", func(b book) {
			b.Ask(account.Course[string]{ID: "a", Asked: 1})
		}, verdict{Sent: 1, Waiting: 1}, ""},
		{"cancelled", func(b book) {
			b.publish("a", nil)
			b.Cancel("a", nil)
		}, verdict{Sent: 1, Cancelled: 1}, ""},
		{"cancelled and arrived", func(b book) {
			b.publish("a", nil)
			b.Cancel("a", nil)
			b.Arrive("a", 2*s)
		}, verdict{Sent: 1, Cancelled: 1}, "Revived"},
		{"perhaps cancelled", func(b book) {
			b.publish("a", nil)
			b.Cancel("a", unknown())
		}, verdict{Sent: 1, Unknown: 1}, ""},
		{"not cancelled", func(b book) {
			b.publish("a", nil)
			b.Cancel("a", &delayer.Error{Kind: delayer.ErrTooLate})
		}, verdict{Sent: 1, Confirmed: 1}, "Missing"},
		{"postponed, and early", func(b book) {
			b.publish("a", nil, 2*s)
			b.Postpone("a", 4*s, nil)
		}, verdict{Sent: 1, Confirmed: 1, Delivered: 1, Postponed: 1}, "Early"},
		{"perhaps postponed", func(b book) {
			b.publish("a", nil, s)
			b.Postpone("a", 4*s, unknown())
		}, verdict{Sent: 1, Confirmed: 1, Delivered: 1}, ""},
		{"kept", func(b book) {
			b.publish("a", nil)
			b.Keep("a", 2*s)
		}, verdict{Sent: 1, Confirmed: 1, Kept: 1}, ""},
		{"kept and arrived", func(b book) {
			b.publish("a", nil, s)
			b.Keep("a", 2*s)
		}, verdict{Sent: 1, Confirmed: 1, Delivered: 1}, ""},
		{"redelivered", func(b book) {
			b.publish("a", nil, s)
			b.Redelivered("a", 3*s)
		}, verdict{Sent: 1, Confirmed: 1, Delivered: 1}, ""},
		{"redelivered, and the first delivery never came", func(b book) {
			b.publish("a", nil)
			b.Redelivered("a", 3*s)
		}, verdict{Sent: 1, Confirmed: 1, Delivered: 1}, ""},
		{"a stranger", func(b book) {
			b.Arrive("a", 1)
		}, verdict{}, "Strangers"},
		{"a stranger that is kept", func(b book) {
			b.Keep("a", 1)
		}, verdict{}, "Strangers"},
		{"arrived before it was asked for", func(b book) {
			b.Arrive("a", 2*s)
			b.publish("a", nil)
		}, verdict{Sent: 1, Confirmed: 1, Delivered: 1}, ""},
		{"aside", func(b book) {
			b.Ask(account.Course[string]{ID: "a", Asked: 1, Aside: true})
			b.Answer("a", 2, nil)
		}, verdict{}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBook()
			c.do(b)
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
	missing := func(b book) { b.publish("a", nil) } // due after two seconds
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
	assert.Equal(t, 10*time.Second, awaits(t, func(b book) {
		missing(b)
		time.Sleep(time.Hour)
	}, nothing), "from when it began to wait")
	assert.Equal(t, 30*time.Second, awaits(t, func(b book) {
		missing(b)
		b.Postpone("a", 20*time.Second, nil)
	}, nothing))
	assert.Zero(t, awaits(t, func(b book) {
		b.Ask(account.Course[string]{ID: "a", Asked: 1, Delay: time.Hour, Aside: true})
		b.Answer("a", 2, nil)
	}, nothing))
	assert.Equal(t, 12*time.Second, awaits(t, func(b book) {
		missing(b)
		b.Ask(account.Course[string]{ID: "aside", Asked: 1, Delay: time.Hour, Aside: true})
	}, nothing), "not from when something is due that is not awaited")
	assert.Equal(t, 18*time.Second, awaits(t, func(b book) {
		missing(b)
		b.publish("b", nil)
	}, eight(func(b book) { b.Keep("b", b.Now()) })), "what is kept has come, too")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := newBook()
	missing(b)
	require.ErrorIs(t, b.Await(ctx, time.Hour), context.Canceled)
}

// TestAccount_AwaitTogether: all who wait are told.
func TestAccount_AwaitTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBook()
		b.publish("a", nil)
		for range 3 {
			go func() { assert.NoError(t, b.Await(t.Context(), time.Hour)) }()
		}
		synctest.Wait()
		b.Arrive("a", b.Now())
		began := time.Now()
		synctest.Wait()
		assert.Zero(t, time.Since(began))
	})
}
