//go:build !race

package simulator

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/backend/controller/internal/slots"
	"github.com/delayer-go/delayer/internal/lab/amqpclient"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	wire "github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/topology"
)

func TestMain(m *testing.M) { rabbittest.Main(m, rabbit.Options{}) }

// The same is done, at random, to the queue of a slot in the model and on a real broker. After each
// act both are left alone until they rest, and then whatever can be seen of them must be equal.

// An act is one thing that clients do to a queue. They are numbered as they come.
type act struct {
	what     deed
	client   int
	n        int // messages to publish, a prefetch, or a tag; 0: none
	multiple bool
}

type deed string

const (
	publish deed = "publish" // wait for the confirms
	consume deed = "consume" // on a new connection
	anew    deed = "anew"    // on the same channel, with another prefetch
	ack     deed = "ack"
	release deed = "release" // close the channel, at once after an acknowledgement
	lose    deed = "lose"    // the connection
	kill    deed = "kill"    // the broker, and start it again
)

// A state is what can be seen of a queue.
type state struct {
	Has              [][]got // what each client has not acknowledged
	Ready, Consumers int
}

type got struct {
	Tag   uint64
	Name  string
	Again bool // delivered before
}

// A modelled queue is the model's.
type modelled struct {
	*bench
	clients   []*channel
	published int
}

func (m *modelled) do(a act) {
	switch a.what {
	case publish:
		for range a.n {
			m.published++
			m.store(strconv.Itoa(m.published))
		}
	case consume:
		m.clients = append(m.clients, m.client(a.n))
	case anew:
		m.clients[a.client].consume(a.n)
	case ack:
		m.clients[a.client].ack(uint64(a.n), a.multiple)
	case release:
		ch := m.clients[a.client]
		if a.n > 0 {
			ch.ack(uint64(a.n), a.multiple)
		}
		ch.release(func() {})
	case lose:
		m.clients[a.client].conn.close()
	case kill:
		m.broker.crash()
		m.broker.down = false
	}
	m.settle()
}

func (m *modelled) state() (s state) {
	for _, ch := range m.clients {
		var has []got
		for _, u := range ch.unacked {
			has = append(has, got{u.tag, u.msg.ID, u.again})
		}
		s.Has = append(s.Has, has)
	}
	s.Ready, s.Consumers = m.q.count()
	return s
}

// An actual queue is a broker's.
type actual struct {
	t         *testing.T
	broker    *rabbit.Broker
	name      string
	control   *amqp091.Channel
	clients   []*client
	published int
}

// A client has a connection with a channel that consumes.
type client struct {
	conn   *amqp091.Connection
	ch     *amqp091.Channel
	times  int
	pumped chan struct{}

	mu  sync.Mutex
	has []got
}

func newReal(t *testing.T, b *rabbit.Broker, like topology.Queue, number int) *actual {
	r := &actual{t: t, broker: b, name: fmt.Sprintf("%s-%d", rabbittest.Prefix(t), number)}
	r.connect()
	const durable, autoDelete, exclusive, noWait = true, false, false, false
	_, err := r.control.QueueDeclare(r.name, durable, autoDelete, exclusive, noWait, like.Args)
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = r.control.QueueDelete(r.name, false, false, false) })
	return r
}

func (r *actual) connect() {
	r.control = rabbittest.NewRig(r.t, r.broker).Ch
	require.NoError(r.t, r.control.Confirm(false))
}

func (r *actual) do(a act) {
	switch a.what {
	case publish:
		for range a.n {
			r.published++
			msg := amqp091.Publishing{DeliveryMode: amqp091.Persistent, Body: []byte(strconv.Itoa(r.published))}
			confirm, err := r.control.PublishWithDeferredConfirm("", r.name, true, false, msg)
			require.NoError(r.t, err)
			ok, err := confirm.WaitContext(r.t.Context())
			require.NoError(r.t, err)
			require.True(r.t, ok)
		}
	case consume:
		c := &client{}
		var err error
		c.conn, err = amqpclient.Dial(r.t.Context(), r.broker.URL(), r.name)
		require.NoError(r.t, err)
		r.t.Cleanup(func() { _ = c.conn.Close() })
		c.ch, err = c.conn.Channel()
		require.NoError(r.t, err)
		r.clients = append(r.clients, c)
		require.NoError(r.t, c.consume(r.name, a.n))
	case anew:
		c := r.clients[a.client]
		require.NoError(r.t, c.ch.Cancel(c.tag(), false))
		<-c.pumped
		require.NoError(r.t, c.consume(r.name, a.n))
	case ack:
		require.NoError(r.t, r.clients[a.client].ack(uint64(a.n), a.multiple))
	case release:
		c := r.clients[a.client]
		if a.n > 0 {
			require.NoError(r.t, c.ack(uint64(a.n), a.multiple))
		}
		wire.EndActive(c.ch, r.name)
		c.gone()
	case lose:
		c := r.clients[a.client]
		require.NoError(r.t, c.conn.Close()) // which the broker answers when the channel has ended
		c.gone()
	case kill:
		for _, c := range r.clients {
			c.gone()
		}
		r.connect()
	}
}

