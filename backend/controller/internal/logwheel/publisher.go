package logwheel

import (
	"context"
	"fmt"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller/internal/bundle"
	"github.com/delayer-go/delayer/backend/controller/internal/leader"
	"github.com/delayer-go/delayer/backend/controller/internal/writer"
)

// A Publisher writes records to the log. It is safe for concurrent use.
type Publisher struct {
	cfg *Config
	log *confirms

	mu      sync.Mutex
	writer  *writer.Writer
	settled map[*writer.Record]chan leader.Outcome
	timer   *time.Timer
	lost    bool
}

// NewPublisher returns a Publisher on a channel of its own.
func NewPublisher(cfg *Config, channel *amqp091.Channel) (*Publisher, error) {
	log, err := newConfirms(channel)
	if err != nil {
		return nil, err
	}
	p := &Publisher{cfg: cfg, log: log, writer: writer.New(cfg.Process), settled: map[*writer.Record]chan leader.Outcome{}}
	p.timer = time.AfterFunc(time.Hour, func() { p.step(writer.Tick{}) })
	closed := channel.NotifyClose(make(chan *amqp091.Error, 1))
	go func() {
		for range closed { // until it is closed
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.lost = true
		p.settle(p.writer.End())
	}()
	return p, nil
}

// Write returns nil once a record is stored in the log. Its errors match ErrNotSent, ErrRefused or
// ErrUnknown. If ctx ends before the record is sent, it is withdrawn.
func (p *Publisher) Write(ctx context.Context, rec bundle.Record) error {
	r := &writer.Record{Record: rec}
	answer := make(chan leader.Outcome, 1)
	p.mu.Lock()
	if p.lost {
		p.mu.Unlock()
		return delayer.ErrNotSent
	}
	p.settled[r] = answer
	p.mu.Unlock()
	p.step(writer.Submit{Record: r})
	select {
	case o := <-answer:
		return outcome(o)
	case <-ctx.Done():
		p.step(writer.Withdraw{Record: r})
		select {
		case o := <-answer:
			return outcome(o)
		default:
			return delayer.ErrUnknown
		}
	}
}

func outcome(o leader.Outcome) error {
	return [...]error{leader.Stored: nil, leader.Refused: delayer.ErrNotSent, leader.Unknown: delayer.ErrUnknown}[o]
}

// step tells the writer what has happened, and does what it says.
func (p *Publisher) step(e writer.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lost {
		return
	}
	now := p.cfg.Now().Mono
	todo, next := p.writer.Step(now, e)
	for p.settle(todo) {
		todo, next = p.writer.Step(now, writer.Tick{})
	}
	if next > 0 {
		p.timer.Reset(next - now)
	}
}

// settle does what the writer says, and reports whether it has taken a bundle. The caller holds mu.
func (p *Publisher) settle(todo []writer.Effect) (taken bool) {
	for _, e := range todo {
		switch e := e.(type) {
		case writer.Settle:
			p.settled[e.Record] <- leader.Outcome(e.Outcome)
			delete(p.settled, e.Record)
		case writer.Send:
			b := p.writer.Take(e.ID)
			if b == nil {
				continue
			}
			taken = true
			key := fmt.Sprint(e.ID)
			msg := amqp091.Publishing{ContentType: bundle.ContentType, DeliveryMode: amqp091.Persistent, MessageId: key, Body: b.Append(nil)}
			err := p.log.publish("", p.cfg.LogQueue(), key, msg, func(o leader.Outcome) {
				p.step(writer.Confirmed{ID: e.ID, Outcome: writer.Outcome(o)})
			})
			if err != nil { // the channel is lost: see End
				return false
			}
		}
	}
	return taken
}
