package controller

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller/internal/slots"
)

// TestNewShape_Vhost: that of the URL is in the tickets, which are refused in another.
func TestNewShape_Vhost(t *testing.T) {
	w, _, err := newShape(delayer.Options{URL: "amqp://host/one%2Ftwo", Prefix: "p"}, Config{})
	require.NoError(t, err)
	require.Equal(t, slots.New("one/two", "p", Default().Memory), w)
	require.NotEqual(t, slots.New("/", "p", Default().Memory), w)
}
