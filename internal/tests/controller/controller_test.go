package controller_test

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/internal/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/topology"
)

// patience is how long a test waits for what must happen.
const patience = time.Minute

// A workbench is where the tests publish to and receive from, with plain amqp091-go.
type workbench struct {
	t    *testing.T
	opts delayer.Options
	conn *amqp091.Connection
	ch   *amqp091.Channel
}

func newWorkbench(t *testing.T, kind delayer.QueueType) *workbench {
	conn, err := amqp091.Dial(rabbittest.Broker(t).URL())
	require.NoError(t, err)
	ch, err := conn.Channel()
	require.NoError(t, err)
	return &workbench{t, options(t, kind), conn, ch}
}

func setUp(t *testing.T, kind delayer.QueueType) *workbench {
	w := newWorkbench(t, kind)
	t.Cleanup(func() {
		d := w.open(controller.Config{Wheel: controller.Rounds, Levels: 3, Tick: 10 * time.Millisecond, Run: delayer.Off})
		require.NoError(t, d.(delayer.TopologyRemover).RemoveTopology(context.Background()))
		require.NoError(t, d.Close())
		require.NoError(t, w.conn.Close())
	})
	return w
}

// open opens a Delayer whose longest queue waits 40 ms.
func (w *workbench) open(cfg controller.Config) delayer.Delayer {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	d, err := controller.Open(ctx, w.opts, cfg)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = d.Close() }) // if the test fails: its controller would serve the next one
	return d
}

func (w *workbench) start() delayer.Delayer {
	w.t.Helper()
	return w.open(controller.Config{Wheel: controller.Rounds, Levels: 3, Tick: 10 * time.Millisecond, Run: delayer.On})
}

// queue declares a queue that goes with the test.
func (w *workbench) queue() string {
	w.t.Helper()
	name := rabbittest.Prefix(w.t)
	_, err := w.ch.QueueDeclare(name, true, false, false, false, nil)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _, _ = w.ch.QueueDelete(name, false, false, false) })
	return name
}

// put publishes, and returns when the broker has the messages. What a test then does finds them.
func (w *workbench) put(exchange, key string, messages ...amqp091.Publishing) {
	w.t.Helper()
	require.True(w.t, w.stored(exchange, key, messages...), "the broker refuses a message, or it is unroutable")
}

// stored publishes, and reports whether the broker has the messages.
func (w *workbench) stored(exchange, key string, messages ...amqp091.Publishing) bool {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	ch, err := w.conn.Channel()
	require.NoError(w.t, err)
	defer func() { _ = ch.Close() }() // fails if there is no such exchange
	require.NoError(w.t, ch.Confirm(false))
	returned := ch.NotifyReturn(make(chan amqp091.Return, len(messages)))
	var confirms []*amqp091.DeferredConfirmation
	for _, msg := range messages {
		confirm, err := ch.PublishWithDeferredConfirmWithContext(ctx, exchange, key, true, false, msg)
		if err != nil {
			return false
		}
		confirms = append(confirms, confirm)
	}
	for _, confirm := range confirms {
		if ok, err := confirm.WaitContext(ctx); err != nil || !ok {
			return false
		}
	}
	return len(returned) == 0
}

func (w *workbench) consume(queue string) <-chan amqp091.Delivery {
	w.t.Helper()
	got, err := w.ch.Consume(queue, "", true, false, false, false, nil)
	require.NoError(w.t, err)
	return got
}

// next waits for one message.
func (w *workbench) next(got <-chan amqp091.Delivery) (m amqp091.Delivery) {
	w.t.Helper()
	select {
	case m, ok := <-got:
		require.True(w.t, ok, "the channel is lost")
		return m
	case <-time.After(patience):
		w.t.Fatal("nothing arrives")
	}
	return m
}

// An account is what was published and when it is due.
type account struct {
	mu  sync.Mutex
	due map[string]time.Time
}

func (w *workbench) publish(d delayer.Delayer, queue string, a *account, id string, delay time.Duration) {
	w.t.Helper()
	due := time.Now().Add(delay)
	require.NoError(w.t, d.Publish(w.t.Context(), "", queue, delay, amqp091.Publishing{MessageId: id}))
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.due == nil {
		a.due = map[string]time.Time{}
	}
	a.due[id] = due
}

