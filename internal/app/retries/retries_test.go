package retries

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPick(t *testing.T) {
	list, more := pick([]parked{{"b.parked", 1}, {"a.parked", 1}, {"c.parked", 9}, {".parked", 3}, {"x.parked.y", 3}, {"p.serve.parked.x.parked", 3}}, "p")
	require.Zero(t, more)
	require.Equal(t, []Queue{{Name: "c", Parked: "c.parked", Given: 9}, {Name: "a", Parked: "a.parked", Given: 1}, {Name: "b", Parked: "b.parked", Given: 1}}, list)

	var many []parked
	for i := range Most + 3 {
		many = append(many, parked{fmt.Sprintf("%d.parked", i), i})
	}
	list, more = pick(many, "p")
	require.Len(t, list, Most)
	require.Equal(t, 3, more)
	require.Equal(t, Most+2, list[0].Given)
}

// TestAdd: what the broker does not count is not zero.
func TestAdd(t *testing.T) {
	var q Queue
	var c counted
	require.NoError(t, json.Unmarshal([]byte(`{"messages_ready":1,"messages_unacknowledged":2,"consumers":3}`), &c))
	q.add(c)
	require.Equal(t, Queue{There: true, Ready: 1, Handling: 2, Workers: 3}, q)
	require.NoError(t, json.Unmarshal([]byte(`{"message_stats":{"ack":7,"ack_details":{"rate":0.4}}}`), &c))
	q.add(c)
	require.Equal(t, 7, *q.Ended)
	require.InDelta(t, 0.4, *q.Rate, 0)
}
