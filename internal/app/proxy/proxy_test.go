package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/delayer-go/delayer/internal/lib/frame"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fronts are in front of exchanges whose names begin with delayed.
type fronts struct{}

func (fronts) Of(exchange string) (string, bool)    { return "front." + exchange, false }
func (fronts) Refused(string) string                { return "" }
func (fronts) Served(string) bool                   { return false }
func (fronts) Put(context.Context, string) error    { return errors.New("no broker") }
func (fronts) Remove(context.Context, string) error { return nil }
func (fronts) Has(_ context.Context, exchange string) (bool, error) {
	if exchange == "unknown" {
		return false, errors.New("no broker")
	}
	return strings.HasPrefix(exchange, "delayed"), nil
}

// A rig is a proxy between tests and a broker that is none: it opens and closes what it is asked to,
// and keeps all other frames.
type rig struct {
	*testing.T
	address string
	stop    func() // and wait
	log     chan string
	got     chan frame.Frame
}

// lines are those of a log.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

func newRig(t *testing.T, channels uint16, change func(*Config)) rig {
	t.Helper()
	broker, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := rig{T: t, got: make(chan frame.Frame, 1000), log: make(chan string, 100)}
	var running sync.WaitGroup
	serving := r
	running.Go(func() {
		for {
			conn, err := broker.Accept()
			if err != nil {
				return
			}
			running.Go(func() { serving.serve(conn, channels); _ = conn.Close() })
		}
	})
	cfg := DefaultConfig()
	cfg.Listen = "127.0.0.1:0"
	if change != nil {
		change(&cfg)
	}
	require.NoError(t, cfg.Check())
	p, err := Open(t.Context(), cfg, Parts{
		Dial: func(ctx context.Context, _ bool) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", broker.Addr().String())
		},
		Fronts: fronts{}, Vhost: "/", Counted: func(string) {}, Connected: func(int) {}, Log: slog.New(slog.NewTextHandler(lines(r.log), nil)),
	})
	require.NoError(t, err)
	r.address = p.listener.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	running.Go(func() { p.Serve(ctx) })
	r.stop = sync.OnceFunc(func() { cancel(); _ = broker.Close(); running.Wait() })
	t.Cleanup(r.stop)
	return r
}

func (r rig) serve(conn net.Conn, channels uint16) {
	in := bufio.NewReader(conn)
	head := make([]byte, 8)
	if _, err := io.ReadFull(in, head); err != nil {
		return
	}
	if string(head) != header091 { // of AMQP 1.0: all comes back
		_, _ = conn.Write(head)
		_, _ = io.Copy(conn, in)
		return
	}
	frames := frame.Reader{In: in}
	write := func(f frame.Frame) { _, _ = conn.Write(f) }
	write(frame.NewMethod(0, frame.Start, byte(0), byte(9), uint32(0), []byte("\x00\x00\x00\x05PLAIN\x00\x00\x00\x05en_US")))
	for {
		f, err := frames.Read(largestFrame)
		if err != nil {
			return
		}
		switch f.Method() {
		case frame.StartOK:
			write(frame.NewMethod(0, frame.Tune, channels, uint32(firstFrame), uint16(0)))
		case frame.Open:
			write(frame.NewMethod(0, frame.OpenOK, ""))
		case frame.ChannelOpen:
			write(frame.NewMethod(f.Channel(), frame.ChannelOpenOK, uint32(0)))
		case frame.Close:
			write(frame.NewMethod(0, frame.CloseOK))
			return
		case frame.ExchangeDeclare:
			write(frame.NewMethod(f.Channel(), frame.ExchangeDeclare+1))
		case frame.Publish: // the proxy's own is allowed
			if channels == 0 && f.Channel() == 65535 {
				write(frame.NewMethod(f.Channel(), frame.ChannelClose, uint16(amqp.PreconditionFailed), "invalid expiration", uint32(frame.Publish)))
			}
			fallthrough
		default:
			r.got <- slices.Clone(f)
		}
	}
}

func (r rig) dial() (*amqp.Connection, error) {
	return amqp.DialConfig("amqp://guest:guest@"+r.address+"/", amqp.Config{Heartbeat: time.Hour})
}

// raw is a connection on which the test speaks itself.
func (r rig) raw(first string) net.Conn {
	r.Helper()
	conn, err := net.Dial("tcp", r.address)
	require.NoError(r, err)
	require.NoError(r, conn.SetDeadline(time.Now().Add(time.Minute)))
	r.Cleanup(func() { _ = conn.Close() })
	_, err = conn.Write([]byte(first))
	require.NoError(r, err)
	return conn
}

// until returns the frame with a method, of those that come.
func (r rig) until(conn net.Conn, m frame.Method) frame.Frame {
	r.Helper()
	in := frame.Reader{In: bufio.NewReader(conn)}
	for {
		f, err := in.Read(largestFrame)
		require.NoError(r, err)
		if f.Method() == m {
			return slices.Clone(f)
		}
	}
}

