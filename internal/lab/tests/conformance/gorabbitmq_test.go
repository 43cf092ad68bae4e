package conformance_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	rabbitmq "github.com/wagslane/go-rabbitmq"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/conformance"
)

// goRabbitWorld consumes and publishes through wagslane/go-rabbitmq: what its users read and write
// is what a Delayer delivers and takes. All else is the World beneath.
type goRabbitWorld struct {
	conformance.World
	url string

	mu        sync.Mutex
	consumers []*goRabbitConsumer
	conn      *rabbitmq.Conn
	publisher *rabbitmq.Publisher
}

// A goRabbitConsumer has a connection of its own, so that closing it disturbs no other.
type goRabbitConsumer struct {
	queue    string
	conn     *rabbitmq.Conn
	consumer *rabbitmq.Consumer
	ended    chan struct{}
}

func dialGoRabbit(url string) (*rabbitmq.Conn, error) {
	return rabbitmq.NewConn(url,
		// The default waits five seconds before it connects again.
		rabbitmq.WithConnectionOptionsReconnectInterval(100*time.Millisecond),
		rabbitmq.WithConnectionOptionsLogger(quiet{}))
}

func newGoRabbitWorld(inner conformance.World, url string) (conformance.World, error) {
	conn, err := dialGoRabbit(url)
	if err != nil {
		return nil, err
	}
	p, err := rabbitmq.NewPublisher(conn, rabbitmq.WithPublisherOptionsLogger(quiet{}), rabbitmq.WithPublisherOptionsConfirm)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &goRabbitWorld{World: inner, url: url, conn: conn, publisher: p}, nil
}

func (w *goRabbitWorld) Consume(_ context.Context, queue string, arrived func(conformance.Arrival)) error {
	conn, err := dialGoRabbit(w.url)
	if err != nil {
		return err
	}
	consumer, err := rabbitmq.NewConsumer(conn, queue,
		rabbitmq.WithConsumerOptionsQueueNoDeclare,
		rabbitmq.WithConsumerOptionsConcurrency(1), // more would mix the order up
		rabbitmq.WithConsumerOptionsQOSPrefetch(500),
		rabbitmq.WithConsumerOptionsLogger(quiet{}))
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	c := &goRabbitConsumer{queue, conn, consumer, make(chan struct{})}
	w.mu.Lock()
	w.consumers = append(w.consumers, c)
	w.mu.Unlock()
	go func() {
		defer close(c.ended)
		_ = consumer.Run(func(d rabbitmq.Delivery) rabbitmq.Action {
			arrived(conformance.Arrival{Delivery: d.Delivery, At: time.Now()})
			return rabbitmq.Ack
		})
	}()
	return nil
}

// Publish sends what go-rabbitmq has options for. Its Table is another type than amqp091's, also
// inside.
func (w *goRabbitWorld) Publish(ctx context.Context, exchange, key string, msg amqp091.Publishing) error {
	confirms, err := w.publisher.PublishWithDeferredConfirmWithContext(ctx, msg.Body, []string{key},
		rabbitmq.WithPublishOptionsExchange(exchange),
		rabbitmq.WithPublishOptionsHeaders(rabbitmq.Table(msg.Headers)),
		rabbitmq.WithPublishOptionsMessageID(msg.MessageId),
		rabbitmq.WithPublishOptionsContentType(msg.ContentType),
		rabbitmq.WithPublishOptionsContentEncoding(msg.ContentEncoding),
		rabbitmq.WithPublishOptionsCorrelationID(msg.CorrelationId),
		rabbitmq.WithPublishOptionsReplyTo(msg.ReplyTo),
		rabbitmq.WithPublishOptionsTimestamp(msg.Timestamp),
		rabbitmq.WithPublishOptionsType(msg.Type),
		rabbitmq.WithPublishOptionsUserID(msg.UserId),
		rabbitmq.WithPublishOptionsAppID(msg.AppId),
		rabbitmq.WithPublishOptionsPriority(msg.Priority),
		func(o *rabbitmq.PublishOptions) { o.DeliveryMode = msg.DeliveryMode })
	if err != nil {
		return err
	}
	for _, confirm := range confirms {
		acked, err := confirm.WaitContext(ctx)
		if err != nil {
			return err
		}
		if !acked {
			return errors.New("not confirmed")
		}
	}
	return nil
}

// DeleteQueue ends the queue's consumers: go-rabbitmq's wait for a queue that was deleted to come
// back, and would then take what is meant for the next.
func (w *goRabbitWorld) DeleteQueue(ctx context.Context, name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var errs []error
	w.consumers = slices.DeleteFunc(w.consumers, func(c *goRabbitConsumer) bool {
		if c.queue != name {
			return false
		}
		errs = append(errs, c.close())
		return true
	})
	return errors.Join(append(errs, w.World.DeleteQueue(ctx, name))...)
}

func (c *goRabbitConsumer) close() error {
	c.consumer.Close()
	<-c.ended
	return c.conn.Close()
}

func (w *goRabbitWorld) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var errs []error
	for _, c := range w.consumers {
		errs = append(errs, c.close())
	}
	w.publisher.Close()
	return errors.Join(append(errs, w.conn.Close(), w.World.Close())...)
}

// quiet is go-rabbitmq's logger for tests.
type quiet struct{}

func (quiet) Fatalf(string, ...any) {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Warnf(string, ...any)  {}
func (quiet) Infof(string, ...any)  {}
func (quiet) Debugf(string, ...any) {}