// settle waits for every message of the account. None may be early, or come that was not published;
// how often one may come says the caller.
func (w *workbench) settle(got <-chan amqp091.Delivery, a *account) (late []time.Duration) {
	w.t.Helper()
	missing := map[string]bool{}
	for id := range a.due {
		missing[id] = true
	}
	timeout := time.After(patience)
	for len(missing) > 0 {
		select {
		case m, ok := <-got:
			require.True(w.t, ok, "the channel is lost")
			by := time.Since(a.due[m.MessageId])
			require.Contains(w.t, a.due, m.MessageId)
			require.GreaterOrEqual(w.t, by, time.Duration(0), "message %s is early", m.MessageId)
			require.NotContains(w.t, m.Headers, "x-death")
			require.NotContains(w.t, m.Headers, "x-delayer-stamp")
			require.NotContains(w.t, m.Headers, "x-delivery-count")
			delete(missing, m.MessageId)
			late = append(late, by)
		case <-timeout:
			w.t.Fatalf("missing: %v", missing)
		}
	}
	return late
}

func kinds(t *testing.T, test func(t *testing.T, w *workbench)) {
	for _, kind := range []delayer.QueueType{delayer.Quorum, delayer.Classic} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			test(t, setUp(t, kind))
		})
	}
}

func TestController_ManyRounds(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, w *workbench) {
		d := w.start()
		defer func() { require.NoError(t, d.Close()) }()
		queue, a := w.queue(), &account{}
		got := w.consume(queue)
		for i := range 20 { // up to 60 rounds of 40 ms
			w.publish(d, queue, a, fmt.Sprint(i), time.Duration(2000+20*i+i%3)*time.Millisecond)
		}
		late := w.settle(got, a)
		t.Logf("late by %v", late)
	})
}

func TestController_Missing(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, w *workbench) {
		d := w.start()
		queue, a := w.queue(), &account{}
		got := w.consume(queue)
		const messages, delay = 100, 3 * time.Second // longer than it takes to publish and close
		first := time.Now().Add(delay)
		for i := range messages {
			w.publish(d, queue, a, fmt.Sprint(i), delay)
		}
		require.NoError(t, d.Close())
		inTime := time.Now().Before(first)
		idle := w.open(controller.Config{Wheel: controller.Rounds, Levels: 3, Tick: 10 * time.Millisecond, Run: delayer.Off})
		w.publish(idle, queue, a, "idle", 50*time.Millisecond)
		require.NoError(t, idle.Close())
		if inTime {
			select {
			case m := <-got:
				t.Fatalf("%s was delivered by no one", m.MessageId)
			case <-time.After(time.Until(first.Add(time.Second))): // what waits is due by now
			}
		}
		again := w.start()
		w.settle(got, a)
		require.NoError(t, again.Close())
	})
}

func TestController_SideBySide(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, w *workbench) {
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 2)
		for range 2 {
			go func() {
				served <- controller.Serve(ctx, w.opts, controller.Config{Wheel: controller.Rounds, Levels: 3, Tick: 10 * time.Millisecond})
			}()
		}
		d := w.start()
		queue, a := w.queue(), &account{}
		got := w.consume(queue)
		var all sync.WaitGroup
		for g := range 4 {
			all.Go(func() {
				for i := range 40 {
					w.publish(d, queue, a, fmt.Sprint(g, i), time.Duration(300+2*i)*time.Millisecond)
				}
			})
		}
		all.Wait()
		require.NoError(t, d.Close()) // with messages waiting: the others go on
		w.settle(got, a)
		stop()
		require.NoError(t, <-served)
		require.NoError(t, <-served)
	})
}

