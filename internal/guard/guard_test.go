package guard

import (
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
)

// harm is a policy that one source finds.
type harm struct {
	set, clear func(*fakeBroker)
	want       string
}

var harms = map[string]harm{
	"waiting probes": {
		set:   func(b *fakeBroker) { b.ttl = 3 * time.Second },
		clear: func(b *fakeBroker) { b.ttl = 0 },
		want:  `conflicts with what the broker holds: a message left it after at most 3s instead of 24h0m0s (expired): is there a policy with message-ttl`,
	},
	"alternate exchange": {
		set:   func(b *fakeBroker) { b.alternate = true },
		clear: func(b *fakeBroker) { b.alternate = false },
		want:  `exchange "p.watch": conflicts with what the broker holds: an alternate exchange takes its unroutable messages: is there a policy with alternate-exchange?`,
	},
	"overflow": {
		set:   func(b *fakeBroker) { b.overflow = true },
		clear: func(b *fakeBroker) { b.overflow = false },
		want:  `queue "p.watch.full": conflicts with what the broker holds: it does not refuse messages when it is full: is there a policy with overflow?`,
	},
	"management API": {
		set:   func(b *fakeBroker) { b.inspect = conflict("a policy sets expires") },
		clear: func(b *fakeBroker) { b.inspect = nil },
		want:  "a policy sets expires",
	},
}

// long is more than any source needs to find a fault, or to lift it.
const long = 3 * time.Minute

func eachHarm(t *testing.T, act func(t *testing.T, s *scene, h harm)) {
	t.Helper()
	for name, h := range harms {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, s *scene) { act(t, s, h) })
		})
	}
}

// TestGuard_FoundLiftedRefound: a policy may be set again.
func TestGuard_FoundLiftedRefound(t *testing.T) {
	eachHarm(t, func(t *testing.T, s *scene, h harm) {
		after(time.Hour)
		require.Nil(t, s.guard.Fault())
		for times := 1; times <= 2; times++ {
			s.set(h.set)
			after(long)
			require.ErrorIs(t, s.guard.Fault(), delayer.ErrConflict)
			require.ErrorContains(t, s.guard.Fault(), h.want)
			after(10 * time.Minute)
			require.NotNil(t, s.guard.Fault())
			s.requireLogged(t, times, times-1)
			s.set(h.clear)
			after(long)
			require.Nil(t, s.guard.Fault())
			after(time.Hour)
			s.requireLogged(t, times, times)
		}
	})
}

// TestGuard_UnknownChangesNothing: neither a fault nor its absence. Issue 9, A1 (d): the API
// answers 503.
func TestGuard_UnknownChangesNothing(t *testing.T) {
	eachHarm(t, func(t *testing.T, s *scene, h harm) {
		fail := func(err error) func(*fakeBroker) {
			return func(b *fakeBroker) {
				b.down = err
				if err != nil {
					b.inspect = err
				} else {
					b.inspect = nil
				}
			}
		}
		s.set(fail(unavailable))
		after(time.Hour)
		require.Nil(t, s.guard.Fault())
		s.set(fail(nil))
		s.set(h.set)
		after(long)
		require.NotNil(t, s.guard.Fault())
		s.set(fail(unavailable))
		after(time.Hour)
		require.NotNil(t, s.guard.Fault())
		s.requireLogged(t, 1, 0)
		s.set(h.clear)
		s.set(fail(nil))
		after(long)
		require.Nil(t, s.guard.Fault())
		s.requireLogged(t, 1, 1)
	})
}

// TestGuard_OnlyItsOwnEvidenceLifts: what one source finds, the others do not know of.
func TestGuard_OnlyItsOwnEvidenceLifts(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		s.set(harms["management API"].set)
		after(long)
		s.set(func(b *fakeBroker) { b.hangs = true })
		after(time.Hour)
		require.NotNil(t, s.guard.Fault(), "the probes find nothing, and do not lift it")
		s.requireLogged(t, 1, 0)
	})
}

