package slots

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/backend/controller/internal/settle"
	"github.com/delayer-go/delayer/internal/lib/broker"
)

// TestTenure_LooksAgain: the connection for queues that may have no leader cannot be made, as where
// the user has as many as are permitted. It is made when it can be: until then nothing with a
// ticket is delivered.
func TestTenure_LooksAgain(t *testing.T) {
	made, refused := new(broker.Conn), errors.New("connection limit")
	answers := []error{refused, refused, nil}
	tenure := &tenure{ctx: t.Context(), looking: make(chan *broker.Conn, 1), session: &settle.Session{
		Look: func(context.Context) (*broker.Conn, error) {
			err := answers[0]
			answers = answers[1:]
			if err != nil {
				return nil, err
			}
			return made, nil
		},
	}}
	tenure.looking <- nil
	for range 2 {
		_, err := tenure.look()
		require.ErrorIs(t, err, refused)
	}
	for range 2 {
		conn, err := tenure.look()
		require.NoError(t, err)
		require.Same(t, made, conn)
	}
}
