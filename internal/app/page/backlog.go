package page

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/kept"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/format"
	"github.com/delayer-go/delayer/internal/lib/undelivered"
)

const (
	// mostRead is how many messages of a queue are read at most. They are all read, because only then does the
	// queue keep its order.
	mostRead  = 10_000
	mostShown = 200
	lookFor   = 30 * time.Second // for all of them
	sendFor   = 10 * time.Second // for the confirm of one
)

// A Backlog opens queues of messages that were not delivered.
type Backlog struct {
	// walk reads the messages of a queue, from the oldest on, and returns those that were not removed.
	walk func(ctx context.Context, queue string, send bool, visit func(*item) error) error
	turn chan struct{} // two walks at a time would see a part of the messages each
	now  func() time.Time

	ctx  context.Context // ends with Close
	stop context.CancelFunc
	done sync.WaitGroup
	mu   sync.Mutex
	job  *job // the last one; nil: there was none
}

// An item is a message that was not delivered. Its functions are for the visit alone.
type item struct {
	ID                         string // names it for as long as it is unchanged
	To, Key, Message, Attempts string
	Own                        string // its id in the header of Delayer
	Due, Since                 time.Time
	Size                       int

	why    func(context.Context) (string, error)
	whole  func() whole
	retry  func(context.Context) (stays string, err error)
	remove func() error
}

// whole is all that a message consists of.
type whole struct {
	Properties, Headers, Failures string
	Body                          []byte
}

// NewBacklog opens the queues of a configuration, until Close.
func NewBacklog(cfg backend.Config) (*Backlog, error) {
	settings, err := engine.Resolve(cfg.Options, "")
	if err != nil {
		return nil, err
	}
	return newBacklog(func(ctx context.Context, queue string, send bool, visit func(*item) error) error {
		client, err := kept.Open(ctx, cfg, settings, queue)
		if err != nil {
			return err
		}
		defer client.Close()
		var sender *undelivered.Sender
		if send {
			if sender, err = client.Sender(ctx); err != nil {
				return err
			}
			defer sender.Close()
		}
		return read(ctx, client, sender, visit)
	}, time.Now), nil
}

func newBacklog(walk func(context.Context, string, bool, func(*item) error) error, now func() time.Time) *Backlog {
	b := &Backlog{now: now, turn: make(chan struct{}, 1)}
	b.ctx, b.stop = context.WithCancel(context.Background())
	b.walk = func(ctx context.Context, queue string, send bool, visit func(*item) error) error {
		select {
		case b.turn <- struct{}{}:
			defer func() { <-b.turn }()
		case <-ctx.Done():
			return errors.New("somebody else is at work on it, or looks at it")
		}
		seen := map[string]int{}
		return walk(ctx, queue, send, func(m *item) error {
			sum := m.ID
			m.ID = fmt.Sprintf("%s.%d", sum, seen[sum]) // messages may be alike
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

// errTooMany says what to do instead.
var errTooMany = fmt.Errorf("it has more than %s messages, and they are shown only if all can be read: use delayer messages", format.Thousands(mostRead))

func read(ctx context.Context, client *undelivered.Client, sender *undelivered.Sender, visit func(*item) error) error {
	reader, total, err := client.Read(ctx)
	if err != nil {
		return err
	}
	defer reader.Close()
	if total > mostRead {
		return errTooMany
	}
	look := kept.NewLook(client)
	for {
		m, err := reader.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = visit(itemOf(m, client, look, sender))
			m.Forget()
		}
		if err != nil {
			return err
		}
	}
}

func itemOf(m *undelivered.Kept, client *undelivered.Client, look *kept.Look, sender *undelivered.Sender) *item {
	i := &item{
		ID: fingerprint(m), To: kept.Destination(m), Key: m.RoutingKey, Message: m.MessageId, Own: m.Envelope.ID, Size: m.Size, Since: m.Came,
		why:    func(ctx context.Context) (string, error) { return look.Why(ctx, m) },
		remove: m.Remove,
		whole:  func() whole { return wholeOf(m) },
		retry: func(ctx context.Context) (string, error) {
			stays, err := sender.Send(ctx, m)
			if stays != "" || err != nil {
				return stays, err
			}
			return "", m.Remove()
		},
	}
	if _, key, known := m.Published(); known {
		i.Key = key
	}
	if m.Ours && !client.Parked() {
		i.Due = m.Envelope.Due
	}
	if p := m.Parked; p != nil {
		i.Attempts, i.Since = cli.Count(p.Failures, "attempt"), p.First
	}
	return i
}

// fingerprint is the same each time that a message is read, and hardly that of another one.
func fingerprint(m *undelivered.Kept) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %q %s %s ", m.Exchange, m.RoutingKey, m.MessageId, m.Envelope.ID, m.Timestamp, m.Came)
	h.Write(m.Body)
	const enough = 12
	return hex.EncodeToString(h.Sum(nil)[:enough])
}

func wholeOf(m *undelivered.Kept) whole {
	c := m.Content()
	w := whole{Properties: laidOut(c.Properties), Headers: laidOut(c.Headers), Body: c.Body}
	if m.Parked != nil {
		var b strings.Builder
		for _, f := range m.Parked.History {
			fmt.Fprintf(&b, "attempt %d, %s: %s\n", f.Attempt, f.At.UTC().Format(time.RFC3339), f.Error)
		}
		w.Failures = b.String()
	}
	return w
}

func laidOut(value any) string {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}

// A job is what somebody has asked for, and how far it is.
type job struct {
	Who, Queue, Action string
	Asked              int
	Began              time.Time
	Done               int            // sent or deleted
	Stay               map[string]int // those that were not, by the reason
	Gone               int            // those that were not in the queue any more
	Err                string
	Finished           bool
}

// Sending tells retry from delete.
func (j job) Sending() bool { return j.Action == "retry" }

// last is the last job, or nil.
func (b *Backlog) last() *job {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.job == nil {
		return nil
	}
	j := *b.job
	j.Stay = map[string]int{}
	for why, n := range b.job.Stay {
		j.Stay[why] = n
	}
	return &j
}

// start begins a job, unless one is under way. ids are the messages; nil: the first j.Asked of the queue.
func (b *Backlog) start(j job, ids map[string]bool, ended func(job)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.job != nil && !b.job.Finished || b.ctx.Err() != nil {
		return false
	}
	j.Began, j.Stay = b.now(), map[string]int{}
	b.job = &j
	b.done.Go(func() {
		err := b.run(&j, ids)
		b.mu.Lock()
		j.Finished = true
		if err != nil {
			j.Err = strings.TrimPrefix(err.Error(), "delayer: ")
		}
		b.mu.Unlock()
		ended(*b.last())
	})
	return true
}

func (b *Backlog) run(j *job, ids map[string]bool) error {
	visited := 0
	err := b.walk(b.ctx, j.Queue, j.Sending(), func(m *item) error {
		if ids == nil && visited == j.Asked || ids != nil && !ids[m.ID] {
			return nil
		}
		visited++
		var stays string
		var err error
		if j.Sending() {
			sending, cancel := context.WithTimeout(context.WithoutCancel(b.ctx), sendFor) // it is finished
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
		return nil
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		j.Gone = j.Asked - visited
	}
	return err
}
