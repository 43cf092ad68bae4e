package broker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/frame"
)

// socket records what is written to it, until it fails.
type socket struct {
	net.Conn
	writes []string
	fails  error
	closed bool
}

func (s *socket) Write(p []byte) (int, error) {
	if s.fails != nil {
		return 0, s.fails
	}
	s.writes = append(s.writes, string(p))
	return len(p), nil
}

func (s *socket) Close() error { s.closed = true; return nil }

func send(t *testing.T, w *wire, text string) {
	t.Helper()
	n, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.Equal(t, len(text), n)
}

// TestWire: messages that wait for one another go out in one write, in order, and nothing stays
// behind when no writer gathers.
func TestWire(t *testing.T) {
	s := &socket{}
	w := &wire{Conn: s}
	one, other := gathering{wire: w}, gathering{wire: w}
	send(t, w, "a")
	require.Equal(t, []string{"a"}, s.writes, "nobody gathers")
	one.begin()
	one.begin()
	send(t, w, "b")
	other.begin()
	send(t, w, "c")
	one.end()
	one.end()
	require.Equal(t, []string{"a", "bc"}, s.writes, "of both")
	send(t, w, "d")
	require.Equal(t, []string{"a", "bc"}, s.writes, "the other still gathers")
	other.end()
	require.Equal(t, []string{"a", "bc", "d"}, s.writes)
	send(t, w, "e")
	one.begin()
	one.end()
	require.Equal(t, []string{"a", "bc", "d", "e"}, s.writes)
}

// TestGathering_Idle: what comes shortly after a write goes out a moment later, together, unless it
// is half of those that are unconfirmed at a time.
func TestGathering_Idle(t *testing.T) {
	s := &socket{}
	w := &wire{Conn: s}
	g := newGathering(w)
	publish := func(text string, unconfirmed int64) (late <-chan time.Time) {
		g.begin()
		send(t, w, text)
		return g.idle(unconfirmed)
	}
	soon := func() { g.ended = time.Now().Add(time.Hour) } // after a write, however slow this test is
	require.Nil(t, publish("a", 1))
	soon()
	require.Nil(t, publish("b", 1))
	require.Equal(t, []string{"a", "b"}, s.writes, "one after the other")

	soon()
	require.Nil(t, publish("c", 4))
	soon()
	require.NotNil(t, publish("d", 4))
	require.Nil(t, publish("e", 4))
	require.Equal(t, []string{"a", "b", "c", "de"}, s.writes, "half of four")

	g.ended = time.Now().Add(-gatherFor)
	require.Nil(t, publish("f", 1))
	require.Equal(t, "f", s.writes[4], "after a pause")

	g.ended = time.Now()
	if late := publish("g", 1); late != nil {
		<-late
		require.Nil(t, g.idle(1))
	}
	require.Equal(t, "g", s.writes[5], "when its time is over")

	for range 200 {
		g.ended = time.Time{}
		require.Nil(t, publish("h", 1))
	}
	soon()
	require.Nil(t, publish("i", 1), "the crowd is forgotten")
	require.Nil(t, g.idle(1), "nothing is gathered")
}

// TestWire_Large: what is gathered is bounded, and goes before a message that is larger.
func TestWire_Large(t *testing.T) {
	s := &socket{}
	w := &wire{Conn: s}
	g := gathering{wire: w}
	g.begin()
	half, large := strings.Repeat("h", mostGathered/2), strings.Repeat("l", mostGathered+1)
	for _, text := range []string{half, half, "x", large, "y"} {
		send(t, w, text)
	}
	require.Equal(t, []string{half + half, "x", large}, s.writes)
	g.end()
	require.Equal(t, "y", s.writes[len(s.writes)-1])
	require.LessOrEqual(t, cap(w.gathered), 2*mostGathered)
}

// TestWire_Fails: amqp091-go learns of a failed write, or the socket is closed.
func TestWire_Fails(t *testing.T) {
	for name, late := range map[string]bool{"while it writes": false, "after it has written": true} {
		t.Run(name, func(t *testing.T) {
			s := &socket{}
			w := &wire{Conn: s}
			g := gathering{wire: w}
			g.begin()
			send(t, w, "x")
			s.fails = errors.New("broken pipe")
			if !late {
				_, err := w.Write(slices.Repeat([]byte("y"), mostGathered))
				require.ErrorIs(t, err, s.fails)
			}
			g.end()
			require.Equal(t, late, s.closed)
		})
	}
}

// properties is a frame with a content type, a table of headers and an id of a message.
func properties(table string) frame.Frame {
	body := append(make([]byte, 12), 0xa0, 0x80, 4)
	body = append(body, "text"...)
	body = append(binary.BigEndian.AppendUint32(body, uint32(len(table))), table...)
	return frame.New(frame.TypeHeader, 1, append(body, "\x02id"...))
}

// sized is text with its length in four bytes in front.
func sized(text string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(text)))) + text
}

// nested is a field of arrays in one another.
func nested(depth int) string {
	field := "V"
	for range depth {
		field = "A" + sized(field)
	}
	return field
}

