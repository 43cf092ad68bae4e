package proxy

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/app/entry"
	"github.com/delayer-go/delayer/internal/lib/frame"
)

const (
	bufferSize   = 16 << 10  // bytes, of each reader and writer
	firstFrame   = 128 << 10 // the most bytes of a frame until the connection is tuned
	largestFrame = 1 << 20   // and after that, whatever is agreed
	mostChecked  = 1000      // exchanges
)

// A conn is a client's connection, and its own to the broker. One goroutine reads from the client and
// writes to the broker; another does the opposite.
type conn struct {
	*Proxy
	client, broker net.Conn
	ctx            context.Context // ends with the connection

	most    atomic.Int64           // bytes of a frame
	single  atomic.Bool            // the broker grants one channel
	own     atomic.Uint32          // the proxy's own channel; 0: there is none
	ended   atomic.Pointer[ending] // why the proxy ends the connection; nil: it does not
	answers chan frame.Frame       // to what was asked on the proxy's own channel
	gone    chan struct{}          // closed once nothing more of the broker's is passed
	back    frame.Reader           // of the broker's frames, for one goroutine until then

	mu       sync.Mutex
	refusals map[uint16]frame.Frame // with what to close a channel, instead of the broker's next reason

	// Of the goroutine that reads from the client.
	in      frame.Reader
	out     *bufio.Writer
	vhost   string
	opened  bool                   // the proxy's own channel
	begun   map[uint16]frame.Frame // a basic.publish whose properties have not come, by its channel
	checked map[string]bool        // exchanges that this client may write to
}

// An ending is why the proxy ends a connection.
type ending struct {
	code uint16
	text string
}

func (e *ending) Error() string { return fmt.Sprintf("%d %s", e.code, e.text) }

func newConn(p *Proxy, client net.Conn, in *bufio.Reader, broker net.Conn) *conn {
	c := &conn{
		Proxy: p, client: client, broker: broker, answers: make(chan frame.Frame, 1), gone: make(chan struct{}),
		refusals: map[uint16]frame.Frame{}, begun: map[uint16]frame.Frame{}, checked: map[string]bool{},
		back: frame.Reader{In: bufio.NewReaderSize(broker, bufferSize)}, in: frame.Reader{In: in}, out: bufio.NewWriterSize(broker, bufferSize),
	}
	c.most.Store(firstFrame)
	deadline := time.Now().Add(handshakeWithin) // both are cleared once the virtual host is open
	_, _ = client.SetDeadline(deadline), broker.SetDeadline(deadline)
	return c
}

// stop makes the goroutine that reads from the broker tell the client why its connection ends.
func (c *conn) stop(code uint16, text string) {
	if c.ended.CompareAndSwap(nil, &ending{code, text}) {
		_, _ = c.client.SetWriteDeadline(time.Now().Add(closeWithin)), c.broker.SetReadDeadline(time.Now())
	}
}

// run passes frames until both sides have ended.
func (c *conn) run() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c.ctx = ctx
	var running sync.WaitGroup
	running.Go(func() {
		defer cancel()
		defer close(c.gone)
		c.down()
		closeWrite(c.client)
		soon := time.Now().Add(closeWithin)
		_, _ = c.client.SetReadDeadline(soon), c.broker.SetWriteDeadline(soon)
	})
	err := c.up()
	var why *ending
	if errors.As(err, &why) {
		c.stop(why.code, why.text)
	}
	// Without this the broker forgets what it has read and not stored, also of classic queues.
	ends := c.ended.Load() != nil
	if ends {
		_ = c.broker.SetWriteDeadline(time.Now().Add(closeWithin))
	} else { // the client has gone
		_ = c.broker.SetDeadline(time.Now().Add(takenWithin))
	}
	_, _ = c.out.Write(frame.NewMethod(0, frame.Close, uint16(200), "the connection through delayer ends", uint32(0)))
	_ = c.out.Flush()
	<-c.gone
	if ends && err != nil {
		untilClosed(c.client, &c.in)
	}
	untilClosed(c.broker, &c.back) // it answers once it has taken all of that
	closeWrite(c.broker)
	running.Wait()
}

// untilClosed takes what comes from a peer until it has heard that the connection ends.
func untilClosed(peer net.Conn, in *frame.Reader) {
	_ = peer.SetReadDeadline(time.Now().Add(closeWithin))
	for {
		if f, err := in.Read(largestFrame); err != nil || f.Method() == frame.CloseOK {
			return
		}
	}
}

