package recurring

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/delayertest"
)

// A world is a bubble, which begins at midnight, 2000-01-01, with a Delayer and processes.
type world struct {
	*testing.T
	d    *delayertest.Delayer
	came []string // "<hour> <id> <body>"
	log  bytes.Buffer
}

func inWorld(t *testing.T, test func(*world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, d: delayertest.New(delayertest.Config{Timers: true})}
		w.d.Handle(func(m amqp091.Delivery) {
			e, err := delayer.ParseHeader(m.Headers)
			assert.NoError(t, err)
			assert.Equal(t, e.ID, m.MessageId)
			assert.Equal(t, time.Now().UTC(), e.Due.UTC())
			w.came = append(w.came, time.Now().UTC().Format("02T15:04 ")+e.ID+" "+string(m.Body))
		})
		test(w)
	})
}

// start starts a process, and returns what stops it.
func (w *world) start(messages ...Message) (stop func()) {
	s, err := New(w.d.Open(), Config{Messages: messages, Logger: slog.New(slog.NewTextHandler(&w.log, nil))})
	require.NoError(w, err)
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Run(ctx)
	}()
	stop = func() {
		cancel()
		<-ended
	}
	w.Cleanup(stop)
	return stop
}

// until lets time pass until "<day>T<hour>:<minute>" of the month, and checks what came meanwhile.
func (w *world) until(moment string, want ...string) {
	w.Helper()
	end, err := time.Parse("2006-01-02T15:04", "2000-01-"+moment)
	require.NoError(w, err)
	time.Sleep(time.Until(end) + time.Second)
	synctest.Wait()
	require.Equal(w, want, w.came)
	w.came = nil
}

func sends(name, cron, body string) Message {
	return Message{Name: name, Cron: cron, Message: delayer.Message{Key: "queue", Publishing: amqp091.Publishing{Body: []byte(body)}}}
}

// TestScheduler_OneOfMany: what several processes schedule comes once, also while they start, end
// and start again.
func TestScheduler_OneOfMany(t *testing.T) {
	inWorld(t, func(w *world) {
		night, quarter := sends("night", "30 2 * * *", "n"), sends("quarter", "*/15 3 * * *", "q")
		first := w.start(night, quarter)
		w.start(quarter, night)
		w.until("01T02:29")
		w.start(night)
		w.until("01T03:05", "01T02:30 night@2000-01-01T02:30Z n", "01T03:00 quarter@2000-01-01T03:00Z q")
		first()
		w.start(night, quarter)
		w.until("02T02:31", "01T03:15 quarter@2000-01-01T03:15Z q", "01T03:30 quarter@2000-01-01T03:30Z q",
			"01T03:45 quarter@2000-01-01T03:45Z q", "02T02:30 night@2000-01-02T02:30Z n")
		assert.Empty(t, w.log.String())
	})
}

// TestScheduler_NoProcess: what is due within Ahead comes without a process, and so does the next
// of each name. What is due after that is not made up for.
func TestScheduler_NoProcess(t *testing.T) {
	inWorld(t, func(w *world) {
		half, night := sends("half", "*/30 * * * *", ""), sends("night", "0 5 * * *", "")
		stop := w.start(half, night)
		w.until("01T00:10")
		stop()
		w.until("01T05:40", "01T00:30 half@2000-01-01T00:30Z ", "01T01:00 half@2000-01-01T01:00Z ", "01T05:00 night@2000-01-01T05:00Z ")
		w.start(half, night)
		w.until("01T06:00", "01T06:00 half@2000-01-01T06:00Z ")
		assert.Empty(t, w.log.String())
	})
}

// TestScheduler_Unknown: after ErrUnknown a message is scheduled again, and comes once.
func TestScheduler_Unknown(t *testing.T) {
	inWorld(t, func(w *world) {
		w.d.FailNext(delayer.ErrUnknown, delayer.ErrUnknown, nil, delayer.ErrUnknown)
		w.start(sends("half", "*/30 * * * *", ""))
		w.until("01T01:00", "01T00:30 half@2000-01-01T00:30Z ", "01T01:00 half@2000-01-01T01:00Z ")
		assert.Equal(t, 3, strings.Count(w.log.String(), "a recurring message was not scheduled"))
	})
}

// TestScheduler_Away: while the broker cannot be reached nothing is scheduled. What is due later
// is, once it can be reached again.
func TestScheduler_Away(t *testing.T) {
	inWorld(t, func(w *world) {
		for range 30 { // 150 s
			w.d.FailNext(delayer.ErrNotSent)
		}
		w.start(sends("minute", "* * * * *", ""))
		w.until("01T00:04", "01T00:03 minute@2000-01-01T00:03Z ", "01T00:04 minute@2000-01-01T00:04Z ")
		assert.Contains(t, w.log.String(), "not scheduled in time by this process")
	})
}

