package faults

import (
	"context"
	"fmt"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

// Another is a Delayer beside the one of a run, over the same topology.
type another struct {
	delayer.Delayer
	queue string
	delay time.Duration
}

func (s *Scene) openOthers(ctx context.Context) ([]another, error) {
	var others []another
	for _, r := range s.Runs {
		d, err := r.Subject.Open(ctx, s.delayerURLs, r.Prefix)
		if err != nil {
			for _, o := range others {
				_ = o.Close()
			}
			return nil, fmt.Errorf("%s: another one: %w", r.Subject.Name, err)
		}
		others = append(others, another{d, r.Queue(), r.Subject.Delays[0]})
	}
	return others, nil
}

// closeAll closes them at the same time, and returns how long each took.
func closeAll(ctx context.Context, others []another) []time.Duration {
	took := make([]time.Duration, len(others))
	var closing sync.WaitGroup
	for i, o := range others {
		closing.Go(func() { took[i] = o.publishAndClose(ctx) })
	}
	closing.Wait()
	return took
}

// publishAndClose publishes and closes the Delayer meanwhile, and returns how long Close took.
func (a another) publishAndClose(ctx context.Context) time.Duration {
	const patience = 30 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var publishing sync.WaitGroup
	underWay := make(chan struct{})
	publishing.Go(func() {
		close(underWay)
		_ = a.Publish(ctx, "", a.queue, a.delay, amqp091.Publishing{Body: []byte(anothers)})
	})
	<-underWay
	<-time.After(patience / 5) // no signal tells that it waits for the broker
	began := time.Now()
	_ = a.Close()
	took := time.Since(began)
	publishing.Wait()
	return took
}
