package retry

import (
	"context"
	"time"

	"github.com/delayer-go/delayer/internal/attempt"
)

// An Attempt is what a handler may know of the attempt that it makes.
type Attempt struct {
	Number       int       // from 1
	Max          int       // the last attempt has this number
	FirstFailure time.Time // zero at the first attempt
	LastError    string    // of the attempt before: valid UTF-8, at most 500 bytes
	// UserID is the message's user-id at its first attempt. From the second attempt on the broker has
	// not checked it, and the delivery does not have it.
	UserID string
}

type infoKey struct{}

// Info returns the attempt that the handler with this ctx makes; a zero Attempt if none does.
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