func (c *client) tag() string { return strconv.Itoa(c.times) }

func (c *client) consume(queue string, prefetch int) error {
	if err := c.ch.Qos(prefetch, 0, false); err != nil {
		return err
	}
	c.times++
	const autoAck, exclusive, noLocal, noWait = false, false, false, false
	messages, err := c.ch.Consume(queue, c.tag(), autoAck, exclusive, noLocal, noWait, nil)
	c.pumped = make(chan struct{})
	go func() {
		defer close(c.pumped)
		for d := range messages {
			c.mu.Lock()
			c.has = append(c.has, got{d.DeliveryTag, string(d.Body), d.Redelivered})
			c.mu.Unlock()
		}
	}()
	return err
}

func (c *client) ack(tag uint64, multiple bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.has = slices.DeleteFunc(c.has, func(g got) bool { return g.Tag == tag || multiple && g.Tag < tag })
	return c.ch.Ack(tag, multiple)
}

// gone forgets what it had, once nothing comes any more.
func (c *client) gone() {
	<-c.pumped
	c.has = nil
}

func (c *client) names() (names string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range c.has {
		names += g.Name
	}
	return names
}

func (r *actual) state() (s state) {
	for _, c := range r.clients {
		c.mu.Lock()
		s.Has = append(s.Has, append([]got(nil), c.has...))
		c.mu.Unlock()
	}
	q, err := r.control.QueueDeclarePassive(r.name, true, false, false, false, nil)
	require.NoError(r.t, err)
	s.Ready, s.Consumers = q.Messages, q.Consumers
	return s
}

// A play is what was done, and how the broker's queue was after each act.
type play struct {
	rand   *rand.Rand
	model  *modelled
	real   *actual
	acts   []act
	states []state
}

// choose chooses what is done next.
func (p *play) choose() act {
	var there, have []int
	for i, ch := range p.model.clients {
		if !ch.gone {
			there = append(there, i)
			if len(ch.unacked) > 0 {
				have = append(have, i)
			}
		}
	}
	anyOf := func(list []int) int { return list[p.rand.IntN(len(list))] }
	tag := func(client int) int {
		all := p.model.clients[client].unacked
		return int(all[p.rand.IntN(len(all))].tag)
	}
	const mostClients, mostMessages, mostPrefetch = 2, 4, 5 // of three, RabbitMQ 3.10 has the older follow the active one, and 4.0 another
	switch n := p.rand.IntN(12); {
	case n < 3:
		return act{what: publish, n: 1 + p.rand.IntN(mostMessages)}
	case len(there) == 0, n < 5 && len(there) < mostClients:
		return act{what: consume, n: 1 + p.rand.IntN(mostPrefetch)}
	case n < 7:
		return act{what: anew, client: anyOf(there), n: 1 + p.rand.IntN(mostPrefetch)}
	case n < 10 && len(have) > 0:
		client := anyOf(have)
		return act{what: ack, client: client, n: tag(client), multiple: n == 9}
	case n == 10 && len(have) > 0 && p.rand.IntN(2) == 0:
		client := anyOf(have)
		return act{what: release, client: client, n: tag(client), multiple: true}
	case n == 10:
		return act{what: release, client: anyOf(there)}
	default:
		return act{what: lose, client: anyOf(there)}
	}
}

// like reports whether the model's queue is as the broker's. In which order messages come that were
// given back is not certain: what was on its way to a consumer that was cancelled is given back
// before the rest. So the model takes over that order.
func (m *modelled) like(is state) bool {
	for i, ch := range m.clients {
		for j, u := range ch.unacked {
			if i < len(is.Has) && j < len(is.Has[i]) {
				m.swap(u.item, is.Has[i][j].Name)
			}
		}
	}
	return assert.ObjectsAreEqual(m.state(), is)
}

// swap gives a message another name, and that which has this name its own, if both were given back.
func (m *modelled) swap(it *item, name string) {
	all := slices.Clone(m.q.returned)
	for _, ch := range m.clients {
		for _, u := range ch.unacked {
			all = append(all, u.item)
		}
	}
	for _, other := range all {
		if other.msg.ID == name && other.again && it.again {
			it.msg.ID, other.msg.ID = other.msg.ID, it.msg.ID
		}
	}
}

// next does an act to both.
func (p *play) next(t *testing.T, a act) bool {
	p.model.do(a)
	p.real.do(a)
	var is state
	ok := assert.Eventually(t, func() bool { is = p.real.state(); return p.model.like(is) }, rabbittest.Patience, time.Millisecond)
	p.acts, p.states = append(p.acts, a), append(p.states, is)
	if !ok {
		var text strings.Builder
		for i, a := range p.acts {
			fmt.Fprintf(&text, "%+v: %+v\n", a, p.states[i])
		}
		t.Errorf("%sthe model has %+v", text.String(), p.model.state())
	}
	return ok
}

