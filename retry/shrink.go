package retry

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/attempt"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// forget leaves out the history but for the last failure. It returns false if there is no more.
func (f *failure) forget() bool {
	history := f.state.History
	if len(history) < 2 {
		return false
	}
	f.state.History = history[len(history)-1:]
	f.leftOut = append(f.leftOut, "the history")
	return true
}

// shrink leaves out more of a message that is too large to be parked: the history, then headers,
// and with each call twice as many. Those that cannot be sent at all go first, then the largest. It
// returns false if nothing is left that may go: such a message always fits.
func (f *failure) shrink() bool {
	if f.forget() {
		return true
	}
	names := f.heaviest()
	if len(names) == 0 {
		more := f.state.History != nil
		f.state.History = nil
		return more
	}
	d := *f.delivery
	d.Headers = maps.Clone(d.Headers)
	for _, name := range names[:min(max(1, len(f.leftOut)), len(names))] {
		delete(d.Headers, name)
		switch name {
		case "CC":
			f.state.Original.CC = nil
		case delayer.Header:
			f.state.Original.ID = ""
		}
		f.leftOut = append(f.leftOut, fmt.Sprintf("header %.100q", name))
	}
	f.delivery = &d
	return true
}

// heaviest returns the headers that a parked message would carry, those first that should go first.
func (f *failure) heaviest() []string {
	weights := map[string]int{}
	weigh := func(name string, value any) {
		size, err := message.HeaderSize(name, value)
		if err != nil {
			size = math.MaxInt32
		}
		weights[name] = size
	}
	msg := f.state.Publishing(f.delivery, 0)
	for name, value := range msg.Headers {
		if name != attempt.Header && !message.Stripped(name) {
			weigh(name, value)
		}
	}
	if cc := f.state.Original.CC; cc != nil {
		weigh("CC", cc)
	}
	if id := f.state.Original.ID; id != "" {
		weigh(delayer.Header, id)
	}
	return slices.SortedFunc(maps.Keys(weights), func(a, b string) int {
		return cmp.Or(cmp.Compare(weights[b], weights[a]), strings.Compare(a, b))
	})
}

// reason is why the message is parked, and what was left out.
func (f *failure) reason() string {
	const most = 3
	if len(f.leftOut) == 0 {
		return f.decision.park
	}
	list := strings.Join(f.leftOut[:min(most, len(f.leftOut))], ", ")
	if more := len(f.leftOut) - most; more > 0 {
		list += fmt.Sprintf(" and %d more headers", more)
	}
	return fmt.Sprintf("too large to be parked whole, so without %s: %s", list, f.decision.park)
}
