package broker

import (
	"errors"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

// proof records which messages the broker accepts. The broker closes a channel because of a message
// that it does not accept, and the outcome of the others on that channel is then unknown. So a
// message that it may not accept gets a channel for itself:
//
//   - one whose body is larger than any before, because AMQP does not tell max_message_size;
//   - one to an exchange that is not ours, which may be internal, or the user may not write to it.
type proof struct {
	size  atomic.Int64 // the largest body that was confirmed
	limit atomic.Int64 // max_message_size, once the broker has named it; otherwise 0

	mu        sync.Mutex
	exchanges map[string]time.Time // that accepted a message; with a time: refused one, and are doubted until then
}

const (
	// doubtedFor is how long an exchange is doubted after it refused a message. It may accept
	// others: permissions can depend on the routing key.
	doubtedFor = time.Minute
	// mostExchanges bounds the memory. Beyond it all exchanges are forgotten.
	mostExchanges = 10_000
)

// covers reports whether a message may share a channel with others.
func (p *proof) covers(msg Publishing) bool {
	if int64(len(msg.Message.Body)) > p.size.Load() {
		return false
	}
	if !msg.Direct {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	until, known := p.exchanges[msg.Exchange]
	return known && until.IsZero()
}

// oversize reports whether the body exceeds the broker's limit, if that is known, and the limit in
// bytes.
func (p *proof) oversize(msg Publishing) (limit int64, is bool) {
	limit = p.limit.Load()
	return limit, limit > 0 && int64(len(msg.Message.Body)) > limit
}

// learn notes the broker's answer to a message.
func (p *proof) learn(msg Publishing, err error) {
	if err == nil || errors.Is(err, ErrReturned) || errors.Is(err, delayer.ErrRefused) {
		p.taken(msg)
		return
	}
	var amqpErr *amqp091.Error
	if !errors.As(err, &amqpErr) || !amqpErr.Server {
		return
	}
	if m := tooLarge.FindStringSubmatch(amqpErr.Reason); m != nil {
		limit, _ := strconv.ParseInt(m[1], 10, 64)
		p.limit.Store(limit)
	} else if _, kind := refusal(err); kind != nil && msg.Direct {
		p.set(msg.Exchange, time.Now().Add(doubtedFor))
	}
}

// tooLarge is what RabbitMQ 3.10, 4.0 and 4.3 say, as 406, of a body above max_message_size.
var tooLarge = regexp.MustCompile(`message size \d+ is larger than configured max size (\d+)`)

// taken notes that the broker accepted a message.
func (p *proof) taken(msg Publishing) {
	for size := int64(len(msg.Message.Body)); ; {
		known := p.size.Load()
		if size <= known || p.size.CompareAndSwap(known, size) {
			break
		}
	}
	if !msg.Direct {
		return
	}
	p.mu.Lock()
	until, known := p.exchanges[msg.Exchange]
	p.mu.Unlock()
	if !known || !until.IsZero() && time.Now().After(until) {
		p.set(msg.Exchange, time.Time{})
	}
}

func (p *proof) set(exchange string, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.exchanges == nil || len(p.exchanges) >= mostExchanges {
		p.exchanges = map[string]time.Time{}
	}
	p.exchanges[exchange] = until
}

// reset forgets everything: another node of the cluster may have another configuration.
func (p *proof) reset() {
	p.size.Store(0)
	p.limit.Store(0)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.exchanges = nil
}