// A liar does something else to the model.
type liar struct {
	name string
	do   func(m *modelled, a act)
}

var liars = []liar{
	{"what a lost channel had is gone", func(m *modelled, a act) {
		if a.what == lose {
			m.clients[a.client].unacked = nil
		}
		m.do(a)
	}},
	{"what comes back is behind the others", func(m *modelled, a act) {
		m.do(a)
		m.q.ready, m.q.returned = append(m.q.ready, m.q.returned...), nil
	}},
	{"one more than the prefetch is delivered", func(m *modelled, a act) {
		if a.what == consume {
			a.n++
		}
		m.do(a)
	}},
	{"what the former consumer of a channel has counts", func(m *modelled, a act) {
		if a.what == anew {
			a.n = max(1, a.n-len(m.clients[a.client].unacked))
		}
		m.do(a)
	}},
	{"who consumes anew gives back", func(m *modelled, a act) {
		if a.what == anew {
			m.q.forget(m.clients[a.client])
		}
		m.do(a)
	}},
	{"who comes last is active", func(m *modelled, a act) {
		m.do(a)
		if a.what == consume {
			slices.Reverse(m.q.consumers)
			m.q.serve()
			m.settle()
		}
	}},
	{"all up to it is one acknowledgement", func(m *modelled, a act) {
		a.multiple = false
		m.do(a)
	}},
	{"an acknowledgement just before the end is lost", func(m *modelled, a act) {
		if a.what == release {
			a.n = 0
		}
		m.do(a)
	}},
	{"a crash forgets what was delivered", func(m *modelled, a act) {
		for _, ch := range m.clients {
			if a.what == kill {
				ch.unacked = nil
			}
		}
		m.do(a)
	}},
	{"those who wait are counted as consumers", func(m *modelled, a act) {
		m.do(a)
		if len(m.q.consumers) > 1 {
			m.q.cancelled = append(m.q.cancelled, &consumer{has: 1})
		}
	}},
}

// found reports whether a play shows that the model is another.
func (l liar) found(p *play) bool {
	m := &modelled{bench: newBench()}
	for i, a := range p.acts {
		l.do(m, a)
		if !m.like(p.states[i]) {
			return true
		}
	}
	return false
}

// What is given back goes behind what was given back before, and comes again in that order, also
// after the broker was killed. So a message may come before others that were stored before it, and
// a mark that was given back proves nothing.
var givenBackAgain = []act{
	{what: publish, n: 6},
	{what: consume, n: 6},
	{what: lose, client: 0},
	{what: consume, n: 2},
	{what: release, client: 1},
	{what: consume, n: 3},
	{what: lose, client: 2},
}

// TestModel_LikeABroker compares the model with RabbitMQ, and then with models that lie.
func TestModel_LikeABroker(t *testing.T) {
	t.Parallel() // it waits for the broker; TestSimulate computes
	b := rabbittest.Own(t, rabbit.Options{})
	plan := slots.New("", 1<<20).Plan()
	like := plan.Queues[slices.IndexFunc(plan.Queues, func(q topology.Queue) bool { return q.Role == topology.Waiting })]
	const plays, acts = 30, 40
	var all []*play
	for i := range plays + 1 {
		all = append(all, &play{rand: rand.New(rand.NewPCG(uint64(i), 0)), model: &modelled{bench: newBench()}, real: newReal(t, b, like, i)})
	}
	back, all := all[plays], all[:plays]
	declared := time.Now()
	each := func(f func(p *play)) {
		var running sync.WaitGroup
		for _, p := range all {
			running.Go(func() { f(p) })
		}
		running.Wait()
	}
	some := func(p *play) {
		for range acts {
			if !p.next(t, p.choose()) {
				return
			}
		}
	}
	each(some)
	for _, a := range givenBackAgain {
		require.True(t, back.next(t, a))
	}
	if t.Failed() {
		return
	}
	time.Sleep(time.Until(declared.Add(3 * time.Second))) // RabbitMQ before 4.0 forgets a queue of the last two
	require.NoError(t, b.Kill())
	require.NoError(t, b.Run(context.Background()))
	each(func(p *play) {
		if p.next(t, act{what: kill}) {
			some(p)
		}
	})
	require.True(t, back.next(t, act{what: kill}) && back.next(t, act{what: consume, n: 6}))
	require.Equal(t, "612345", back.real.clients[3].names())
	for _, l := range liars {
		if !t.Failed() && !slices.ContainsFunc(all, l.found) {
			t.Errorf("it is not seen that %s", l.name)
		}
	}
}