// patient is a client that is given some time for each write.
type patient struct{ net.Conn }

func (p patient) Write(b []byte) (int, error) {
	if err := p.SetWriteDeadline(time.Now().Add(writeWithin)); err != nil {
		return 0, err
	}
	return p.Conn.Write(b)
}

// down passes the broker's frames to the client.
func (c *conn) down() {
	out := bufio.NewWriterSize(patient{c.client}, bufferSize)
	for {
		f, err := c.back.Read(int(c.most.Load()))
		if err != nil {
			break
		}
		if f = c.fromBroker(f); f != nil {
			if _, err := out.Write(f); err != nil {
				return
			}
		}
		if c.back.In.Buffered() == 0 && out.Flush() != nil {
			return
		}
	}
	if e := c.ended.Load(); e != nil {
		_, _ = out.Write(frame.NewMethod(0, frame.Close, e.code, e.text, uint32(0)))
	}
	_ = out.Flush()
}

// fromBroker returns the frame to pass to the client; nil: none.
func (c *conn) fromBroker(f frame.Frame) frame.Frame {
	if own := c.own.Load(); own != 0 && f.Channel() == uint16(own) {
		select {
		case c.answers <- slices.Clone(f): // one for each question
		default:
		}
		return nil
	}
	switch f.Method() {
	case frame.Tune:
		a := f.Args()
		channels, most, heartbeat := a.Uint16(), a.Uint32(), a.Uint16()
		if most == 0 || most > largestFrame {
			most = largestFrame
		}
		c.most.Store(int64(most))
		c.single.Store(channels == 1)
		return frame.NewMethod(0, frame.Tune, oneLess(channels), most, heartbeat)
	case frame.OpenOK:
		_, _ = c.client.SetReadDeadline(time.Time{}), c.broker.SetDeadline(time.Time{})
		if c.ended.Load() != nil { // it was ended meanwhile
			_ = c.broker.SetReadDeadline(time.Now())
		}
	case frame.CloseOK:
		if c.ended.Load() != nil { // it answers the proxy
			return nil
		}
	case frame.ChannelClose:
		a := f.Args()
		if code, _, method := a.Uint16(), a.Short(), a.Uint32(); code == amqp091.NotFound && frame.Method(method) == frame.Publish {
			c.delayed.forget()
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if ours, is := c.refusals[f.Channel()]; is {
			delete(c.refusals, f.Channel())
			return ours
		}
	}
	return f
}

// oneLess leaves a channel for the proxy, unless there is only one. 0 means that there is no limit.
func oneLess(channels uint16) uint16 {
	switch channels {
	case 0:
		return math.MaxUint16 - 1
	case 1:
		return 1
	}
	return channels - 1
}

// up passes the client's frames to the broker.
func (c *conn) up() error {
	if _, err := c.broker.Write([]byte(header091)); err != nil {
		return err
	}
	for {
		f, err := c.in.Read(int(c.most.Load()))
		switch {
		case errors.Is(err, frame.ErrSize), errors.Is(err, frame.ErrEnd):
			return &ending{amqp091.FrameError, "FRAME_ERROR - delayer: " + err.Error()}
		case err != nil:
			return err
		}
		if c.ended.Load() != nil && f.Method() == frame.CloseOK {
			return nil
		}
		if err := c.fromClient(f); err != nil {
			return err
		}
		if c.in.In.Buffered() == 0 {
			if err := c.out.Flush(); err != nil {
				return err
			}
		}
	}
}

func (c *conn) write(frames ...frame.Frame) error {
	for _, f := range frames {
		if _, err := c.out.Write(f); err != nil {
			return err
		}
	}
	return nil
}

// fromClient passes a frame, or what is in its place.
func (c *conn) fromClient(f frame.Frame) error {
	number := f.Channel()
	if own := c.own.Load(); own != 0 && number == uint16(own) {
		return &ending{amqp091.ChannelError, "CHANNEL_ERROR - delayer: the number of the channel is above channel-max"}
	}
	if publish, is := c.begun[number]; is {
		delete(c.begun, number)
		if f.Type() == frame.TypeHeader {
			return c.publish(publish, f)
		}
		if err := c.write(publish); err != nil { // the broker will say what is wrong
			return err
		}
	}
	a := frame.Fields{}
	method := f.Method()
	if method != 0 {
		a = f.Args()
	}
	switch method {
	case frame.StartOK:
		a.Long()
		if mechanism := a.Short(); strings.EqualFold(mechanism, "EXTERNAL") { // it would be whom our certificate names
			return &ending{amqp091.AccessRefused, "ACCESS_REFUSED - delayer: the broker does not see a client's certificate here, so log in with a password"}
		}
	case frame.TuneOK:
		channels, most, heartbeat := a.Uint16(), int64(a.Uint32()), a.Uint16()
		if offered := c.most.Load(); most == 0 || most > offered {
			most = offered
		}
		c.most.Store(most)
		if channels == 0 {
			channels = math.MaxUint16 - 1
		}
		if channels < math.MaxUint16 && !c.single.Load() {
			channels++
			c.own.Store(uint32(channels))
		}
		return c.write(frame.NewMethod(0, frame.TuneOK, channels, uint32(most), heartbeat)) //nolint:gosec // it was one
	case frame.Open:
		c.vhost = a.Short()
	case frame.ChannelOpen: // what was to be said of one before is of no use any more
		c.mu.Lock()
		delete(c.refusals, number)
		c.mu.Unlock()
	case frame.ExchangeDeclare:
		return c.declare(f, a)
	case frame.ExchangeDelete:
		return c.delete(f, a)
	case frame.ExchangeBind:
		return c.bind(f, a)
	case frame.Publish:
		a.Uint16()
		if c.may(a.Short()) {
			c.begun[number] = slices.Clone(f)
			return nil
		}
		c.Counted(Passed)
	}
	return c.write(f)
}

// may reports whether an exchange may be a delayed one.
func (c *conn) may(exchange string) bool {
	return exchange != "" && c.vhost == c.Vhost && !strings.HasPrefix(exchange, "amq.") &&
		!c.Fronts.Served(exchange) && c.Fronts.Refused(exchange) == ""
}

// publish passes the beginning of a message: the method, and its properties. The body follows.
func (c *conn) publish(method, properties frame.Frame) error {
	a := method.Args()
	reserved, exchange := a.Uint16(), a.Short()
	if !asks(properties.Payload()) {
		c.warnOf(properties.Payload(), exchange)
		c.Counted(Passed)
		return c.write(method, properties)
	}
	is, err := c.delayed.has(c.ctx, exchange)
	if err != nil {
		return c.cannot("look whether an exchange is delayed", exchange, err)
	}
	if !is {
		c.Counted(Passed)
		return c.write(method, properties)
	}
	switch allowed, err := c.mayWrite(exchange, a); {
	case err != nil:
		return err
	case !allowed:
		return c.write(method, unpublishable(properties)) // the broker says why
	}
	front, header := c.Fronts.Of(exchange)
	if header {
		with, err := properties.WithHeader(entry.ExchangeHeader, exchange)
		if err != nil || int64(len(with)) > c.most.Load() {
			c.refuse(properties.Channel(), frame.Publish, amqp091.PreconditionFailed, "PRECONDITION_FAILED - delayer: the headers of a message do not fit into a frame with the name of its exchange")
			return c.write(method, unpublishable(properties))
		}
		properties = with
	}
	c.Counted(Diverted)
	return c.write(frame.NewMethod(method.Channel(), frame.Publish, reserved, front, a.Rest()), properties)
}

// asks reports whether a message's properties ask for a delay. What cannot be read may.
func asks(properties []byte) bool {
	if !bytes.Contains(properties, []byte("x-delay")) { // all begin so
		return false
	}
	fields, err := fieldsOf(properties)
	return err != nil || slices.ContainsFunc(fields, func(f frame.Field) bool { return entry.Delays(f.Name) })
}

// warnOf warns of a message to a delayed exchange whose header is misspelt.
func (c *conn) warnOf(properties []byte, exchange string) {
	if !bytes.Contains(properties, []byte("elay")) && !bytes.Contains(properties, []byte("ELAY")) { // nearly all
		return
	}
	fields, _ := fieldsOf(properties) // the broker says what is wrong
	for _, f := range fields {
		odd := entry.Misspelt(f.Name)
		if odd == "" {
			continue
		}
		if is, err := c.delayed.has(c.ctx, exchange); is && err == nil {
			c.warnings.Warn(c.Log, odd, "exchange", exchange)
		}
	}
}

// fieldsOf are the headers in a message's properties; none if one of them cannot be read.
func fieldsOf(properties []byte) ([]frame.Field, error) {
	table, _, err := frame.Headers(properties)
	if err != nil {
		return nil, err
	}
	return frame.Table(table)
}

// unpublishable returns the properties of a message that has a body as long, but which the broker
// does not take: its expiration is no number. Before it looks at that, it looks whether the user may
// write to the exchange.
func unpublishable(properties frame.Frame) frame.Frame {
	const size, expiration, text = 12, 1 << 8, "\x07delayer" // the first is of class, weight and the size of the body
	p := make([]byte, size, size+len(text)+2)
	copy(p, properties.Payload())
	return frame.New(frame.TypeHeader, properties.Channel(), append(binary.BigEndian.AppendUint16(p, expiration), text...))
}

// mayWrite asks the broker, once for each exchange, whether the client may publish there: the message
// goes elsewhere, and then there with the rights of delayer serve.
func (c *conn) mayWrite(exchange string, rest frame.Fields) (bool, error) {
	if c.checked[exchange] {
		return true, nil
	}
	own := uint16(c.own.Load())
	const class = "\x00\x3c"
	got, err := c.ask(
		frame.NewMethod(own, frame.Publish, uint16(0), exchange, rest.Rest()), // the routing key counts with some brokers
		unpublishable(frame.New(frame.TypeHeader, own, []byte(class+"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"))))
	if err != nil || got.code != amqp091.PreconditionFailed {
		return false, err
	}
	if len(c.checked) >= mostChecked {
		clear(c.checked)
	}
	c.checked[exchange] = true
	return true, nil
}

// A reply is what the broker has answered on the proxy's own channel: code is 0 unless it has closed
// the channel.
type reply struct {
	code uint16
	text string
}

// ask sends a method on the proxy's own channel, and waits for the answer.
func (c *conn) ask(frames ...frame.Frame) (reply, error) {
	own := uint16(c.own.Load())
	if own == 0 {
		return reply{}, &ending{amqp091.NotAllowed, "NOT_ALLOWED - delayer: channel-max leaves no channel for the proxy"}
	}
	if !c.opened {
		if _, err := c.exchange(frame.NewMethod(own, frame.ChannelOpen, "")); err != nil {
			return reply{}, err
		}
		c.opened = true
	}
	got, err := c.exchange(frames...)
	if err != nil || got.Method() != frame.ChannelClose {
		return reply{}, err
	}
	c.opened = false
	a := got.Args()
	return reply{a.Uint16(), a.Short()}, c.write(frame.NewMethod(own, frame.ChannelCloseOK))
}

func (c *conn) exchange(frames ...frame.Frame) (frame.Frame, error) {
	if err := c.write(frames...); err != nil {
		return nil, err
	}
	if err := c.out.Flush(); err != nil {
		return nil, err
	}
	select {
	case got := <-c.answers:
		return got, nil
	case <-c.gone:
		return nil, net.ErrClosed
	}
}

// cannot ends the connection: what the client has sent must neither pass nor be lost in silence.
func (c *conn) cannot(what, exchange string, err error) error {
	if c.ctx.Err() != nil {
		return err
	}
	c.warnings.Warn(c.Log, "a client's connection is ended: it was not possible to "+what, "exchange", exchange, "error", err)
	return &ending{amqp091.InternalError, "INTERNAL_ERROR - delayer cannot " + what + ": its log says why"}
}

// refuse makes the broker close a channel, and tells the client another reason than the broker. Who
// calls it has the broker refuse something on that channel.
func (c *conn) refuse(channel uint16, method frame.Method, code uint16, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refusals[channel] = frame.NewMethod(channel, frame.ChannelClose, code, text, uint32(method))
}

// refused is refuse, and has the broker close the channel for an acknowledgement of nothing.
func (c *conn) refused(channel uint16, method frame.Method, code uint16, format string, args ...any) error {
	c.refuse(channel, method, code, fmt.Sprintf(format, args...))
	return c.write(frame.NewMethod(channel, frame.Ack, uint64(math.MaxUint64), byte(0)))
}

const pluginType = "x-delayed-message"

// declare declares an exchange of the plugin's type as one of the type in its arguments.
func (c *conn) declare(f frame.Frame, a frame.Fields) error {
	const passive, noWait = 1, 1 << 4
	reserved, exchange, kind, bits, args := a.Uint16(), a.Short(), a.Short(), a.Byte(), a.Long()
	fields, err := frame.Table(args)
	if kind != pluginType || bits&passive != 0 || a.Bad || err != nil { // what is bad the broker refuses
		return c.write(f)
	}
	number, rest, inner := f.Channel(), []byte{0, 0, 0, 0}, ""
	for _, field := range fields {
		if field.Name == "x-delayed-type" {
			inner = string(field.Value)
		} else {
			rest = append(rest, field.Raw...)
		}
	}
	binary.BigEndian.PutUint32(rest, uint32(len(rest)-4)) //nolint:gosec // less than a frame
	const failed = "PRECONDITION_FAILED - delayer: exchange '%.80s' "
	switch why := c.Fronts.Refused(exchange); {
	case !slices.Contains(entry.Types, inner):
		return c.refused(number, frame.ExchangeDeclare, amqp091.PreconditionFailed, failed+"needs the argument x-delayed-type: direct, topic, fanout or headers", exchange)
	case c.vhost != c.Vhost:
		return c.refused(number, frame.ExchangeDeclare, amqp091.PreconditionFailed, failed+"cannot be delayed in this virtual host, but in '%.80s'", exchange, c.Vhost)
	case why != "":
		return c.refused(number, frame.ExchangeDeclare, amqp091.PreconditionFailed, failed+"cannot be delayed: %s", exchange, why)
	}
	declared := f // what the client's channel gets; its answer is the client's
	declaration := func(channel uint16, bits byte) frame.Frame {
		return frame.NewMethod(channel, frame.ExchangeDeclare, reserved, exchange, inner, bits, rest)
	}
	got, err := c.ask(declaration(uint16(c.own.Load()), bits&^noWait))
	switch {
	case err != nil:
		return err
	case got.code == amqp091.PreconditionFailed && strings.Contains(got.text, "current is ''"+pluginType+"''"):
		if !c.takeOver {
			return c.write(f) // the plugin delays
		}
	case got.code != 0 || c.Fronts.Served(exchange):
		return c.write(declaration(number, bits)) // the broker says no again, or an entry delays
	default:
		declared = declaration(number, bits)
	}
	if err := c.delayed.put(c.ctx, exchange); err != nil {
		return c.cannot("declare an exchange that delays", exchange, err)
	}
	c.Counted(Declared)
	return c.write(declared)
}

// delete also deletes the exchange in front. The broker answers 'deleted' for one that is not there.
func (c *conn) delete(f frame.Frame, a frame.Fields) error {
	const noWait = 1 << 1
	reserved, exchange, bits := a.Uint16(), a.Short(), a.Byte()
	if a.Bad || !c.may(exchange) {
		return c.write(f)
	}
	is, err := c.delayed.has(c.ctx, exchange)
	if err != nil {
		return c.cannot("look whether an exchange is delayed", exchange, err)
	}
	if !is {
		return c.write(f)
	}
	got, err := c.ask(frame.NewMethod(uint16(c.own.Load()), frame.ExchangeDelete, reserved, exchange, bits&^noWait))
	if err != nil {
		return err
	}
	if got.code == 0 {
		if err := c.delayed.remove(c.ctx, exchange); err != nil {
			return c.cannot("delete an exchange that delays", exchange, err)
		}
	}
	return c.write(f)
}

// bind refuses to lead another exchange to a delayed one.
func (c *conn) bind(f frame.Frame, a frame.Fields) error {
	a.Uint16()
	exchange := a.Short()
	if a.Bad || !c.may(exchange) {
		return c.write(f)
	}
	is, err := c.delayed.has(c.ctx, exchange)
	if err != nil {
		return c.cannot("look whether an exchange is delayed", exchange, err)
	}
	if is {
		return c.refused(f.Channel(), frame.ExchangeBind, amqp091.NotImplemented,
			"NOT_IMPLEMENTED - delayer: what comes to exchange '%.80s' through a binding would not be delayed: publish to it", exchange)
	}
	return c.write(f)
}
