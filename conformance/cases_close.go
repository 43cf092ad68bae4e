package conformance

import (
	"bytes"
	"context"
	"runtime/pprof"
	"strings"
	"sync"
	"time"

	"github.com/delayer-go/delayer"
)

func closed(t *trial) {
	in := t.queue(t.name("queue"))
	d := t.open()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := d.Close(); err != nil {
				t.errorf("Close, called by several at a time, returned %v", err)
			}
		})
	}
	wg.Wait()
	if err := d.Close(); err != nil {
		t.errorf("Close, called again, returned %v", err)
	}
	for _, j := range []job{to(in, "too late", t.short()), to(in, "too late and at once", 0)} {
		t.refused(publishBy(t.ctx, d, j), delayer.ErrClosed)
	}
	if got := d.Limits().Max; got != t.lim.Max {
		t.errorf("Limits().Max is %v after Close, was %v", got, t.lim.Max)
	}
	t.exactly(in, nil)
}

func survivesClose(t *trial) {
	in := t.queue(t.name("queue"))
	delays := []time.Duration{t.short(), t.delay(several)}
	outs := t.mustPublish(jobs(50, "waiting", func(i int, id string) job { return to(in, id, delays[i%len(delays)]) })...)
	if err := t.d.Close(); err != nil {
		t.errorf("Close returned %v", err)
	}
	t.d = t.open()
	t.exactly(in, outs)
}

func closedWhilePublishing(t *trial) {
	const publishers, first = 8, 100
	in := t.queue(t.name("queue"))
	d := t.open()
	p := startPublishers(t, publishers, func(ctx context.Context, _ int, id string) []outcome {
		return []outcome{publishBy(ctx, d, to(in, id, t.short()))}
	})
	p.awaitStored(first)
	err := d.Close()
	outs := p.stop()
	if err != nil {
		t.errorf("Close returned %v", err)
	}
	t.truthful(in, outs, fate{})
}

// noGoroutineLeft opens and uses a Delayer in a goroutine with a label. Goroutines that it starts
// inherit the label, those of other tests do not have it.
func noGoroutineLeft(t *trial) {
	const label = "conformance"
	in := t.queue(t.name("queue"))
	mark := t.name("goroutines")
	done := make(chan error, 1)
	go pprof.Do(t.ctx, pprof.Labels(label, mark), func(ctx context.Context) {
		d, err := t.h.Open(ctx)
		if err != nil {
			done <- err
			return
		}
		err = publishBy(ctx, d, to(in, "one", t.short())).err
		_ = publishBy(ctx, d, job{"", t.name("nowhere"), t.short(), text("refused")})
		if closing := d.Close(); err == nil {
			err = closing
		}
		done <- err
	})
	if err := <-done; err != nil {
		t.failf("a Delayer that is opened, used and closed: %v", err)
	}
	// A goroutine is still counted for a moment while it returns, and no signal tells when it has.
	var left []string
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if left = goroutines(mark); len(left) == 0 {
			return
		}
	}
	t.errorf("%d kinds of goroutines are left:\n%s", len(left), strings.Join(left, "\n\n"))
}

func goroutines(mark string) []string {
	var profile bytes.Buffer
	const withLabels = 1
	if err := pprof.Lookup("goroutine").WriteTo(&profile, withLabels); err != nil {
		return []string{err.Error()}
	}
	var found []string
	for _, stack := range strings.Split(profile.String(), "\n\n") {
		if strings.Contains(stack, mark) {
			found = append(found, stack)
		}
	}
	return found
}