func TestController_ForeignMessagesAreKept(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, w *workbench) {
		d := w.start()
		defer func() { require.NoError(t, d.Close()) }()
		unroutable := w.consume(w.opts.Prefix + ".unroutable")
		for i, headers := range []amqp091.Table{
			nil, {"x-delayer-stamp": "x"}, {delayer.Header: "x 5 y", "x-delayer-stamp": amqp091.Table{"clock": "c"}},
		} {
			w.put("", w.opts.Prefix+".controller.intake", amqp091.Publishing{
				MessageId: fmt.Sprint("foreign ", i), Headers: headers, Expiration: "100000", Body: []byte("as it was"),
			})
		}
		queue, a := w.queue(), &account{}
		w.publish(d, queue, a, "behind", 100*time.Millisecond)
		w.settle(w.consume(queue), a)
		seen := map[string]bool{}
		for range 3 {
			select {
			case m := <-unroutable:
				require.Equal(t, "as it was", string(m.Body))
				require.Empty(t, m.Expiration, "it shall stay")
				seen[m.MessageId] = true
			case <-time.After(patience):
				t.Fatal("a foreign message is missing")
			}
		}
		require.Len(t, seen, 3)
	})
}

func TestController_DestinationDeleted(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, w *workbench) {
		d := w.start()
		defer func() { require.NoError(t, d.Close()) }()
		queue := w.queue()
		unroutable := w.consume(w.opts.Prefix + ".unroutable")
		due := time.Now().Add(500 * time.Millisecond)
		require.NoError(t, d.Publish(t.Context(), "", queue, 500*time.Millisecond, amqp091.Publishing{MessageId: "lost"}))
		_, err := w.ch.QueueDelete(queue, false, false, false)
		require.NoError(t, err)
		select {
		case m := <-unroutable:
			require.False(t, time.Now().Before(due))
			require.Equal(t, "lost", m.MessageId)
			require.Equal(t, queue, m.RoutingKey)
			require.True(t, strings.HasSuffix(m.Headers[delayer.Header].(string), " "), "to the default exchange")
		case <-time.After(patience):
			t.Fatal("the message vanished")
		}
	})
}

func TestController_QueuesDeleted(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, w *workbench) {
		d := w.start()
		defer func() { require.NoError(t, d.Close()) }()
		queue := w.queue()
		got := w.consume(queue)
		for _, name := range []string{".controller.intake", ".controller.wait.02"} {
			_, err := w.ch.QueueDelete(w.opts.Prefix+name, false, false, false)
			require.NoError(t, err)
			// What comes out of a waiting queue before the intake is there again is kept as
			// unroutable.
			require.Eventually(t, func() bool {
				if err := d.Publish(t.Context(), "", queue, 100*time.Millisecond, amqp091.Publishing{}); err != nil {
					return false
				}
				select {
				case <-got:
					return true
				case <-time.After(time.Second):
					return false
				}
			}, patience, time.Millisecond, "nothing arrives after %s was deleted", name)
		}
	})
}

// TestController_IntakeDeclaredAgain: whoever deletes it, another Delayer may have declared it
// again before the broker looks after the consumers of the old one.
func TestController_IntakeDeclaredAgain(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, w *workbench) {
		d := w.start()
		defer func() { require.NoError(t, d.Close()) }()
		queue := w.queue()
		got := w.consume(queue)
		intake := w.opts.Prefix + ".controller.intake"
		described, err := controller.Topology(w.opts, controller.Config{Wheel: controller.Rounds, Levels: 3, Tick: 10 * time.Millisecond})
		require.NoError(t, err)
		queues := described.(topology.Plan).Queues
		args := queues[slices.IndexFunc(queues, func(q topology.Queue) bool { return q.Name == intake })].Args
		for round := range 2 {
			a := &account{}
			for i := range 20 {
				w.publish(d, queue, a, fmt.Sprint(round, ".", i), time.Duration(100+i)*time.Millisecond)
			}
			w.settle(got, a)
			_, err := w.ch.QueueDelete(intake, false, false, false)
			require.NoError(t, err)
			_, err = w.ch.QueueDeclare(intake, true, false, false, false, args)
			require.NoError(t, err)
			require.NoError(t, w.ch.QueueBind(intake, "", intake, false, nil))
			require.NoError(t, w.ch.QueueBind(intake, "", w.opts.Prefix+".controller.enter", false, nil))
		}
	})
}

