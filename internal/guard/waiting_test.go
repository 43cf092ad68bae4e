package guard

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/instant"
)

// at is a moment at which both clocks say the same.
func at(d time.Duration) instant.Instant { return apart(d, d) }

// apart is a moment at which they do not.
func apart(mono, wall time.Duration) instant.Instant {
	return instant.Instant{Mono: mono, Wall: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(wall)}
}

// withProbe has one probe in a queue since the beginning.
func withProbe(n int) *waiting {
	w := &waiting{every: 5 * time.Second}
	w.sending(n, "x", at(0))
	w.confirmed(n, at(0))
	return w
}

func TestWaiting_Returned(t *testing.T) {
	for name, c := range map[string]struct {
		id    string
		now   instant.Instant
		early bool
	}{
		"early":                               {"x", at(time.Second), true},
		"early by hours":                      {"x", at(5 * time.Hour), true},
		"full TTL":                            {"x", at(probeTTL), false},
		"full TTL, by a faster broker":        {"x", at(probeTTL - time.Minute), false},
		"full TTL, of which it was suspended": {"x", apart(time.Minute, probeTTL), false},
		"full TTL, and the clock was set":     {"x", apart(probeTTL, time.Minute), false},
		"replaced":                            {"another", at(time.Second), false},
		"not ours":                            {"", at(time.Second), false},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, early := withProbe(1).returned(c.id, c.now)
			require.Equal(t, c.early, early)
		})
	}
}

// TestWaiting_ReturnedBeforeItsConfirm: it is known all the same.
func TestWaiting_ReturnedBeforeItsConfirm(t *testing.T) {
	w := &waiting{every: time.Second}
	w.sending(3, "x", at(0))
	n, lived, early := w.returned("x", at(time.Second))
	require.True(t, early)
	require.Equal(t, 3, n)
	require.Equal(t, time.Second, lived)
}

// early is a queue from which a probe came back after two seconds, and which has another one since
// three.
func early() *waiting {
	w := withProbe(1)
	w.sending(2, "waits already", at(0))
	w.confirmed(2, at(0))
	w.returned("x", at(2*time.Second))
	w.sending(1, "y", at(3*time.Second))
	w.confirmed(1, at(4*time.Second))
	return w
}

// TestWaiting_Witness: only a probe that was sent after the early one, and has certainly waited
// longer, says anything.
func TestWaiting_Witness(t *testing.T) {
	const enough = 4*time.Second + 2*time.Second + proofMargin + 1
	_, ok := withProbe(1).witness(at(time.Hour))
	require.False(t, ok, "there is nothing to prove")
	for name, c := range map[string]struct {
		prepare func(*waiting)
		now     instant.Instant
		want    bool
	}{
		"not long enough":          {nil, at(enough - 1), false},
		"long enough":              {nil, at(enough), true},
		"as if, by the wall clock": {nil, apart(enough-1, time.Hour), false},
		"as if, by the other":      {nil, apart(time.Hour, enough-1), false},
		"it came back":             {func(w *waiting) { w.returned("y", at(enough)) }, at(time.Hour), false},
		"it was replaced":          {func(w *waiting) { w.sending(1, "z", at(enough)) }, at(enough), false},
		"it is not there":          {func(w *waiting) { w.absent(1) }, at(time.Hour), false},
		"the queues are new":       {(*waiting).forgetAll, at(time.Hour), false},
		"it was not stored":        {func(w *waiting) { w.forget(1) }, at(time.Hour), false},
		"proven":                   {(*waiting).proven, at(time.Hour), false},
	} {
		t.Run(name, func(t *testing.T) {
			w := early()
			if c.prepare != nil {
				c.prepare(w)
			}
			n, ok := w.witness(c.now)
			require.Equal(t, c.want, ok)
			if ok {
				require.Equal(t, 1, n)
			}
		})
	}
}

