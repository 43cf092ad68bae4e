package conformance

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/delayer-go/delayer"
)

// A Harness describes the backend under test. Open and World are required.
type Harness struct {
	// Open opens a Delayer, with the same configuration every time. The suite closes it. Most cases
	// share one; others call it, several at a time, for one of their own.
	Open func(ctx context.Context) (delayer.Delayer, error)

	// World opens a view of the broker that Open's Delayers publish to. The suite closes it. It is
	// called once a case, and by several cases at a time.
	World func(ctx context.Context) (World, error)

	// Only lists the names of the cases to run; nil is all. So a run beside the one of all cases
	// can try other configurations, or another broker, such as one whose [Clock] can be put
	// forward. The last case, broker-restart, can be left to a run of its own: runs that share a
	// broker then restart it together.
	Only []string

	// User is the name that the Delayer's connections log in with. It is published as UserId, which
	// the broker compares; "" leaves that property out.
	User string

	// Added lists the headers that this backend documents to add, besides [delayer.Header] and
	// those that the broker adds to dead-lettered messages.
	Added []string

	// Skip reports that a case cannot be run, because the World lacks an ability ([Unable]). It
	// must not return. nil is t.Skip; where no case may be skipped, as in CI, make it t.Fatal.
	Skip func(t *testing.T, reason string)

	// Patience is how long the suite waits for what must happen before it calls it missing; 0 means
	// 30 s. It does not say how late a message may be: that is the benchmark's question.
	Patience time.Duration
}

// atATime is how many cases run at a time. It is not the number of processors, as with t.Parallel,
// because most cases spend their time waiting for a delay.
const atATime = 8

// Run runs every case as a subtest of t.
func Run(t *testing.T, h Harness) {
	t.Helper()
	if h.Open == nil || h.World == nil {
		t.Fatal("conformance: Harness.Open and Harness.World are required")
	}
	run(goTest{t, h.Skip}, h)
}

// run runs the cases that can run together, several at a time, and then the others one by one.
func run(t tester, h Harness) {
	t.Helper()
	for _, name := range h.Only {
		if !slices.ContainsFunc(cases, func(c testCase) bool { return c.Name == name }) {
			t.Fatalf("conformance: Harness.Only names %q, which is no case", name)
		}
	}
	if h.Patience == 0 {
		h.Patience = 30 * time.Second
	}
	var wg sync.WaitGroup
	room := make(chan struct{}, atATime)
	ctx, cancel := context.WithTimeout(context.Background(), caseTime)
	defer cancel()
	var d delayer.Delayer
	shared := sync.OnceValues(func() (_ delayer.Delayer, err error) {
		d, err = h.Open(ctx)
		return d, err
	})
	for _, c := range cases {
		if c.alone || h.leavesOut(c) {
			continue
		}
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			t.Run(c.Name, func(t tester) { try(t, h, c, shared) })
		})
	}
	wg.Wait()
	if d != nil {
		_ = d.Close() // the cases about Close check what it returns
	}
	for _, c := range cases {
		if c.alone && !h.leavesOut(c) {
			t.Run(c.Name, func(t tester) { try(t, h, c, shared) })
		}
	}
}

func (h Harness) leavesOut(c testCase) bool { return h.Only != nil && !slices.Contains(h.Only, c.Name) }
