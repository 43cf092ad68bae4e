package evacuate

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/migration/node"
)

// row is a message with one header, CC, that is a list of one key, cc.
func row(id string, due int64) node.Row {
	cc := []byte{2, 'C', 'C', 'A', 0, 0, 0, 7, 'S', 0, 0, 0, 2, 'c', 'c'}
	return node.Row{
		ID: id, Due: due, Exchange: "x", Keys: []string{"key", "cc", "bcc"}, Body: []byte("body"),
		Properties: append([]byte{0x20, 0, 0, 0, 0, byte(len(cc))}, cc...),
	}
}

func TestAsPublished(t *testing.T) {
	m, err := asPublished(row("00", 5))
	require.NoError(t, err)
	require.Equal(t, delayer.Message{Exchange: "x", Key: "key", Publishing: amqp091.Publishing{
		Headers: amqp091.Table{"CC": []any{"cc"}, "BCC": []any{"bcc"}, RowHeader: "00"}, Body: []byte("body"),
	}}, m)
	for says, bad := range map[string]node.Row{
		"no routing key":              {},
		"the node cannot read it: ?":  {Unreadable: "?"},
		"its properties cannot be re": {Keys: []string{"k"}, Properties: []byte{1}},
	} {
		_, err := asPublished(bad)
		require.ErrorContains(t, err, says)
	}
}

// An answering Delayer answers each message by its row's id.
type answering struct {
	delayer.Delayer // nil: nothing else is called
	errs            map[string]error
	delays          map[string]time.Duration
}

func (a answering) PublishBatch(_ context.Context, messages []delayer.Message) []error {
	results := make([]error, len(messages))
	for i, m := range messages {
		id := m.Publishing.Headers[RowHeader].(string)
		a.delays[id] = m.Delay
		if kind := a.errs[id]; kind != nil {
			results[i] = &delayer.Error{Op: "publish", Kind: kind}
		}
	}
	return results
}

// A table is a job's nodes, of which rows are removed.
type table struct {
	Nodes   // nil: nothing else is called
	removed []string
}

func (t *table) Remove(_ context.Context, _, _ string, rows []node.Row) (int, error) {
	for _, r := range rows {
		t.removed = append(t.removed, r.ID)
	}
	return len(rows), nil
}

// TestMove: what the Delayer has is removed, also when the run ends. What concerns one message alone
// leaves that in the plugin. What concerns all ends the run. What is due soon by now is the plugin's.
func TestMove(t *testing.T) {
	for kind, stays := range map[error]bool{
		delayer.ErrInvalid: true, delayer.ErrUnroutable: true, delayer.ErrConflict: false, delayer.ErrUnavailable: false,
	} {
		synctest.Test(t, func(t *testing.T) {
			to, from := answering{errs: map[string]error{"no": kind}, delays: map[string]time.Duration{}}, &table{}
			j, a := Job{Nodes: from, Delayer: to, Leave: time.Minute}, Account{Left: map[string]int{}}
			batch := node.Batch{Clock: node.Clock{Node: 1000, Local: time.Now()}}
			for id, seconds := range map[string]int64{"soon": 89, "no": 91, "yes": 92} {
				batch.Rows = append(batch.Rows, row(id, 1000+seconds*1000))
			}
			time.Sleep(30 * time.Second)
			err := j.move(t.Context(), "rabbit@a", batch, &a)
			require.Equal(t, []string{"yes"}, from.removed)
			require.Equal(t, 1, a.Moved)
			require.Equal(t, map[string]time.Duration{"no": 61 * time.Second, "yes": 62 * time.Second}, to.delays)
			if stays {
				require.NoError(t, err)
				require.Len(t, a.Left, 1)
			} else {
				require.ErrorIs(t, err, kind)
				require.Empty(t, a.Left)
			}
		})
	}
}