// TestGuard_ManagementAlone: issue 9, A1 (c). The user may not send probes, so only the API finds
// and lifts a fault.
func TestGuard_ManagementAlone(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		s.set(func(b *fakeBroker) {
			b.down = &amqp091.Error{Code: amqp091.AccessRefused, Server: true, Reason: "ACCESS_REFUSED - access to queue 'p.watch.1' in vhost '/' refused"}
		})
		after(time.Minute)
		attempts := s.attempts
		s.set(harms["management API"].set)
		after(time.Minute)
		require.NotNil(t, s.guard.Fault())
		s.set(harms["management API"].clear)
		after(time.Minute)
		require.Nil(t, s.guard.Fault())
		found, lifted, warnings := s.logged()
		require.Equal(t, []int{1, 1, 1}, []int{found, lifted, warnings}, s.log.String())
		require.Contains(t, s.log.String(), "the user may not configure, write and read names that begin with p.watch")
		require.Equal(t, attempts, s.attempts, "each attempt costs a channel")
	})
}

// TestGuard_AccessToSomethingElse: a channel was closed because of another's message.
func TestGuard_AccessToSomethingElse(t *testing.T) {
	for name, err := range map[string]error{
		"exchange":    &amqp091.Error{Code: amqp091.AccessRefused, Server: true, Reason: "ACCESS_REFUSED - access to exchange 'orders' in vhost '/' refused"},
		"credentials": amqp091.ErrCredentials,
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, s *scene) {
				s.set(func(b *fakeBroker) { b.down = err })
				after(time.Minute)
				s.set(func(b *fakeBroker) { b.down = nil })
				s.set(harms["waiting probes"].set)
				after(long)
				require.NotNil(t, s.guard.Fault())
				s.requireLogged(t, 1, 0)
			})
		})
	}
}

// TestGuard_ForbiddenWhileAFaultStands: its source goes on, so that it can lift it.
func TestGuard_ForbiddenWhileAFaultStands(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		s.set(harms["overflow"].set)
		after(time.Minute)
		s.set(func(b *fakeBroker) {
			b.down = &amqp091.Error{Code: amqp091.AccessRefused, Server: true, Reason: "access to exchange 'p.watch' refused"}
		})
		after(time.Hour)
		require.NotNil(t, s.guard.Fault())
		s.set(func(b *fakeBroker) { b.down, b.overflow = nil, false })
		after(time.Minute)
		require.Nil(t, s.guard.Fault())
	})
}

// TestGuard_IdleForDays: issue 9, A1 (a). Probes that have waited for their whole TTL are not
// early.
func TestGuard_IdleForDays(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		after(10 * time.Minute)
		s.busy.Store(false)
		for range 3 {
			after(25 * time.Hour)
			require.Nil(t, s.guard.Fault())
		}
		s.requireLogged(t, 0, 0)
		s.busy.Store(true)
		s.set(harms["waiting probes"].set)
		after(long)
		require.NotNil(t, s.guard.Fault(), "it looks again")
	})
}

// TestGuard_IdleDoesNotLook, so that a Delayer without work costs the broker nothing.
func TestGuard_IdleDoesNotLook(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		after(time.Minute)
		s.busy.Store(false)
		after(time.Minute)
		attempts := s.attempts
		after(time.Hour)
		require.Equal(t, attempts, s.attempts)
	})
}

// TestGuard_LiftedWhileIdle: issue 9, A1 (b). As long as a fault stands, it looks.
func TestGuard_LiftedWhileIdle(t *testing.T) {
	eachHarm(t, func(t *testing.T, s *scene, h harm) {
		s.set(h.set)
		after(long)
		s.busy.Store(false)
		after(30 * time.Minute)
		require.NotNil(t, s.guard.Fault())
		s.set(h.clear)
		after(long)
		require.Nil(t, s.guard.Fault())
		s.requireLogged(t, 1, 1)
	})
}

// TestGuard_FoundWhileIdle: a probe of a Delayer that is idle comes back. It is early by hours, and
// so takes hours to disprove: no later probe replaces the one that does.
func TestGuard_FoundWhileIdle(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		s.set(func(b *fakeBroker) { b.ttl = 5 * time.Hour })
		after(30 * time.Minute)
		require.Nil(t, s.guard.Fault())
		s.busy.Store(false)
		after(5 * time.Hour)
		require.ErrorContains(t, s.guard.Fault(), "after at most 5h0m0s")
		s.set(func(b *fakeBroker) { b.ttl = 0 })
		after(5 * time.Hour) // nothing shows yet that it is gone
		require.NotNil(t, s.guard.Fault())
		after(6 * time.Hour)
		require.Nil(t, s.guard.Fault())
		s.requireLogged(t, 1, 1)
	})
}

