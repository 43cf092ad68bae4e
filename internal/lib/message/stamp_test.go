package message

import (
	"strings"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

func TestUnderUserKey(t *testing.T) {
	waits := func(stamp any) *amqp091.Delivery {
		return &amqp091.Delivery{RoutingKey: "waits", DeliveryTag: 7, Headers: amqp091.Table{Stamp: stamp}}
	}
	for _, kept := range []*amqp091.Delivery{
		{RoutingKey: "waits"}, waits(amqp091.Table{}), waits("x"), waits(""), waits("- clock 5"), waits("5:user"), waits("-1:user"),
		waits("x:user"), waits("256:" + strings.Repeat("x", 256)),
	} {
		require.Same(t, kept, UnderUserKey(kept))
	}
	for _, key := range []string{"users", "", "3:a b", strings.Repeat("x", 255)} {
		d := waits(string(AppendUserKey(nil, &key)) + " clock 5")
		under := UnderUserKey(d)
		require.Equal(t, key, under.RoutingKey)
		require.Equal(t, d.DeliveryTag, under.DeliveryTag)
		require.Equal(t, "waits", d.RoutingKey)
	}
}
