// Package remarks says in sentences what is wrong with a status, and what fixes it: for delayer
// status, and for the page of delayer serve. It is pure.
package remarks

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/status"
)

// A Remark is a sentence for people.
type Remark struct {
	Text  string
	Wrong bool // somebody must do something
	Good  bool // nothing is wrong there
	// Undelivered says that it is about messages that were not delivered, which the page lists.
	Undelivered bool
}

// NoController is what to say where messages need a controller and none is at work.
const NoController = "no controller runs: messages wait until one does (delayer serve)"

// Of returns what there is to say of a status, beside its numbers.
func Of(s status.Status) (list []Remark) {
	say := func(format string, args ...any) { list = append(list, Remark{Text: fmt.Sprintf(format, args...)}) }
	alarm := func(format string, args ...any) {
		list = append(list, Remark{Text: fmt.Sprintf(format, args...), Wrong: true})
	}
	stays := func(format string, args ...any) {
		list = append(list, Remark{Text: fmt.Sprintf(format, args...), Wrong: true, Undelivered: true})
	}
	if s.Unroutable != nil && s.Unroutable.Messages > 0 {
		stays("unroutable messages: see which and why with delayer messages list, send them with delayer messages retry")
	}
	for _, q := range slices.Concat(s.Parked, s.Entries) {
		if q.Messages > 0 {
			stays("parked messages: see which and why with delayer messages list %s", cli.Shown(q.Name))
		}
	}
	if s.Misrouted != nil && s.Misrouted.Consumers == 0 && s.Misrouted.Messages > 0 {
		alarm("no Delayer sends misrouted messages on: start one, or send those that are due with delayer messages retry")
	}
	if len(s.Others) > 0 {
		alarm("messages in queues of another configuration, %s first: let a Delayer with that configuration run until they are delivered", cli.Shown(s.Others[0].Name))
	}
	for _, one := range s.Backends {
		for _, text := range counting(one, s.Time) {
			say("%s: %s", one.Name, text)
		}
		missing := slices.DeleteFunc(slices.Clone(one.Missing), func(name string) bool { return name == objects.Feature })
		if len(missing) < len(one.Missing) {
			off := objects.Lacking()
			alarm("%s: %v: %s", off.Object, off.Cause, off.Hint)
		}
		if len(missing) > 0 {
			alarm("%s: %s missing, %s first: is this the configuration of the Delayers? (delayer topology verify)",
				one.Name, cli.Count(len(missing), "queue"), cli.Shown(missing[0]))
		}
	}
	few := func(all []string, format, what string) {
		const most = 3 // one policy may harm every queue
		for _, one := range all[:min(most, len(all))] {
			alarm(format, one)
		}
		if more := len(all) - most; more > 0 {
			alarm("%s: and %d more, see delayer topology verify", what, more)
		}
	}
	few(s.Policies, "policy: %s", "policies")
	if len(s.Policies) > 0 {
		alarm("policies: %s", objects.PolicyRemedy(s.Prefix))
	}
	few(s.Bindings, "%s", "bindings")
	if s.Policies != nil && len(s.Policies) == 0 {
		list = append(list, Remark{Text: "policies: none does harm", Good: true})
	}
	for _, text := range Unknowns(s) {
		say("%s", text)
	}
	return list
}

// About is what to say before the number of messages that wait, where that is not exact.
func About(b status.Backend) string {
	if b.Inexact || b.Changes > 0 || b.Unread != nil && *b.Unread > 0 {
		return "about "
	}
	return ""
}

// Held is what queues of a backend hold.
func Held(b status.Backend) string {
	if b.Unread != nil {
		return "bundle"
	}
	return "message"
}

// counting has a sentence for each reason why the number of messages that wait is not exact, or old.
func counting(b status.Backend, now time.Time) (list []string) {
	if b.Unread != nil && *b.Unread > 0 {
		list = append(list, fmt.Sprintf("%s not read by a controller yet: each has one message, or up to some hundred", cli.Count(*b.Unread, "bundle")))
	}
	if b.Changes > 0 {
		list = append(list, fmt.Sprintf("%s in slots for messages that wait there: up to as many are cancelled, or due later", cli.Count(b.Changes, "change")))
	}
	if b.Inexact {
		list = append(list, "a controller was lost, or has ended, before it had counted all: the number of messages is about right")
	}
	if b.Counted != nil && (b.Stale(now) || *b.Controllers == 0 && *b.Waiting > 0) {
		list = append(list, fmt.Sprintf("counted %s ago, and not since: a controller counts once a minute at least", cli.Age(*b.Counted, now)))
	}
	return list
}

// Dues are those of a backend, with what is due within a minute in one, and what is overdue.
func Dues(b status.Backend) (list []status.Due) {
	for _, d := range b.Due {
		if n := len(list); n > 0 {
			last := &list[n-1]
			end := d.To
			if last.To.After(end) {
				end = last.To
			}
			over := IsOverdue(*last)
			if over == IsOverdue(d) && (over || end.Sub(last.From) <= time.Minute) {
				last.To = end
				last.Messages += d.Messages
				last.Overdue += d.Overdue
				continue
			}
		}
		list = append(list, d)
	}
	return list
}

// IsOverdue reports whether all of these messages are overdue.
func IsOverdue(d status.Due) bool { return d.Overdue == d.Messages }

// Unknowns has a sentence for each reason why something is not known.
func Unknowns(s status.Status) (list []string) {
	var reasons []string
	what := map[string][]string{}
	for _, u := range s.Unknown {
		if what[u.Why] == nil {
			reasons = append(reasons, u.Why)
		}
		what[u.Why] = append(what[u.Why], u.What)
	}
	for _, why := range reasons {
		list = append(list, "not known: "+strings.Join(what[why], ", ")+": "+why)
	}
	return list
}

// Wait is how long messages stay in a queue, or "-" if the queue does not say.
func Wait(q status.Queue) string {
	if q.Wait == 0 {
		return "-"
	}
	const day = 24 * time.Hour
	d := time.Duration(q.Wait) * time.Millisecond
	if d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	return cli.Short(d)
}
