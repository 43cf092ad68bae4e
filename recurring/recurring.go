// Package recurring sends messages again and again, at the times of cron expressions.
//
// [Scheduler.Run] schedules the next messages with [delayer.Delayer].Schedule, under ids of name and
// time. Any number of processes may run the same messages: what several of them schedule is
// delivered once. A message that is scheduled waits in the broker and needs no process any more.
//
// It needs backend controller with slots, its default. Times are whole minutes. A message is never
// early. It comes again, with the same MessageId, in the cases that docs/reliability.md lists, and if
// a process starts whose clock is more than ten seconds behind: what was due in that time comes again.
//
// What was not scheduled in time is not made up for: no process ran, or none reached the broker,
// from [Config].Ahead before a time, or from the time before it if that is earlier, until then.
//
// Of messages with the same name and time the first that is scheduled counts while it waits. So
// another body, and other times, come into effect after [Config].Ahead, or after the next message if
// that is later. To change times at once, let [Message].Removed cancel the name, and use a new one.
package recurring

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/pace"
)

// A Message is sent at the times of a cron expression.
type Message struct {
	// Name is unique within the Delayer's prefix: 1 to 22 bytes. The id of a message is
	// "<name>@2027-01-31T01:30Z": the name and the time in UTC.
	Name string

	// Cron has five fields: minute (0–59), hour (0–23), day of month (1–31), month (1–12 or
	// JAN–DEC) and day of week (0–7 or SUN–SAT; 0 and 7 are Sunday). A field is *, or a list of
	// numbers and ranges, with steps: "*/15 8-17 * * MON-FRI". If neither day of month nor
	// day of week begins with *, one of the two is enough.
	Cron string

	// Zone is the time zone of Cron. Default: UTC. Where clocks are put forward, the times that
	// they skip are one: the moment of the change. Where they are set back, a time that they show
	// twice is the first of the two. An expression of every hour, with * as its hour, goes on by
	// the hours that pass: 23 or 25 on such a day.
	Zone *time.Location

	// Message is what is sent. Delay, ID and Due must be empty. An empty MessageId becomes the id.
	Message delayer.Message

	// Removed cancels what is scheduled under this name, and what other processes still schedule.
	// What is due within [delayer.Limits].CancelBefore still comes. Leave the entry there until all
	// processes have it, and for Ahead. Times that were cancelled stay so.
	Removed bool
}

// Config says what is sent. A zero field has its default.
type Config struct {
	Messages []Message

	// Ahead is how long before its time a message is scheduled, and so how long processes and the
	// broker may be away; the next of each name is scheduled at any rate. At least 1m; default: 1h.
	Ahead time.Duration

	// Logger receives failures. Default: slog.Default().
	Logger *slog.Logger
}

// A Scheduler schedules messages.
type Scheduler struct {
	delayer  delayer.Delayer
	cfg      Config
	messages []*entry
}

type entry struct {
	Message
	times
	done   time.Time // all times until then are scheduled, or over
	looked time.Time // when that was last looked after
}

const (
	layout      = "2006-01-02T15:04Z"
	longestName = message.LongestID - len("@"+layout)

	usualAhead, shortestAhead = time.Hour, time.Minute
	lookEvery, lookAgain      = 30 * time.Second, 5 * time.Second
	patience                  = 10 * time.Second // with one message
)

