package rabbit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// starting is a node that takes connections, and answers rabbitmqctl after some attempts.
type starting struct {
	host
	answers []error
}

func (s *starting) ctl(context.Context, ...string) (string, error) {
	err := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	return "said", err
}

// TestCtl_ANodeThatIsStarting: rabbitmqctl refuses one that has just answered over AMQP.
func TestCtl_ANodeThatIsStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		not := errors.New("exit status 64: Error: this command requires the 'rabbit' app to be running on the target node")
		other := errors.New("exit status 70")
		for _, c := range []struct {
			answers []error
			want    error
		}{
			{[]error{nil}, nil}, {[]error{not, not, nil}, nil}, {[]error{not, other}, other}, {[]error{other, nil}, other}, {[]error{not}, not},
		} {
			out, err := (&Broker{host: &starting{answers: c.answers}}).Ctl(t.Context(), "status")
			require.Equal(t, c.want, err)
			require.Equal(t, "said", out)
		}
	})
}
