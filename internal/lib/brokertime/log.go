package brokertime

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/topology"
)

// A Log tells the steps of the broker's clock to processes that start later. It is a stream:
// reading takes nothing away, and all read the same order.
//
// Its last entry is a record: all steps that are known. So only the end is read, and what is older
// may be dropped. Each process that runs sees to that: while the last entry is none, or knows less
// than this process, it writes what it knows. A process that starts writes a greeting, to know when
// it has read the end, and then the record. If the end is a greeting, as when its writer has died
// before the second, the log is read from its first entry on.
type Log struct {
	cfg   LogConfig
	clock *Clock

	greeting string       // of this process
	last     atomic.Int64 // the sum of the last entry that was read; noRecord: it is none
	running  sync.WaitGroup
	stop     context.CancelFunc
}

// LogConfig says where a Log is.
type LogConfig struct {
	Queue         string
	Exchange, Key string // lead there
	Conn          *broker.Conn
}

// LogQueue is the stream of a Log.
func LogQueue(name string) topology.Queue {
	return topology.Queue{Name: name, Role: topology.Record, Args: amqp091.Table{
		"x-queue-type": topology.Stream, "x-max-length-bytes": int64(10 << 20), "x-stream-max-segment-size-bytes": int64(1 << 20),
	}}
}

// entry is the body of a message of the stream.
type entry struct {
	Greeting string `json:"greeting,omitempty"`
	Steps    Steps  `json:"steps"` // nil: this is no record
}

const (
	recordEvery = time.Second // what is new
	noRecord    = -1
)

// OpenLog reads what is recorded, and goes on to read and record until Close. Call it before the
// clock asks for the first time: what it sees later is new.
func OpenLog(ctx context.Context, clock *Clock, cfg LogConfig) (*Log, error) {
	l := &Log{cfg: cfg, clock: clock, greeting: rand.Text()}
	running, stop := context.WithCancel(context.Background())
	l.stop = stop
	begun, greeted := make(chan error, 1), make(chan error, 1)
	l.running.Go(func() {
		l.read(running, "last", begun, greeted)
		if running.Err() == nil {
			l.read(running, "first", begun, greeted)
		}
	})
	err := received(ctx, begun)
	if err == nil {
		err = l.write(ctx, entry{Greeting: l.greeting})
	}
	if err == nil {
		err = received(ctx, greeted)
	}
	if err != nil {
		l.Close()
		return nil, broker.Explain("read the steps of the broker's clock", clock.cfg.Backend, "queue "+cfg.Queue, err)
	}
	clock.began()
	l.tell(ctx)
	l.running.Go(func() { l.record(running) })
	return l, nil
}

// Close ends reading and recording.
func (l *Log) Close() {
	l.stop()
	l.running.Wait()
}

func received(ctx context.Context, from <-chan error) error {
	select {
	case err := <-from:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// offer sends what fits.
func offer[T any](to chan<- T, what T) {
	select {
	case to <- what:
	default:
	}
}

func (l *Log) write(ctx context.Context, e entry) error {
	body, err := json.Marshal(e)
	if err != nil {
		return err
	}
	msg := amqp091.Publishing{DeliveryMode: amqp091.Persistent, Body: body}
	return l.clock.cfg.Publish(ctx, broker.Publishing{
		Exchange: l.cfg.Exchange, Key: l.cfg.Key, Stream: l.cfg.Queue, Message: message.Seal(msg, message.NewEnvelope(time.Now(), 0, ""), nil),
	})
}

// read reads from an offset on, until ctx ends, again after each lost channel. From "last" on it
// ends where the end of the log is no record. It tells when it begins, or may not, and when it has
// read the greeting of this process.
func (l *Log) read(ctx context.Context, offset string, begun, greeted chan<- error) {
	ctx, enough := context.WithCancel(ctx)
	defer enough()
	unsure := false
	broker.Stream{
		Queue: l.cfg.Queue, Offset: offset,
		Again: func() {
			unsure = offset == "last"
			l.last.Store(noRecord)
			offer(begun, nil)
		},
		Take: func(body []byte) {
			var e entry
			switch err := json.Unmarshal(body, &e); {
			case err != nil || ctx.Err() != nil:
			case e.Steps != nil:
				unsure = false
				l.clock.heard(e.Steps)
				l.last.Store(int64(e.Steps.total()))
			case unsure:
				enough()
			case e.Greeting == l.greeting:
				offer(greeted, nil)
				fallthrough
			default:
				l.last.Store(noRecord)
			}
		},
		Failed: func(err error) {
			if code := broker.Code(err); code == amqp091.NotFound || code == amqp091.AccessRefused {
				offer(begun, err)
			}
			l.clock.cfg.Logger.Warn("cannot read the steps of the broker's clock", "queue", l.cfg.Queue, "error", err)
		},
	}.Read(ctx, l.cfg.Conn)
}

// record tells what is new until ctx ends.
func (l *Log) record(ctx context.Context) {
	every := time.NewTicker(recordEvery)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			l.tell(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// tell writes what is known unless the last entry tells as much.
func (l *Log) tell(ctx context.Context) {
	known := l.clock.settled()
	if int64(known.total()) <= l.last.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if err := l.write(ctx, entry{Steps: append(Steps{}, known...)}); err != nil && ctx.Err() == nil {
		l.clock.cfg.Logger.Warn("cannot record a step of the broker's clock", "queue", l.cfg.Queue, "error", err)
	}
}
