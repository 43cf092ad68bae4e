package evacuate

import (
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
