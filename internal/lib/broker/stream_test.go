package broker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

// acknowledged are the tags up to which messages were acknowledged.
type acknowledged chan uint64

// Ack implements [amqp091.Acknowledger].
func (a acknowledged) Ack(tag uint64, multiple bool) error {
	if multiple {
		a <- tag
	}
	return nil
}

// Nack implements [amqp091.Acknowledger].
func (acknowledged) Nack(uint64, bool, bool) error { panic("nack") }

// Reject implements [amqp091.Acknowledger].
func (acknowledged) Reject(uint64, bool) error { panic("reject") }

// TestStream_Acknowledges: many messages at once, and the last ones soon.
func TestStream_Acknowledges(t *testing.T) {
	for name, end := range map[string]func(chan amqp091.Delivery, context.CancelFunc){
		"the context ends":    func(_ chan amqp091.Delivery, cancel context.CancelFunc) { cancel() },
		"the channel is lost": func(messages chan amqp091.Delivery, _ context.CancelFunc) { close(messages) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				acks := make(acknowledged, 10)
				began, taken := 0, 0
				s := Stream{Again: func() { began++ }, Take: func(body []byte) { taken += len(body) }}
				messages := make(chan amqp091.Delivery)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go s.serve(ctx, messages)
				send := func(from, to uint64) {
					for tag := from; tag <= to; tag++ {
						messages <- amqp091.Delivery{Acknowledger: acks, DeliveryTag: tag, Body: []byte("x")}
					}
					synctest.Wait()
				}
				send(1, acknowledgeAt+3)
				require.EqualValues(t, acknowledgeAt, <-acks)
				require.Empty(t, acks)
				time.Sleep(acknowledgeEvery)
				require.EqualValues(t, acknowledgeAt+3, <-acks)
				time.Sleep(time.Minute)
				synctest.Wait()
				require.Empty(t, acks, "there is nothing to acknowledge")
				send(acknowledgeAt+4, acknowledgeAt+4)
				end(messages, cancel)
				synctest.Wait()
				require.Equal(t, 1, began)
				require.Equal(t, acknowledgeAt+4, taken)
				require.Empty(t, acks)
			})
		})
	}
}
