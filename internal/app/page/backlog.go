package page

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/kept"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/undelivered"
)

const (
	// mostSought is how many messages of a queue are looked at, where somebody looks for some of
	// them.
	mostSought = 100_000
	mostShown  = 200
	lookFor    = time.Minute // for all of them
)

// errEnough ends a visit early.
var errEnough = errors.New("enough")

// A Backlog opens queues of messages that were not delivered.
type Backlog struct {
	// walk visits the messages of a queue, from the oldest on, until errEnough. Those that were not
	// removed are then in the queue as they were. total is how many it had.
	walk func(ctx context.Context, queue string, send bool, visit func(*item) error) (total int, err error)
	now  func() time.Time

	ctx  context.Context // ends with Close
	stop context.CancelFunc
	done sync.WaitGroup
	mu   sync.Mutex
	job  *job // the last one; nil: there was none
}

// An item is a message that was not delivered. Its functions are for the visit alone.
type item struct {
	kept.Message
	Mark string // names it for as long as it is unchanged

	whole  func() kept.Whole
	retry  func(context.Context) (stays string, err error)
	remove func() error
}

// Reason is why it is here, with the last error, which tells most.
func (m *item) Reason() string {
	why := m.Why
	if attempts := cli.Count(m.Attempts, "attempt"); m.Attempts > 0 && !strings.Contains(why, attempts) {
		why = attempts + ", " + why
	}
	if m.LastError != "" {
		why += ": " + m.LastError
	}
	return why
}

// Brief is Reason, cut for a list.
func (m *item) Brief() string {
	const most = 160
	if text := []rune(m.Reason()); len(text) > most {
		return string(text[:most]) + "…"
	}
	return m.Reason()
}

// Elsewhere is the exchange that it was published to, if that is not where it goes to.
func (m *item) Elsewhere() string {
	if m.Exchange == nil || *m.Exchange == "" || m.To == "exchange "+cli.Shown(string(*m.Exchange)) {
		return ""
	}
	return "exchange " + cli.Shown(string(*m.Exchange))
}

// DueAt is when it is due, if it was delayed.
func (m *item) DueAt() time.Time { return time.Time(m.Due) }

// Here is since when it is here, or failed for the first time.
func (m *item) Here() time.Time {
	if m.First.IsZero() {
		return time.Time(m.Since)
	}
	return m.First
}

// has reports whether a text is in what a list shows of a message, or is its id. Letters may be
// large or small.
func (m *item) has(text string) bool {
	all := []string{m.To, m.Elsewhere(), string(m.Key), string(m.MessageID), string(m.ID), m.Reason()}
	return strings.Contains(strings.ToLower(strings.Join(all, "\n")), strings.ToLower(text))
}

// NewBacklog opens the queues of a configuration, until Close.
func NewBacklog(cfg backend.Config, settings engine.Settings) *Backlog {
	var returned sync.Map // queue → how many messages a look at it has returned, which is how many the next must read at least
	return newBacklog(func(ctx context.Context, queue string, send bool, visit func(*item) error) (int, error) {
		client, err := kept.Open(ctx, cfg, settings, queue)
		if err != nil {
			return 0, err
		}
		defer client.Close()
		var sender *undelivered.Sender
		if send {
			if sender, err = client.Sender(ctx); err != nil {
				return 0, err
			}
			defer sender.Close()
		}
		reader, total, err := client.Read(ctx)
		if err != nil {
			return 0, err
		}
		before, _ := returned.LoadOrStore(queue, 0)
		reader.Soon(max(before.(int), mostShown))
		defer func() {
			reader.Close()
			returned.Store(queue, reader.Returned())
		}()
		return total, visitEach(ctx, reader, kept.NewLook(client), sender, visit)
	}, time.Now)
}

func newBacklog(walk func(context.Context, string, bool, func(*item) error) (int, error), now func() time.Time) *Backlog {
	b := &Backlog{now: now}
	var turns sync.Map // queue → a place for one: two walks at a time would see a part of the messages each
	b.ctx, b.stop = context.WithCancel(context.Background())
	b.walk = func(ctx context.Context, queue string, send bool, visit func(*item) error) (int, error) {
		place, _ := turns.LoadOrStore(queue, make(chan struct{}, 1))
		turn := place.(chan struct{})
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		case <-ctx.Done():
			return 0, errors.New("somebody else is at work on it, or looks at it")
		}
		seen := map[string]int{}
		return walk(ctx, queue, send, func(m *item) error {
			sum := m.Mark
			m.Mark = fmt.Sprintf("%s.%d", sum, seen[sum]) // messages may be alike
			seen[sum]++
			return visit(m)
		})
	}
	return b
}

