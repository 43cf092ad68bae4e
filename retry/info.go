package retry

import (
	"context"
	"time"

	"github.com/delayer-go/delayer/internal/lib/attempt"
)

// An Attempt describes one run of the handler for a message.
type Attempt struct {
	Number       int       // from 1
	Max          int       // the number of the last attempt
	FirstFailure time.Time // zero at the first attempt
	LastError    string    // of the previous attempt: valid UTF-8, at most 500 bytes
	// UserID is the user-id that the message had at its first attempt. Trust it at the first
	// attempt only: later the broker has not checked it.
	UserID string
}

type infoKey struct{}

// Info returns the attempt of the handler that was given ctx, or a zero Attempt.
func Info(ctx context.Context) Attempt {
	a, _ := ctx.Value(infoKey{}).(*Attempt)
	if a == nil {
		return Attempt{}
	}
	return *a
}

func withInfo(ctx context.Context, s attempt.State, most int) context.Context {
	return context.WithValue(ctx, infoKey{}, &Attempt{
		Number: s.Failures + 1, Max: most, FirstFailure: s.First, LastError: s.LastError(), UserID: s.Original.UserID,
	})
}
