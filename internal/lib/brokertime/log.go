package brokertime

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/topology"
)

// A Log tells the steps of the broker's clock to processes that start later. It is a stream: reading
// takes nothing away, and all read the same order. Each entry holds everything that its writer knew,
// so the oldest may be dropped.
type Log struct {
	cfg   LogConfig
	clock *Clock

	greeting string        // an entry without a record: what was recorded before has been read
	read     chan struct{} // closed when it came
	again    atomic.Bool   // what is known is to be written again: the stream may be a new one
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
	Greeting string  `json:"greeting,omitempty"`
	Record   *Record `json:"record,omitempty"`
}

const recordEvery = time.Second // what is new

// OpenLog reads what is recorded, and goes on to read and record until Close. Call it before the
// clock asks for the first time: what it sees later is new.
func OpenLog(ctx context.Context, clock *Clock, cfg LogConfig) (*Log, error) {
	l := &Log{cfg: cfg, clock: clock, read: make(chan struct{})}
	hello := message.NewEnvelope(time.Now(), 0, "")
	l.greeting = hello.ID
	running, stop := context.WithCancel(context.Background())
	l.stop = stop
	l.running.Go(func() { l.consume(running) })
	if err := l.greet(ctx); err != nil {
		l.Close()
		return nil, broker.Explain("read the steps of the broker's clock", clock.cfg.Backend, "queue "+cfg.Queue, err)
	}
	clock.began()
	l.running.Go(func() { l.record(running) })
	return l, nil
}

// Close ends reading and recording.
func (l *Log) Close() {
	l.stop()
	l.running.Wait()
}

// greet writes an entry and waits until it comes back.
func (l *Log) greet(ctx context.Context) error {
	if err := l.write(ctx, entry{Greeting: l.greeting}); err != nil {
		return err
	}
	select {
	case <-l.read:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
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

// consume reads all from the first entry on, again after each lost channel.
func (l *Log) consume(ctx context.Context) {
	stream := broker.Stream{Queue: l.cfg.Queue, Take: l.take, Again: func() { l.again.Store(true) }}
	stream.Failed = func(err error) {
		l.clock.cfg.Logger.Warn("cannot read the steps of the broker's clock", "queue", stream.Queue, "error", err)
	}
	stream.Read(ctx, l.cfg.Conn)
}

// take reads one entry. Others than ours mean nothing.
func (l *Log) take(body []byte) {
	var e entry
	if json.Unmarshal(body, &e) != nil {
		return
	}
	if e.Record != nil {
		l.clock.heard(*e.Record)
	}
	if e.Greeting == l.greeting {
		select {
		case <-l.read:
		default:
			close(l.read)
		}
	}
}

// record writes what is new until ctx ends. An entry that was not read yet may be written twice, of
// which the first counts.
func (l *Log) record(ctx context.Context) {
	every := time.NewTicker(recordEvery)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			if r := l.clock.recorded(); l.again.Swap(false) && r.Number > 0 {
				l.publish(ctx, r)
			}
			if r, ok := l.clock.unrecorded(); ok {
				l.publish(ctx, r)
			}
		case <-ctx.Done():
			return
		}
	}
}

func (l *Log) publish(ctx context.Context, r Record) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if err := l.write(ctx, entry{Record: &r}); err != nil && ctx.Err() == nil {
		l.clock.cfg.Logger.Warn("cannot record a step of the broker's clock", "queue", l.cfg.Queue, "error", err)
	}
}
