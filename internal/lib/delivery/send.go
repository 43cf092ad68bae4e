package delivery

import (
	"context"
	"maps"
	"slices"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/objects"
)

// Send publishes a message that is due straight to its destination. The broker refuses what a
// client publishes to an internal exchange. So what an exchange refuses is sent through a binding,
// as a delayed message is. The errors are those of [broker.Publisher.PublishDirect].
func (s Stage) Send(ctx context.Context, control control, p publisher, exchange, key string, msg amqp091.Publishing) error {
	refused := p.PublishDirect(ctx, broker.Publishing{Exchange: exchange, Key: key, Message: msg})
	if exchange == "" || broker.Code(refused) != amqp091.AccessRefused {
		return refused
	}
	to := Key(exchange, "", message.Words(key))
	err := control.Do(ctx, func(ch *amqp091.Channel) error { return objects.Bind(ch, s.bindings(exchange, "", to)[0]) })
	if err != nil {
		return refused // the user may not write there at all
	}
	msg.Headers = maps.Clone(msg.Headers)
	own, _ := msg.Headers["BCC"].([]any)
	msg.Headers["BCC"] = append(slices.Clone(own), to)
	return p.PublishDirect(ctx, broker.Publishing{Exchange: s.Exchanges(), Key: key, Message: msg})
}