func startOK(mechanism string) frame.Frame {
	return frame.NewMethod(0, frame.StartOK, uint32(0), mechanism, []byte("\x00\x00\x00\x0c\x00guest\x00guest"), "en_US")
}

func TestProxy_Limit(t *testing.T) {
	r := newRig(t, 0, func(c *Config) { c.MaxConnections = 1 })
	first, err := r.dial()
	require.NoError(t, err)
	_, err = r.dial()
	require.ErrorContains(t, err, "max_connections")
	var refused *amqp.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, amqp.NotAllowed, refused.Code)
	require.NoError(t, first.Close())
	require.Eventually(t, func() bool {
		conn, err := r.dial()
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, time.Minute, 10*time.Millisecond)
}

func TestProxy_NoBroker(t *testing.T) {
	r := newRig(t, 0, nil)
	p, err := Open(t.Context(), Config{Listen: "127.0.0.1:0", MaxConnections: 1}, Parts{
		Dial:   func(context.Context, bool) (net.Conn, error) { return nil, errors.New("no broker") },
		Fronts: fronts{}, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { p.Serve(ctx) })
	defer running.Wait()
	defer cancel()
	r.address = p.listener.Addr().String()
	_, err = r.dial()
	require.ErrorContains(t, err, "the broker cannot be reached")
}

// TestProxy_BadClients: none of them affects another, and each hears why, if it can.
func TestProxy_BadClients(t *testing.T) {
	r := newRig(t, 0, nil)
	good, err := r.dial()
	require.NoError(t, err)
	ch, err := good.Channel()
	require.NoError(t, err)

	begin := header091 + string(startOK("PLAIN")) + string(frame.NewMethod(0, frame.TuneOK, uint16(0), uint32(0), uint16(0))) + string(frame.NewMethod(0, frame.Open, "/", "", byte(0)))
	for name, c := range map[string]struct {
		sent string
		code uint16
	}{
		"EXTERNAL":          {header091 + string(startOK("external")), amqp.AccessRefused},
		"a frame too large": {begin + "\x03\x00\x01\x7f\xff\xff\xff", amqp.FrameError},
		"no end":            {begin + "\x08\x00\x00\x00\x00\x00\x00\x00", amqp.FrameError},
		"our channel":       {begin + string(frame.NewMethod(65535, frame.ChannelOpen, "")), amqp.ChannelError},
		"no answer": {begin + string(frame.NewMethod(1, frame.Publish, uint16(0), "unknown", "", byte(0))) +
			string(frame.New(frame.TypeHeader, 1, []byte("\x00\x3c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x20\x00\x00\x00\x00\x09\x07x-delayV"))), amqp.InternalError},
		"cannot declare": {begin + string(frame.NewMethod(1, frame.ExchangeDeclare, uint16(0), "x", pluginType, byte(0), []byte("\x00\x00\x00\x1a\x0ex-delayed-typeS\x00\x00\x00\x06fanout"))), amqp.InternalError},
	} {
		f := r.until(r.raw(c.sent), frame.Close)
		a := f.Args()
		require.Equal(t, c.code, a.Uint16(), name)
		require.Contains(t, a.Short(), "delayer", name)
	}
	old := r.raw("AMQP\x01\x01\x08\x00")
	answer, err := io.ReadAll(old)
	require.NoError(t, err)
	require.Equal(t, header091, string(answer))
	half := r.raw(begin + string(frame.NewMethod(1, frame.ChannelOpen, ""))[:9])
	require.NotNil(t, half)
	modern := r.raw("AMQP\x03\x01\x00\x00" + strings.Repeat("x", 100_000))
	require.NoError(t, modern.(*net.TCPConn).CloseWrite())
	answer, err = io.ReadAll(modern)
	require.NoError(t, err)
	require.Equal(t, "AMQP\x03\x01\x00\x00"+strings.Repeat("x", 100_000), string(answer))

	require.NoError(t, ch.Publish("orders", "key", false, false, amqp.Publishing{Body: []byte("the last")}))
	r.bodies("the last")
	require.NoError(t, good.Close())
}

// bodies waits for a body with this text.
func (r rig) bodies(text string) {
	r.Helper()
	for {
		select {
		case f := <-r.got:
			if bytes.Equal(f.Payload(), []byte(text)) {
				return
			}
		case <-time.After(time.Minute):
			require.FailNow(r, "nothing comes")
		}
	}
}

// TestProxy_Frames: the order on a channel is kept, what has no delay passes as it is, and frames of
// other channels may come between those of a message.
func TestProxy_Frames(t *testing.T) {
	r := newRig(t, 0, nil)
	method := func(channel uint16, exchange string) frame.Frame {
		return frame.NewMethod(channel, frame.Publish, uint16(0), exchange, "key", byte(1))
	}
	header := func(channel uint16, headers string) frame.Frame {
		p := append([]byte("\x00\x3c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x20\x00\x00\x00\x00"), byte(len(headers)))
		return frame.New(frame.TypeHeader, channel, append(p, headers...))
	}
	body := func(channel uint16) frame.Frame { return frame.New(3, channel, []byte("x")) }
	const asks, plain, inside = "\x07x-delayI\x00\x00\x00\x05", "\x01aV", "\x01aS\x00\x00\x00\x07x-delay"
	heartbeat := frame.New(8, 0, nil)
	open := header091 + string(startOK("PLAIN")) + string(frame.NewMethod(0, frame.TuneOK, uint16(0), uint32(0), uint16(0))) + string(frame.NewMethod(0, frame.Open, "/", "", byte(0)))
	sent := []frame.Frame{
		method(1, "delayed"), method(2, "delayed"), header(1, asks), body(1), header(2, plain), heartbeat, body(2),
		method(1, "orders"), header(1, asks), body(1), method(1, "delayed"), header(1, inside), body(1),
		method(1, "delayed"), header(1, asks), body(1), method(1, ""), header(1, asks), body(1),
	}
	conn := r.raw(open)
	r.until(conn, frame.OpenOK)
	_, err := conn.Write(slices.Concat(sent...))
	require.NoError(t, err)
	want := slices.Clone(sent)
	want[0], want[13] = method(1, "front.delayed"), method(1, "front.delayed")
	want = append([]frame.Frame{want[0], want[2], want[3], want[1]}, want[4:]...)
	checks := 0
	for i := 0; i < len(want); {
		select {
		case f := <-r.got:
			if f.Method() == frame.TuneOK || f.Channel() == 65535 { // of the handshake, and the proxy's own
				if f.Method() == frame.Publish {
					checks++
				}
				continue
			}
			require.Equal(t, want[i], f, "%d", i)
			i++
		case <-time.After(time.Minute):
			require.FailNow(t, "nothing comes")
		}
	}
	require.Equal(t, 1, checks, "the broker is asked once whether the client may write there")
}

// TestProxy_Misspelt: a message that goes at once because of a misspelt header is warned of, to a
// delayed exchange only.
func TestProxy_Misspelt(t *testing.T) {
	r := newRig(t, 0, nil)
	conn, err := r.dial()
	require.NoError(t, err)
	defer conn.Close() //nolint:errcheck // the test is over
	ch, err := conn.Channel()
	require.NoError(t, err)
	for exchange, name := range map[string]string{"orders": "X_DELAY", "delayed": "X-Delay"} {
		require.NoError(t, ch.Publish(exchange, "key", false, false, amqp.Publishing{Headers: amqp.Table{name: int32(5000)}, Body: []byte(exchange)}))
		r.bodies(exchange)
	}
	for {
		line := <-r.log
		require.NotContains(t, line, "orders")
		if strings.Contains(line, `header \"X-Delay\" is not known (write \"x-delay\"): such a message goes at once`) {
			require.Contains(t, line, "exchange=delayed")
			return
		}
	}
}

// TestProxy_Stops: what a client has sent before it hears that its connection ends passes.
func TestProxy_Stops(t *testing.T) {
	r := newRig(t, 2047, nil)
	conn, err := r.dial()
	require.NoError(t, err)
	require.Equal(t, uint16(2046), conn.Config.ChannelMax)
	closed := conn.NotifyClose(make(chan *amqp.Error, 1))
	silent := r.raw("AM") // and half a header
	ch, err := conn.Channel()
	require.NoError(t, err)
	require.NoError(t, ch.Publish("orders", "key", false, false, amqp.Publishing{Body: []byte("before")}))
	r.stop()
	why := <-closed
	require.Equal(t, amqp.ConnectionForced, why.Code)
	require.Equal(t, "CONNECTION_FORCED - delayer: it is shutting down", why.Reason)
	r.bodies("before")
	rest, _ := io.ReadAll(silent)
	require.Empty(t, rest)
	_, err = net.Dial("tcp", r.address)
	require.Error(t, err, "nobody listens any more")
}

// TestProxy_OneChannel: with a single one, all but delays goes on.
func TestProxy_OneChannel(t *testing.T) {
	r := newRig(t, 1, nil)
	conn, err := r.dial()
	require.NoError(t, err)
	ch, err := conn.Channel()
	require.NoError(t, err)
	require.NoError(t, ch.Publish("delayed", "key", false, false, amqp.Publishing{Body: []byte("passes")}))
	r.bodies("passes")
	closed := conn.NotifyClose(make(chan *amqp.Error, 1))
	require.NoError(t, ch.Publish("delayed", "key", false, false, amqp.Publishing{Headers: amqp.Table{"x-delay": 1}}))
	require.Contains(t, (<-closed).Reason, "channel-max")
}
