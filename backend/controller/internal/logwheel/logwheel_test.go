package logwheel

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/backend/controller/internal/bundle"
	"github.com/delayer-go/delayer/backend/controller/internal/leader"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
)

func TestMain(m *testing.M) { rabbittest.Main(m, rabbit.Options{}) }

var epoch = time.Now()

// now knows the broker's clock, which is that of this machine, to some milliseconds.
func now() leader.Now {
	at := time.Now()
	const unsure = 3 * time.Millisecond
	return leader.Now{Mono: at.Sub(epoch), Known: true, Clock: brokertime.Reading{
		Earliest: at.Add(-unsure).Round(0), Latest: at.Add(unsure).Round(0), From: at.Add(2 * unsure).Round(0),
	}}
}

// TestLogwheel: 64 publishers write 2,000 messages of up to 50 s, of which some have tickets and are
// cancelled or postponed. Whoever leads loses its connection twice. None that was cancelled comes,
// none of the others is missing, none is early.
func TestLogwheel(t *testing.T) {
	b := rabbittest.Broker(t)
	rig := rabbittest.NewRig(t, b)
	cfg := Config{
		Prefix: rabbittest.Prefix(t), Process: "test", Rings: leader.Default(), Now: now, Logger: slog.Default(),
		Dial: func() (*amqp091.Connection, error) { return amqp091.Dial(b.URL()) },
	}
	target := rig.Queue("target", amqp091.Table{"x-queue-type": "quorum"})
	cfg.Message = func(it leader.Item) (exchange, key string, msg amqp091.Publishing, err error) {
		return "", it.To, amqp091.Publishing{MessageId: it.ID, Body: it.Payload, DeliveryMode: amqp091.Persistent}, nil
	}
	require.NoError(t, cfg.Declare(rig.Channel()))
	t.Cleanup(func() {
		for _, q := range append(cfg.Rings.Slots(), leader.Log) {
			_, _ = rig.Channel().QueueDelete(cfg.queue(q), false, false, false)
		}
	})

	ctx, stop := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	var mu sync.Mutex
	var conns []*amqp091.Connection
	for range 2 {
		own := cfg
		own.Dial = func() (*amqp091.Connection, error) {
			conn, err := amqp091.Dial(b.URL())
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			return conn, err
		}
		serving.Go(func() { own.Serve(ctx) })
	}
	defer serving.Wait()
	defer stop()

	p, err := NewPublisher(&cfg, rig.Channel())
	require.NoError(t, err)
	const publishers, each = 64, 32
	type fate struct {
		due       time.Time
		cancelled bool
	}
	fates := make([]map[string]*fate, publishers)
	var publishing sync.WaitGroup
	began := time.Now()
	for n := range publishers {
		fates[n] = map[string]*fate{}
		publishing.Go(func() {
			for i := range each {
				id := fmt.Sprintf("%d-%d", n, i)
				rec := bundle.Record{ID: id, To: target, Ticket: i%2 == 0, Payload: []byte(id)}
				rec.Due, rec.Left, rec.Own = leader.Enter(now(), time.Duration(rand.Int64N(int64(50*time.Second))))
				f := &fate{due: rec.Due.Time()}
				fates[n][id] = f
				if err := p.Write(ctx, rec); err != nil {
					t.Errorf("%s: %v", id, err)
				}
				switch change := (bundle.Record{ID: id, Due: rec.Due}); {
				case i%4 == 0 && leader.InTime(now(), rec.Due):
					change.Kind = bundle.Cancel
					err := p.Write(ctx, change)
					f.cancelled = err == nil && leader.InTime(now(), rec.Due)
				case i%4 == 2 && leader.InTime(now(), rec.Due):
					change.Kind, change.Next = bundle.Postpone, rec.Due+3000
					if err := p.Write(ctx, change); err == nil && leader.InTime(now(), rec.Due) {
						f.due = change.Next.Time()
					}
				}
				time.Sleep(time.Duration(rand.Int64N(int64(400 * time.Millisecond))))
			}
		})
	}
	go func() {
		for range 2 {
			time.Sleep(12 * time.Second)
			mu.Lock()
			all := conns
			conns = nil
			mu.Unlock()
			for _, conn := range all {
				_ = conn.CloseDeadline(time.Now().Add(time.Second))
			}
		}
	}()
	got, late, twice := map[string]time.Time{}, time.Duration(0), 0
	messages := rig.Consume(target)
	publishing.Wait()
	t.Logf("published in %v", time.Since(began))
	want := 0
	all := map[string]*fate{}
	for _, of := range fates {
		for id, f := range of {
			all[id] = f
			if !f.cancelled {
				want++
			}
		}
	}
	deadline := time.After(90 * time.Second)
	for len(got) < want {
		select {
		case m := <-messages:
			id := string(m.Body)
			f := all[id]
			if _, is := got[id]; is {
				twice++
				continue
			}
			require.NotNil(t, f, id)
			require.False(t, f.cancelled, "%s was cancelled", id)
			got[id] = time.Now()
			require.False(t, time.Now().Before(f.due), "%s is early", id)
			late = max(late, time.Since(f.due))
		case <-deadline:
			for id, f := range all {
				if _, is := got[id]; !is && !f.cancelled {
					t.Errorf("missing: %s, due %v", id, f.due)
				}
			}
			return
		}
	}
	t.Logf("%d of %d delivered, %d twice, the latest seen %v late", len(got), len(all), twice, late.Round(time.Millisecond))
}
