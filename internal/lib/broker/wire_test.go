package broker

import (
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
