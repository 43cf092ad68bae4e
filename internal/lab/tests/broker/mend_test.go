package broker_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// failing is a test that has failed, and whose cleanups run when it is told to end.
type failing struct {
	testing.TB
	cleanups []func()
}

func (f *failing) Failed() bool     { return true }
func (f *failing) Cleanup(c func()) { f.cleanups = append(f.cleanups, c) }

// TestAlone_AfterAFailure: a test that fails with the broker paused does not fail the next one.
func TestAlone_AfterAFailure(t *testing.T) {
	if !rabbittest.Broker(t).Owned() {
		rabbittest.Skipf(t, "needs a broker of the tests' own, which is mended")
	}
	f := &failing{TB: t}
	b := rabbittest.Alone(f)
	p, c := open(t, b.URL(), noReset)
	require.NoError(t, b.Pause())
	for _, cleanup := range f.cleanups {
		cleanup()
	}
	require.NoError(t, p.Publish(within(t), to(declare(t, c, nil))))
}
