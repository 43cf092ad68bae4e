package controller_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
)

// A wall is a wall clock that can be set: by how much it is ahead.
type wall struct{ atomic.Int64 }

func (w *wall) set(ahead time.Duration) { w.Store(int64(ahead)) }

func (w *wall) shows(now time.Time) time.Time { return now.Round(0).Add(time.Duration(w.Load())) }

// setWall sets the wall clock of a controller.
func (p process) setWall(ahead time.Duration) {
	_, err := fmt.Fprintln(p.in, ahead)
	require.NoError(p.TB, err)
	var done string
	_, err = fmt.Fscanln(p.out, &done)
	require.NoError(p.TB, err)
}

// slotsHostClocksAreSet: the wall clocks of a publisher's machine, and of a controller's, are set
// again and again while both are at work. No message is early, and none is late by as much. It was
// number 4 of where the wheel failed before.
func slotsHostClocksAreSet(t *testing.T, w *workbench) {
	const ahead, behind = 40 * time.Second, -60 * time.Second
	const delay, much = 1200 * time.Millisecond, 20 * time.Second
	var publishers wall
	publishers.set(ahead)
	leader := startProcess(t, w.opts)
	d, err := controller.Open(brokertime.WithWall(t.Context(), publishers.shows), controller.Config{Options: w.opts, Run: delayer.Off})
	require.NoError(t, err)
	queue, a := w.queue(), newMessages()
	got := w.Consume(queue)
	w.publish(d, queue, a, "somebody leads", time.Millisecond)
	w.settle(got, a)

	a = newMessages()
	for round := range 4 {
		publishers.set(ahead * time.Duration(round%2))
		leader.setWall(behind * time.Duration((round+1)%2))
		for i := range 10 {
			w.publish(d, queue, a, fmt.Sprint(round, ".", i), delay-time.Duration(i)*delay/10)
		}
		rabbittest.Next(t, time.After(200*time.Millisecond)) // some are on their way to the controller, and some are held
	}
	// This comes by the broker alone, when all of them must have come. It would be a stranger.
	late := rabbittest.Prefix(t)
	w.Declare(late, amqp091.Table{
		"x-message-ttl": much.Milliseconds(), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue,
	})
	w.Publish("", late, amqp091.Publishing{MessageId: "what came before is too late"})
	t.Logf("late by %v", w.settle(got, a))
	require.NoError(t, d.Close())
}
