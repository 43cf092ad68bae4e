package unroutable

import (
	"context"
	"time"

	"github.com/delayer-go/delayer/internal/attempt"
	"github.com/delayer-go/delayer/internal/broker"
	"github.com/delayer-go/delayer/internal/message"
)

// Unreturnable says why a parked message cannot be given back to its queue, or "".
func Unreturnable(m *Message) string {
	if _, ok := attempt.Parked(&m.Delivery, time.Now()); !ok {
		return "it has no header " + attempt.Header + ", so its queue is not known"
	}
	return ""
}

// Return publishes a parked message to the queue that it comes from, mandatory, and returns once that is
// confirmed. Its handler will see it as it was, and its attempts count from the start. stays is as in Send.
func (s *Sender) Return(ctx context.Context, m *Message) (stays string, err error) {
	if stays := Unreturnable(m); stays != "" {
		return stays, nil
	}
	now := time.Now()
	known, _ := attempt.Parked(&m.Delivery, now)
	fresh := attempt.State{Queue: known.Queue, Original: known.Original}
	const noDelay, defaultExchange, anyPriority = 0, "", 255
	msg := message.Seal(fresh.Publishing(&m.Delivery, anyPriority), message.NewEnvelope(now, noDelay, defaultExchange), nil)
	err = s.publisher.PublishDirect(ctx, broker.Publishing{Key: known.Queue, Message: msg})
	if err == nil {
		return "", nil
	}
	return s.refusal(m, err)
}
