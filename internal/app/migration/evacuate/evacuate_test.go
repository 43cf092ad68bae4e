package evacuate

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/migration/node"
	"github.com/delayer-go/delayer/internal/lib/message"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// row is a message with one header, CC, that is a list of one key, cc.
func row() node.Row {
	cc := []byte{2, 'C', 'C', 'A', 0, 0, 0, 7, 'S', 0, 0, 0, 2, 'c', 'c'}
	return node.Row{
		ID: "00", Due: 5, Exchange: "x", Keys: []string{"key", "cc", "bcc"}, Body: []byte("body"),
		Properties: append([]byte{0x20, 0, 0, 0, 0, byte(len(cc))}, cc...),
	}
}

func TestStaged_RoundTrip(t *testing.T) {
	s := newStaged("rabbit@a", row())
	msg := s.publishing()
	got, err := parseStaged(msg.Headers, msg.Body)
	require.NoError(t, err)
	assert.Equal(t, s, got)
	assert.NotContains(t, msg.Headers, "CC", "it would route")
	assert.Empty(t, msg.Expiration)
}

// A refusing Delayer publishes nothing.
type refusing struct {
	delayer.Delayer // nil: nothing else is called
	kind            error
}

func (r refusing) Publish(context.Context, string, string, time.Duration, amqp091.Publishing) error {
	return &delayer.Error{Op: "publish", Kind: r.kind}
}

// TestPublish_Final: what concerns one message alone is put aside. What concerns all ends the run,
// or all would be taken out of the plugin for nothing.
func TestPublish_Final(t *testing.T) {
	msg := newStaged("rabbit@a", row()).publishing()
	for kind, aside := range map[error]bool{
		delayer.ErrInvalid: true, delayer.ErrUnroutable: true, delayer.ErrConflict: false, delayer.ErrUnavailable: false,
	} {
		r := &run{Job: Job{Delayer: refusing{kind: kind}}}
		_, why, err := r.publish(t.Context(), amqp091.Delivery{Headers: msg.Headers, Body: msg.Body})
		require.Equal(t, []bool{aside, !aside}, []bool{why != "", err != nil}, "%v", kind)
	}
}

func TestParseStaged_Refuses(t *testing.T) {
	good := newStaged("rabbit@a", row()).publishing().Headers
	for name := range good {
		if !strings.HasPrefix(name, RowHeader) {
			continue
		}
		for _, value := range []any{nil, int32(7), []any{}} {
			bad := amqp091.Table{}
			for k, v := range good {
				bad[k] = v
			}
			bad[name] = value
			_, err := parseStaged(bad, nil)
			require.Error(t, err, "%s: %v", name, value)
		}
	}
}

func TestUnfit(t *testing.T) {
	lim := message.Limits{FrameSize: 128 << 10, User: "guest"}
	for name, c := range map[string]struct {
		change    func(*staged)
		remaining time.Duration
		says      string
	}{
		"fits":       {func(*staged) {}, time.Hour, ""},
		"passed":     {func(*staged) {}, -time.Hour, ""},
		"too long":   {func(*staged) {}, 3 * time.Hour, "the longest delay"},
		"unreadable": {func(s *staged) { s.Properties = []byte{1} }, 0, "cannot be read"},
		"no key":     {func(s *staged) { s.Keys = nil }, 0, "no routing key"},
		"expiration": {func(s *staged) { s.Properties = []byte{0x01, 0, 1, '9'} }, 0, "Expiration"},
		"user":       {func(s *staged) { s.Properties = []byte{0, 0x10, 1, 'u'} }, 0, "UserId"},
		"reserved":   {func(s *staged) { s.Keys[0] = "~d" }, 0, "reserved"},
		"ours":       {func(s *staged) { s.Exchange = "delayer.delivery" }, 0, "begins with the prefix"},
		"large":      {func(s *staged) { s.Exchange = "x"; s.Properties = large() }, 0, "too large"},
	} {
		s := newStaged("rabbit@a", row())
		c.change(&s)
		why := unfit(s, "delayer", c.remaining, 2*time.Hour, lim)
		if c.says == "" {
			assert.Empty(t, why, name)
			continue
		}
		assert.Contains(t, why, c.says, name)
	}
}

// large is properties that fit into a frame, but not with what our queues add.
func large() []byte {
	const size = 130_000
	table := append([]byte{1, 'h', 'S', 0, size >> 16, size >> 8 & 0xFF, size & 0xFF}, make([]byte, size)...)
	n := len(table)
	return append([]byte{0x20, 0, 0, byte(n >> 16), byte(n >> 8), byte(n)}, table...)
}

// TestFitting_Soon: a batch waits while the one before it is published. What is due soon by then
// stays in the plugin, and comes once.
func TestFitting_Soon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &run{Job: Job{Leave: time.Minute}, clocks: map[string]node.Clock{"rabbit@a": {Node: 1000, Local: time.Now()}}}
		time.Sleep(30 * time.Second)
		due := int64(1000) + (89 * time.Second).Milliseconds()
		require.Empty(t, r.fitting("rabbit@a", []node.Row{{ID: "soon", Due: due}}))
		require.Empty(t, r.account.Left)
	})
}

// acks are the tags that were acknowledged; negative: with all before.
type acks []int

func (a *acks) Ack(tag uint64, multiple bool) error {
	if multiple {
		*a = append(*a, -int(tag)) //nolint:gosec // a small number
		return nil
	}
	*a = append(*a, int(tag)) //nolint:gosec // a small number
	return nil
}

func (*acks) Nack(uint64, bool, bool) error { return nil }
func (*acks) Reject(uint64, bool) error     { return nil }

func TestAcknowledge(t *testing.T) {
	for name, c := range map[string]struct {
		done  []bool
		whole bool
		want  acks
	}{
		"whole":     {[]bool{true, true, true}, true, acks{-3}},
		"not whole": {[]bool{true, true, true}, false, acks{1, 2, 3}},
		"failed":    {[]bool{true, false, true}, false, acks{1, 3}},
	} {
		got := &acks{}
		var chunk []amqp091.Delivery
		for i := range c.done {
			chunk = append(chunk, amqp091.Delivery{Acknowledger: got, DeliveryTag: uint64(i + 1)}) //nolint:gosec // small
		}
		require.NoError(t, acknowledge(chunk, c.done, c.whole), name)
		assert.Equal(t, &c.want, got, name)
	}
}