func TestController_LongKeys(t *testing.T) {
	t.Parallel()
	w := setUp(t, delayer.Classic)
	d := w.open(controller.Config{Wheel: controller.Rounds, Levels: 3, Tick: 10 * time.Millisecond})
	defer func() { require.NoError(t, d.Close()) }()
	bcc := make([]any, 400)
	for i := range bcc {
		bcc[i] = strings.Repeat("k", 200)
	}
	err := d.Publish(t.Context(), "", w.queue(), time.Second, amqp091.Publishing{Headers: amqp091.Table{"BCC": bcc}})
	require.ErrorIs(t, err, delayer.ErrInvalid)
	require.True(t, delayer.SafeToRetry(err))
}

func TestOpen_BadConfiguration(t *testing.T) {
	t.Parallel()
	_, err := controller.Open(t.Context(), delayer.Options{Prefix: "p"}, controller.Config{Wheel: controller.Rounds, Levels: -1})
	require.ErrorIs(t, err, delayer.ErrConfig)
	require.ErrorContains(t, err, "controller.levels")
	err = controller.Serve(t.Context(), delayer.Options{Prefix: "p"}, controller.Config{Wheel: controller.Rounds, Tick: time.Hour})
	require.ErrorIs(t, err, delayer.ErrConfig)
	require.ErrorContains(t, err, "controller.tick")
}

func TestController_FullDestination(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, w *workbench) {
		d := w.start()
		defer func() { require.NoError(t, d.Close()) }()
		full, other := rabbittest.Prefix(t), w.queue()
		_, err := w.ch.QueueDeclare(full, true, false, false, false, amqp091.Table{"x-max-length": int64(1), "x-overflow": "reject-publish"})
		require.NoError(t, err)
		defer func() { _, _ = w.ch.QueueDelete(full, false, false, false) }()
		a, behind := &account{}, &account{}
		for i := range 20 {
			w.publish(d, full, a, fmt.Sprint(i), 50*time.Millisecond)
			w.publish(d, other, behind, fmt.Sprint(i), 60*time.Millisecond)
		}
		w.settle(w.consume(other), behind)
		w.settle(w.consume(full), a)
	})
}

// The user of a stand-alone controller needs no permission on the destinations.
func TestController_StandAlonePermissions(t *testing.T) {
	t.Parallel()
	standAlonePermissions(t, setUp(t, delayer.Quorum), controller.Config{Wheel: controller.Rounds, Levels: 3, Tick: 10 * time.Millisecond})
}

func standAlonePermissions(t *testing.T, w *workbench, cfg controller.Config) {
	b := rabbittest.Broker(t)
	if !b.Owned() {
		rabbittest.Skipf(t, "users: the broker is not ours")
	}
	user := strings.ToLower(w.opts.Prefix[:10])
	for _, args := range [][]string{
		{"add_user", user, "secret"},
		{"set_permissions", user, "^" + w.opts.Prefix, "^" + w.opts.Prefix, "^" + w.opts.Prefix},
	} {
		_, err := b.Ctl(t.Context(), args...)
		require.NoError(t, err)
	}
	u, err := url.Parse(b.URL())
	require.NoError(t, err)
	publisher := u.User.Username()
	u.User = url.UserPassword(user, "secret")
	opts := w.opts
	opts.URL = u.String()
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	cfg.Run = delayer.Off
	go func() { served <- controller.Serve(ctx, opts, cfg) }()

	d := w.open(cfg)
	exchange, queue := rabbittest.Prefix(t), w.queue()
	require.NoError(t, w.ch.ExchangeDeclare(exchange, "topic", true, false, false, false, nil))
	defer func() { _ = w.ch.ExchangeDelete(exchange, false, false) }()
	require.NoError(t, w.ch.QueueBind(queue, "order.*", exchange, false, nil))
	got := w.consume(queue)
	for _, user := range []string{"", publisher} {
		require.NoError(t, d.Publish(t.Context(), exchange, "order.expired", 100*time.Millisecond, amqp091.Publishing{UserId: user}))
		m := w.next(got)
		require.Equal(t, "order.expired", m.RoutingKey)
		require.Empty(t, m.UserId, "the broker would not take it from another user")
	}
	require.NoError(t, d.Close())
	stop()
	require.NoError(t, <-served)
	_, err = b.Ctl(t.Context(), "delete_user", user)
	require.NoError(t, err)
}
