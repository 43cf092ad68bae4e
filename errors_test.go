package delayer_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
)

func TestErrorSaysWhatFailedOnWhatWhyAndWhatToDo(t *testing.T) {
	err := &delayer.Error{
		Op: "publish", Backend: "binaryladder", Object: `queue "orders"`, Kind: delayer.ErrUnroutable,
		Cause: errors.New("404 NOT_FOUND"), Hint: "declare it first",
	}
	require.EqualError(t, err, `delayer: publish binaryladder queue "orders": unroutable: 404 NOT_FOUND (declare it first)`)
	require.EqualError(t, &delayer.Error{Op: "close"}, "delayer: close")
	require.EqualError(t, &delayer.Error{Kind: delayer.ErrAccess, Cause: errors.New("403")}, "delayer: access refused: 403")
}

func TestSafeToRetry(t *testing.T) {
	of := func(kind, cause error) error {
		return fmt.Errorf("wrapped: %w", &delayer.Error{Op: "publish", Kind: kind, Cause: cause})
	}
	for _, kind := range []error{
		delayer.ErrInvalid, delayer.ErrOutOfRange, delayer.ErrUnroutable, delayer.ErrRefused, delayer.ErrNotSent,
		delayer.ErrClosed, delayer.ErrAccess, delayer.ErrConflict,
	} {
		require.True(t, delayer.SafeToRetry(of(kind, nil)), "%v", kind)
		require.ErrorIs(t, of(kind, nil), kind)
	}
	require.True(t, delayer.SafeToRetry(of(delayer.ErrNotSent, context.Canceled)))
	require.ErrorIs(t, of(delayer.ErrNotSent, context.Canceled), context.Canceled)
	require.False(t, delayer.SafeToRetry(of(delayer.ErrUnknown, context.Canceled)))
	require.False(t, delayer.SafeToRetry(nil))
	require.False(t, delayer.SafeToRetry(errors.New("not of this package")))
}
