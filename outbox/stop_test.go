package outbox

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"

	"github.com/delayer-go/delayer"
)

// deaf is a Delayer that confirms nothing. It tells when it was told to stop.
type deaf struct {
	delayer.Delayer // nil: nothing else is called

	toldAfter time.Duration
}

func (d *deaf) Publish(ctx context.Context, _, _ string, _ time.Duration, _ amqp091.Publishing) error {
	began := time.Now()
	<-ctx.Done()
	d.toldAfter = time.Since(began)
	return &delayer.Error{Kind: delayer.ErrUnknown}
}
func (*deaf) Limits() delayer.Limits { return delayer.Limits{Max: time.Hour} }
func (*deaf) Close() error           { return nil }

func TestRelay_StopGivesTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &deaf{}
		r := &Relay{delayer: d, limits: d.Limits(), cfg: Config{}.withDefaults()}
		ctx, stop := context.WithCancel(t.Context())
		const working = time.Second
		time.AfterFunc(working, stop)
		r.publish(ctx, []*item{{}})
		assert.Equal(t, working+stopTimeout, d.toldAfter, "what is under way has time to be confirmed")

		r.publish(t.Context(), []*item{{}})
		assert.Equal(t, r.cfg.Timeout, d.toldAfter)
	})
}