// TestWaiting_AbsentIsStillAwaited: it may be on its way back.
func TestWaiting_AbsentIsStillAwaited(t *testing.T) {
	w := early()
	w.absent(1)
	_, _, early := w.returned("y", at(5*time.Second))
	require.True(t, early)
}

func TestWaiting_Due(t *testing.T) {
	pauses := []time.Duration{5 * time.Second, 20 * time.Second, 80 * time.Second, 320 * time.Second, 1280 * time.Second}
	for n, pause := range pauses {
		w := withProbe(n)
		require.False(t, w.due(n, at(pause-1)))
		require.True(t, w.due(n, at(pause)))
		w.forget(n)
		require.True(t, w.due(n, at(0)))
	}
	w := withProbe(0)
	w.returned("x", at(5*time.Hour))
	w.sending(4, "y", at(5*time.Hour))
	require.False(t, w.due(4, at(10*time.Hour)), "it stays until it can show that the policy is gone")
	w.proven()
	require.True(t, w.due(4, at(10*time.Hour)))
}

// TestVerdicts: each transition of what is reported.
func TestVerdicts(t *testing.T) {
	bad, worse, unknown := conflict("bad"), conflict("worse"), errors.New("503")
	type step struct {
		from   source
		answer error
		want   change
		fault  error
	}
	for name, steps := range map[string][]step{
		"nothing":           {{overflowProbe, nil, unchanged, nil}, {managementAPI, unknown, unchanged, nil}},
		"found and lifted":  {{overflowProbe, bad, found, bad}, {overflowProbe, nil, lifted, nil}},
		"refound":           {{overflowProbe, bad, found, bad}, {overflowProbe, nil, lifted, nil}, {overflowProbe, worse, found, worse}},
		"still there":       {{managementAPI, bad, found, bad}, {managementAPI, worse, unchanged, worse}},
		"unknown":           {{managementAPI, bad, found, bad}, {managementAPI, unknown, unchanged, bad}, {managementAPI, errUndecided, unchanged, bad}},
		"another is clean":  {{managementAPI, bad, found, bad}, {overflowProbe, nil, unchanged, bad}},
		"two":               {{managementAPI, bad, found, bad}, {overflowProbe, worse, unchanged, bad}},
		"first of two gone": {{managementAPI, bad, found, bad}, {overflowProbe, worse, unchanged, bad}, {managementAPI, nil, found, worse}, {overflowProbe, nil, lifted, nil}},
		"other of two gone": {{managementAPI, bad, found, bad}, {overflowProbe, worse, unchanged, bad}, {overflowProbe, nil, unchanged, bad}, {managementAPI, nil, lifted, nil}},
	} {
		t.Run(name, func(t *testing.T) {
			var v verdicts
			for i, s := range steps {
				require.Equal(t, s.want, v.learn(s.from, s.answer), "step %d", i)
				if s.fault == nil {
					require.Nil(t, v.fault(), "step %d", i)
				} else {
					require.Equal(t, s.fault, error(v.fault()), "step %d", i)
				}
			}
		})
	}
}

// TestKeyOf: the reason of the broker tells the key of the policy.
func TestKeyOf(t *testing.T) {
	require.Contains(t, keyOf("expired"), "message-ttl")
	require.Contains(t, keyOf("maxlen"), "max-length")
}

// TestConflict: the error says what, why and what to do.
func TestConflict(t *testing.T) {
	p := probes{Config: Config{Backend: "b", Prefix: "p"}}
	err := p.conflict("queue", "q", errors.New("it is so"), "overflow")
	require.ErrorIs(t, err, delayer.ErrConflict)
	require.EqualError(t, err, `delayer: open b queue "q": conflicts with what the broker holds: it is so: `+
		`is there a policy with overflow? (see rabbitmqctl list_policies and list_operator_policies, `+
		`and keep them from names that begin with p.: with the pattern ^(?!p\.))`)
}
