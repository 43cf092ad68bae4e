package evacuate

import (
	"context"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/migration/node"
	"github.com/delayer-go/delayer/internal/lib/message"
)

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

func TestStaged_Original(t *testing.T) {
	key, msg, err := newStaged("rabbit@a", row()).original()
	require.NoError(t, err)
	assert.Equal(t, "key", key)
	assert.Equal(t, amqp091.Table{"CC": []any{"cc"}, "BCC": []any{"bcc"}, RowHeader: "00"}, msg.Headers)
	assert.Equal(t, "body", string(msg.Body))
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