func TestReadableHeaders(t *testing.T) {
	for name, c := range map[string]struct {
		table    string
		readable bool
	}{
		"empty":          {"", true},
		"types":          {"\x01at\x01\x01bb1\x01cB1\x01ds12\x01eu12\x01fI1234\x01gi1234\x01hl12345678\x01jf1234\x01kd12345678\x01lD12345\x01mT12345678\x01nV", true},
		"sized types":    {"\x01aS" + sized("text") + "\x01bx" + sized("bytes") + "\x01cF" + sized("\x01aV"), true},
		"without a name": {"\x00V", true},
		"deep":           {"\x01a" + nested(32), true},
		"too deep":       {"\x01a" + nested(33), false},
		"wide":           {"\x01aA" + sized(strings.Repeat("V", 8192)), true},
		"too wide":       {"\x01aA" + sized(strings.Repeat("V", 8193)), false},
		"entries":        {strings.Repeat("\x01aV", 8192), true},
		"too many":       {strings.Repeat("\x01aV", 8193), false},
		"unknown type":   {"\x01aL12345678", false},
		"cut off":        {"\x01aI12", false},
		"name only":      {"\x01a", false},
	} {
		t.Run(name, func(t *testing.T) {
			whole := properties(c.table)
			got := withReadableHeaders(bytes.Clone(whole))
			if !c.readable {
				whole = properties("\x14" + UnreadableHeader + "V")
			}
			assert.Equal(t, whole, got)
		})
	}
}

// FuzzReadableHeaders: it never panics, and returns a frame whose headers it takes for readable.
func FuzzReadableHeaders(f *testing.F) {
	f.Add([]byte(properties("\x01a"+nested(33))), "\x01aV")
	f.Fuzz(func(t *testing.T, text []byte, table string) {
		for _, whole := range []frame.Frame{properties(table), append(bytes.Repeat([]byte{2}, frame.Overhead), text...)} {
			once := withReadableHeaders(bytes.Clone(whole))
			require.Equal(t, once, withReadableHeaders(bytes.Clone(once)))
		}
	})
}

// TestAbsent: a queue whose node is down is not one that does not exist.
func TestAbsent(t *testing.T) {
	for reason, absent := range map[string]bool{
		"NOT_FOUND - home node 'rabbit@a' of durable queue 'q' in vhost '/' is down or inaccessible": true,
		"NOT_FOUND - queue 'q' in vhost '/' process is stopped by supervisor":                        true,
		"NOT_FOUND - failed to perform operation on queue 'q' in vhost '/' due to timeout":           true,
		"NOT_FOUND - no queue 'q' in vhost '/'":                                                      false,
		"NOT_FOUND - no exchange 'x' in vhost '/'":                                                   false,
	} {
		err := fmt.Errorf("wrapped: %w", &amqp091.Error{Code: amqp091.NotFound, Server: true, Reason: reason})
		require.Equal(t, absent, Absent(err), reason)
		require.Equal(t, !absent, Code(err) == amqp091.NotFound, reason)
		explained := Explain("declare", "", "queue q", err)
		require.Equal(t, absent, errors.Is(explained, delayer.ErrUnavailable), reason)
		require.Equal(t, !absent, errors.Is(explained, delayer.ErrUnroutable), reason)
	}
	require.False(t, Absent(errors.New("x")))
}

// TestLimited: what is one too many is neither a conflict nor a missing vhost.
func TestLimited(t *testing.T) {
	for reason, code := range map[string]int{
		"PRECONDITION_FAILED - cannot declare queue 'q': queue limit in vhost '/' (5) is reached":                    amqp091.PreconditionFailed,
		"PRECONDITION_FAILED - cannot declare queue 'q': queue limit in cluster (5) is reached":                      amqp091.PreconditionFailed,
		"PRECONDITION_FAILED - cannot declare exchange 'x' in vhost '/': exchange limit of 5 is reached":             amqp091.PreconditionFailed,
		"NOT_ALLOWED - access to vhost '/' refused for user 'guest': connection limit (1) is reached":                amqp091.NotAllowed,
		"NOT_ALLOWED - connection refused for user 'guest': user connection limit (1) is reached":                    amqp091.NotAllowed,
		"NOT_ALLOWED - connection refused for user 'guest': user connection limit 1 is reached":                      amqp091.NotAllowed,
		"NOT_ALLOWED - number of channels opened for user 'guest' has reached the maximum allowed user limit of (1)": amqp091.NotAllowed,
	} {
		err := fmt.Errorf("wrapped: %w", &amqp091.Error{Code: code, Server: true, Reason: reason})
		explained := Explain("declare", "", "queue q", err)
		require.ErrorIs(t, explained, delayer.ErrUnavailable, reason)
		require.ErrorContains(t, explained, "limit", reason)
		require.False(t, permanent(err), reason)
	}
	other := &amqp091.Error{
		Code: amqp091.PreconditionFailed, Server: true,
		Reason: "PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'queue limit' in vhost '/': received none but current is the value '5' of type 'long'",
	}
	require.ErrorIs(t, Explain("declare", "", "queue q", other), delayer.ErrConflict)
}

// TestConnectionLost: what the broker answers when it closes the connection concerns no call of it.
// The call is made again.
func TestConnectionLost(t *testing.T) {
	server := func(code int) error { return fmt.Errorf("wrapped: %w", &amqp091.Error{Code: code, Server: true}) }
	for err, lost := range map[error]bool{
		server(amqp091.ConnectionForced):   true,
		server(amqp091.InternalError):      true,
		server(amqp091.ChannelError):       true, // another channel of it was written to while the broker closed that
		server(amqp091.NotFound):           false,
		server(amqp091.PreconditionFailed): false,
		server(amqp091.NotAllowed):         false,
		amqp091.ErrClosed:                  true,
		io.EOF:                             true,
		errors.New("x"):                    false,
	} {
		require.Equal(t, lost, connectionLost(err), "%v", err)
	}
}