// Close ends what is under way. The message that is being sent is finished.
func (b *Backlog) Close() {
	b.stop()
	b.done.Wait()
}

// visitEach visits messages until errEnough, and reads on as far as the look before has.
func visitEach(ctx context.Context, reader *undelivered.Reader, look *kept.Look, sender *undelivered.Sender, visit func(*item) error) error {
	for enough := false; ; {
		m, err := reader.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !enough {
			shown, err := look.Message(ctx, m)
			if err != nil {
				return err
			}
			err = visit(&item{
				Message: shown, Mark: fingerprint(m), remove: m.Remove,
				whole: func() kept.Whole { return shown.Whole(m) },
				retry: func(ctx context.Context) (string, error) {
					stays, err := sender.Send(ctx, m)
					if stays != "" || err != nil {
						return stays, err
					}
					return "", m.Remove()
				},
			})
			if enough = errors.Is(err, errEnough); enough {
				reader.Enough()
			} else if err != nil {
				return err
			}
		}
		m.Forget()
	}
}

// fingerprint is the same each time that a message is read, and hardly that of another one.
func fingerprint(m *undelivered.Kept) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %q %s %s ", m.Exchange, m.RoutingKey, m.MessageId, m.Envelope.ID, m.Timestamp, m.Came)
	h.Write(m.Body)
	const enough = 12
	return hex.EncodeToString(h.Sum(nil)[:enough])
}

// An order is what somebody asks for.
type order struct {
	Action, Queue string
	IDs           []string // nil: the oldest Count that have the text Find
	Find          string
	Count, Sought int
}

// Sending tells retry from delete.
func (a order) Sending() bool { return a.Action == "retry" }

// pick tells the messages of an order, of which the first Count are meant.
func (a order) pick(m *item) bool {
	if a.IDs != nil {
		return slices.Contains(a.IDs, m.Mark)
	}
	return m.has(a.Find)
}

// A job is an order, and how far it is.
type job struct {
	order
	Who      string
	Began    time.Time
	Done     int            // sent or deleted
	Stay     map[string]int // those that were not, by the reason
	Gone     int            // those that were not in the queue any more
	Err      string
	Finished bool
}

func (b *Backlog) last() *job {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.job == nil {
		return nil
	}
	j := *b.job
	j.Stay = maps.Clone(j.Stay)
	return &j
}

// start begins what somebody has ordered, unless something is under way.
func (b *Backlog) start(who string, a order, log *slog.Logger) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.job != nil && !b.job.Finished || b.ctx.Err() != nil {
		return false
	}
	j := &job{order: a, Who: who, Began: b.now(), Stay: map[string]int{}}
	b.job = j
	log = log.With("who", who, "action", a.Action, "queue", a.Queue, "asked", a.Count)
	log.Info("an action of the page has begun")
	b.done.Go(func() {
		err := b.run(j)
		b.mu.Lock()
		defer b.mu.Unlock()
		j.Finished = true
		if err != nil {
			j.Err = strings.TrimPrefix(err.Error(), "delayer: ")
		}
		stay := 0
		for _, n := range j.Stay {
			stay += n
		}
		log.Info("an action of the page has ended", "done", j.Done, "stay", stay, "gone", j.Gone, "error", j.Err)
	})
	return true
}

func (b *Backlog) run(j *job) error {
	picked, read := 0, 0
	_, err := b.walk(b.ctx, j.Queue, j.Sending(), func(m *item) error {
		read++
		if !j.pick(m) {
			if read >= mostSought {
				return errEnough
			}
			return nil
		}
		picked++
		var stays string
		var err error
		if j.Sending() {
			sending, cancel := broker.Attempt(context.WithoutCancel(b.ctx), m.Size) // it is finished
			stays, err = m.retry(sending)
			cancel()
		} else {
			err = m.remove()
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		switch {
		case err != nil:
			return err
		case stays != "":
			j.Stay[m.To+": "+stays]++
		default:
			j.Done++
		}
		if picked == j.Count {
			return errEnough
		}
		return nil
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		j.Gone = j.Count - picked
	}
	return err
}