// New returns a Scheduler for a Delayer. Errors are [delayer.ErrConfig], and
// [errors.ErrUnsupported] if the Delayer has no tickets.
func New(d delayer.Delayer, cfg Config) (*Scheduler, error) {
	if d.Limits().CancelBefore == 0 {
		return nil, &delayer.Error{
			Op: "recurring", Kind: errors.ErrUnsupported, Cause: errors.New("the Delayer has no tickets"),
			Hint: "use backend controller with wheel slots, its default",
		}
	}
	cfg.Ahead, cfg.Logger = cmp.Or(cfg.Ahead, usualAhead), cmp.Or(cfg.Logger, slog.Default())
	if cfg.Ahead < shortestAhead {
		return nil, invalid("Config.Ahead", fmt.Errorf("%v is less than %v", cfg.Ahead, shortestAhead))
	}
	s := &Scheduler{delayer: d, cfg: cfg}
	for _, m := range cfg.Messages {
		e, err := newEntry(m, message.Limits{MaxPriority: d.Limits().MaxPriority, User: m.Message.Publishing.UserId})
		if slices.ContainsFunc(s.messages, func(other *entry) bool { return other.Name == m.Name }) {
			err = errors.New("there are two of that name")
		}
		if err != nil {
			return nil, invalid(fmt.Sprintf("message %.80q", m.Name), err)
		}
		s.messages = append(s.messages, e)
	}
	return s, nil
}

func invalid(object string, cause error) error {
	return &delayer.Error{Op: "recurring", Object: object, Kind: delayer.ErrConfig, Cause: cause}
}

func newEntry(m Message, limits message.Limits) (*entry, error) {
	if m.Name == "" || len(m.Name) > longestName {
		return nil, fmt.Errorf("its name has %d bytes, want 1 to %d", len(m.Name), longestName)
	}
	of, err := parse(m.Cron, cmp.Or(m.Zone, time.UTC))
	if err != nil {
		return nil, fmt.Errorf("cron %.80q: %w", m.Cron, err)
	}
	sent := &m.Message
	if sent.Delay != 0 || sent.ID != "" || !sent.Due.IsZero() {
		return nil, errors.New("Delay, ID and Due must be empty: the cron expression says when it is due")
	}
	return &entry{Message: m, times: of, done: time.Now().Round(0)}, message.Validate(sent.Exchange, sent.Key, &sent.Publishing, limits)
}

// Run schedules messages until ctx ends. It looks every half minute, and after a failure every five
// seconds. It must be called once, soon after New.
func (s *Scheduler) Run(ctx context.Context) {
	for ctx.Err() == nil {
		pause := lookEvery
		for _, m := range s.messages {
			err := s.schedule(ctx, m, time.Now().Round(0)) // without the monotonic clock
			if err != nil && ctx.Err() == nil {
				s.cfg.Logger.Error("a recurring message was not scheduled", "name", m.Name, "error", err)
				pause = lookAgain
			}
		}
		_ = pace.Sleep(ctx, pause)
	}
}

// schedule schedules what is due until Ahead from now, and at any rate the next one.
func (s *Scheduler) schedule(ctx context.Context, m *entry, now time.Time) error {
	if now.Before(m.looked) { // the clock was set back. What is scheduled again is delivered once
		m.done = now
	}
	m.looked = now
	if at, ok := m.next(m.done); ok && !at.After(now) {
		s.cfg.Logger.Warn("a recurring message was not scheduled in time by this process", "name", m.Name, "from", at)
		m.done = now
	}
	for m.done.Before(now.Add(s.cfg.Ahead)) {
		at, ok := m.next(m.done)
		if !ok || at.Sub(now) > s.delayer.Limits().Max || m.done.After(now) && at.Sub(now) > s.cfg.Ahead {
			return nil
		}
		if err := s.put(ctx, m, at); err != nil {
			return err
		}
		m.done = at
	}
	return nil
}

// put schedules a message, or cancels it.
func (s *Scheduler) put(ctx context.Context, m *entry, at time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	sent := m.Message.Message
	sent.ID, sent.Due = m.Name+"@"+at.Format(layout), at
	sent.Publishing.MessageId = cmp.Or(sent.Publishing.MessageId, sent.ID)
	if !m.Removed {
		_, err := s.delayer.Schedule(ctx, sent)
		return err
	}
	ticket, err := s.delayer.Ticket(sent.ID, at)
	if err == nil {
		err = s.delayer.Cancel(ctx, ticket)
	}
	if errors.Is(err, delayer.ErrTooLate) {
		return nil
	}
	return err
}
