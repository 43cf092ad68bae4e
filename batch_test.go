package delayer_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
)

// TestPublishBatch_OneByOne: a Delayer of somebody else's need not be able to.
func TestPublishBatch_OneByOne(t *testing.T) {
	r := recorder{fails: map[string]error{"b": delayer.ErrRefused}}
	messages := []delayer.Message{{Key: "a", Delay: time.Second}, {Exchange: "x", Key: "b"}, {Key: "c"}}
	require.Equal(t, []error{nil, delayer.ErrRefused, nil}, delayer.PublishBatch(t.Context(), &r, messages))
	require.Equal(t, messages, r.messages)
	require.Empty(t, delayer.PublishBatch(t.Context(), &r, nil))
}

type batcher struct{ *recorder }

func (b batcher) PublishBatch(context.Context, []delayer.Message) []error {
	return []error{delayer.ErrUnknown}
}

func TestPublishBatch_ByTheDelayer(t *testing.T) {
	b := batcher{&recorder{}}
	require.Equal(t, []error{delayer.ErrUnknown}, delayer.PublishBatch(t.Context(), b, make([]delayer.Message, 1)))
	require.Empty(t, b.messages)
}