// TestGuard_ProbesOnTheirWayBack: issue 9, A1 (e). That nothing has come back yet does not show
// that the policy is gone: the probes of a slow connection are on their way.
func TestGuard_ProbesOnTheirWayBack(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		s.set(harms["waiting probes"].set)
		after(long)
		s.set(func(b *fakeBroker) { b.latency = 20 * time.Second })
		after(time.Hour)
		s.requireLogged(t, 1, 0)
		s.set(harms["waiting probes"].clear)
		after(10 * time.Minute)
		require.Nil(t, s.guard.Fault())
		s.requireLogged(t, 1, 1)
	})
}

// TestGuard_SeveralSources: the fault that is reported changes when its own policy is gone, and
// ends with the last.
func TestGuard_SeveralSources(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		s.set(harms["overflow"].set)
		after(long)
		s.set(harms["alternate exchange"].set)
		s.set(harms["management API"].set)
		after(long)
		require.ErrorContains(t, s.guard.Fault(), harms["overflow"].want, "the same as long as it stands")
		s.requireLogged(t, 1, 0)
		s.set(harms["overflow"].clear)
		after(long)
		require.ErrorContains(t, s.guard.Fault(), harms["alternate exchange"].want)
		s.requireLogged(t, 2, 0)
		s.set(harms["alternate exchange"].clear)
		after(long)
		require.ErrorContains(t, s.guard.Fault(), harms["management API"].want)
		s.set(harms["management API"].clear)
		after(long)
		require.Nil(t, s.guard.Fault())
		s.requireLogged(t, 3, 1)
	})
}

// TestGuard_SlowManagement: an API that does not answer delays no probe.
func TestGuard_SlowManagement(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		s.set(func(b *fakeBroker) { b.hangs = true })
		s.set(harms["overflow"].set)
		after(2 * defaultEvery)
		require.NotNil(t, s.guard.Fault())
	})
}

// TestGuard_LostConnection: probes that waited are gone with it, and show nothing.
func TestGuard_LostConnection(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		s.set(harms["waiting probes"].set)
		after(long)
		for range 5 {
			s.loseConnection()
			after(time.Minute)
		}
		require.NotNil(t, s.guard.Fault())
		s.requireLogged(t, 1, 0)
		s.set(harms["waiting probes"].clear)
		s.loseConnection()
		after(long)
		require.Nil(t, s.guard.Fault())
		s.requireLogged(t, 1, 1)
		s.loseConnection()
		after(2 * defaultEvery)
		for n := range probeQueues {
			held, err := s.holds(t.Context(), n)
			require.NoError(t, err)
			require.True(t, held, "queue %d has a probe again", n)
		}
	})
}

// TestGuard_AllLengthsOfTTL are found as docs/security.md says, and lifted.
func TestGuard_AllLengthsOfTTL(t *testing.T) {
	for ttl := time.Millisecond; ttl < 20*time.Minute; ttl *= 3 {
		play(t, func(t *testing.T, s *scene) {
			s.set(func(b *fakeBroker) { b.ttl = ttl })
			after(8*time.Second + 6*ttl)
			require.ErrorContains(t, s.guard.Fault(), "instead of 24h", ttl)
			after(time.Hour)
			s.set(harms["waiting probes"].clear)
			after(time.Minute + 6*ttl)
			require.Nil(t, s.guard.Fault(), ttl)
			s.requireLogged(t, 1, 1)
		})
	}
}

// TestGuard_Open returns what can be seen at once.
func TestGuard_Open(t *testing.T) {
	for name, h := range harms {
		if name == "waiting probes" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, s *scene) {
				s.set(h.set)
				err := s.guard.Open(t.Context())
				require.ErrorIs(t, err, delayer.ErrConflict)
				require.ErrorContains(t, err, h.want)
				s.set(h.clear)
				s.set(func(b *fakeBroker) { b.down = unavailable })
				require.NoError(t, s.guard.Open(t.Context()), "a broker that does not answer is no conflict")
				s.set(func(b *fakeBroker) { b.inspect = unavailable })
				require.ErrorIs(t, s.guard.Open(t.Context()), delayer.ErrUnavailable)
			})
		})
	}
}

func TestGuard_Nil(t *testing.T) {
	var g *Guard
	require.Nil(t, g.Fault())
}