// TestScheduler_ClockSetBack: a process that began with a wrong clock goes on by the right one.
func TestScheduler_ClockSetBack(t *testing.T) {
	inWorld(t, func(w *world) {
		s, err := New(w.d, Config{Messages: []Message{sends("half", "*/30 * * * *", "")}})
		require.NoError(w, err)
		of, now := s.messages[0], time.Now()
		of.done = now.AddDate(0, 0, 1)
		require.NoError(w, s.schedule(w.Context(), of, of.done))
		require.NoError(w, s.schedule(w.Context(), of, now))
		w.until("01T01:00", "01T00:30 half@2000-01-01T00:30Z ", "01T01:00 half@2000-01-01T01:00Z ")
	})
}

// TestScheduler_Removed: a name that is removed cancels what waits, also what a process schedules
// that does not know of it.
func TestScheduler_Removed(t *testing.T) {
	inWorld(t, func(w *world) {
		half := sends("half", "*/30 * * * *", "")
		stop := w.start(half)
		w.until("01T00:40", "01T00:30 half@2000-01-01T00:30Z ")
		gone := half
		gone.Removed = true
		end := w.start(gone)
		w.until("01T02:40")
		stop()
		end()
		require.Empty(t, w.d.Waiting())
		w.start(half)
		w.until("01T04:00", "01T04:00 half@2000-01-01T04:00Z ") // 3:00 and 3:30 stay cancelled
		assert.Empty(t, w.log.String())
	})
}

// TestScheduler_Changed: of two messages with the same name and time the first that is scheduled
// comes.
func TestScheduler_Changed(t *testing.T) {
	inWorld(t, func(w *world) {
		stop := w.start(sends("half", "*/30 * * * *", "old"))
		w.until("01T00:10")
		stop()
		w.start(sends("half", "*/30 * * * *", "new"))
		w.until("01T01:30", "01T00:30 half@2000-01-01T00:30Z old", "01T01:00 half@2000-01-01T01:00Z old", "01T01:30 half@2000-01-01T01:30Z new")
	})
}

// TestScheduler_BeyondMax: what is further away than the longest delay is scheduled when it is not
// any more.
func TestScheduler_BeyondMax(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := delayertest.DefaultLimits()
		limits.Max = 24 * time.Hour
		w := &world{T: t, d: delayertest.New(delayertest.Config{Timers: true, Limits: limits})}
		w.start(sends("weekly", "0 12 * * MON", "")) // 2000-01-01 is a Saturday
		w.until("02T11:59")
		require.Empty(t, w.d.Published())
		w.until("02T12:01")
		require.Len(t, w.d.Published(), 1)
		assert.Empty(t, w.log.String())
	})
}

func TestNew_Invalid(t *testing.T) {
	good := sends("name", "* * * * *", "")
	with := func(change func(*Message)) Config {
		m := good
		change(&m)
		return Config{Messages: []Message{m}}
	}
	for want, cfg := range map[string]Config{
		`message "": invalid configuration: its name has 0 bytes, want 1 to 22`:         with(func(m *Message) { m.Name = "" }),
		`its name has 23 bytes, want 1 to 22`:                                           with(func(m *Message) { m.Name = strings.Repeat("x", 23) }),
		`message "name": invalid configuration: cron "@daily": it has 1 fields, want 5`: with(func(m *Message) { m.Cron = "@daily" }),
		`message "name": invalid configuration: Delay, ID and Due must be empty`:        with(func(m *Message) { m.Message.Delay = 1 }),
		`message "name": invalid configuration: neither an exchange nor a queue`:        with(func(m *Message) { m.Message.Key = "" }),
		`message "name": invalid configuration: there are two of that name`:             {Messages: []Message{good, good}},
		`delayer: recurring Config.Ahead: invalid configuration: 1s is less than 1m0s`:  {Ahead: time.Second},
	} {
		s, err := New(delayertest.New(delayertest.Config{}), cfg)
		require.ErrorIs(t, err, delayer.ErrConfig)
		require.ErrorContains(t, err, want)
		require.Nil(t, s)
	}
	limits := delayertest.DefaultLimits()
	limits.CancelBefore = 0
	_, err := New(delayertest.New(delayertest.Config{Limits: limits}), Config{Messages: []Message{good}})
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.EqualError(t, err, "delayer: recurring: unsupported operation: the Delayer has no tickets (use backend controller with wheel slots, its default)")
}
