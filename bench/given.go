package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/delayer-go/delayer/internal/amqpclient"
)

// errNotOurs is why a given broker's processor time and memory are not known.
var errNotOurs = errors.New("the broker is not ours to measure")

// given is a broker that somebody else runs.
type given struct{ product, version, how string }

// Given connects to the broker at url once, to see that it answers and what it is. how says where
// the URL came from. The error says what to do, and never contains the password.
func Given(ctx context.Context, url, how string) (Target, error) {
	conn, err := amqpclient.Dial(ctx, url, "bench")
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.CloseDeadline(time.Now().Add(closeTimeout)) }()
	said := func(key string) string {
		if text, ok := conn.Properties[key].(string); ok {
			return text
		}
		return fmt.Sprintf("(unknown %s)", key)
	}
	return given{said("product"), said("version"), how}, nil
}

func (g given) Product() string           { return g.product }
func (g given) Version() string           { return g.version }
func (g given) How() string               { return g.how }
func (given) Owned() bool                 { return false }
func (given) CPU() (time.Duration, error) { return 0, errNotOurs }
func (given) RSS() (int64, error)         { return 0, errNotOurs }
