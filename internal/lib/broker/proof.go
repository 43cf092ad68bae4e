package broker

import (
	"errors"
	"regexp"
	"strconv"
	"sync/atomic"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// proof records which bodies the broker accepts. It closes a channel because of a message that it
// does not accept, and the outcome of the others on that channel is then unknown. AMQP does not
// tell max_message_size, so a message whose body is larger than any before is alone on its channel.
type proof struct {
	size  atomic.Int64 // the largest body that was confirmed
	limit atomic.Int64 // max_message_size, once the broker has named it; otherwise 0
}

// covers reports whether a body of that size may share a channel with others.
func (p *proof) covers(size int) bool { return int64(size) <= p.size.Load() }

// oversize reports whether the body exceeds the broker's limit, if that is known, and the limit in
// bytes.
func (p *proof) oversize(msg *Publishing) (limit int64, is bool) {
	limit = p.limit.Load()
	return limit, limit > 0 && int64(len(msg.Message.Body)) > limit
}

// taken notes that the broker accepted a body of that size.
func (p *proof) taken(size int) {
	for {
		known := p.size.Load()
		if int64(size) <= known || p.size.CompareAndSwap(known, int64(size)) {
			return
		}
	}
}

// learn notes the limit if an error names it.
func (p *proof) learn(err error) {
	var amqpErr *amqp091.Error
	if !errors.As(err, &amqpErr) || !amqpErr.Server {
		return
	}
	if m := tooLarge.FindStringSubmatch(amqpErr.Reason); m != nil {
		limit, _ := strconv.ParseInt(m[1], 10, 64)
		p.limit.Store(limit)
	}
}

// tooLarge is what RabbitMQ 3.10, 4.0 and 4.3 say, as 406, of a body above max_message_size.
var tooLarge = regexp.MustCompile(`message size \d+ is larger than configured max size (\d+)`)

// reset forgets everything: another node of the cluster may have another configuration.
func (p *proof) reset() {
	p.size.Store(0)
	p.limit.Store(0)
}
