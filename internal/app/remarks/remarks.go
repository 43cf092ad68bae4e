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
	for _, q := range s.Parked {
		if q.Messages > 0 {
			stays("parked messages: see which and why with delayer messages list %s", cli.Shown(q.Name))
		}
	}
	if s.Misrouted != nil && s.Misrouted.Consumers == 0 && s.Misrouted.Messages > 0 {
		alarm("no Delayer sends misrouted messages on: start one, or send those that are due with delayer messages retry")
	}
	if len(s.Others) > 0 {
		alarm("messages in queues of another configuration, %s first: let a Delayer with that configuration run "+
			"until they are delivered", cli.Shown(s.Others[0].Name))
	}
	for _, one := range s.Backends {
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
	const most = 3 // one policy may harm every queue
	for _, p := range s.Policies[:min(most, len(s.Policies))] {
		alarm("policy: %s", p)
	}
	if more := len(s.Policies) - most; more > 0 {
		alarm("policies: and %d more, see delayer topology verify", more)
	}
	if len(s.Policies) > 0 {
		alarm("policies: %s", objects.PolicyRemedy(s.Prefix))
	}
	for _, b := range s.Bindings[:min(most, len(s.Bindings))] {
		alarm("%s", b)
	}
	if more := len(s.Bindings) - most; more > 0 {
		alarm("bindings: and %d more, see delayer topology verify", more)
	}
	if s.Policies != nil && len(s.Policies) == 0 {
		say("policies: none does harm")
	}
	for _, text := range Unknowns(s) {
		say("%s", text)
	}
	return list
}

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

// Process names the process of a controller: machine, program and process id, or the address that
// it comes from.
func Process(c status.Controller) string {
	if _, process, named := strings.Cut(c.Name, ", "); named {
		return process
	}
	from, _, _ := strings.Cut(c.Connection, " -> ")
	return from
}

// Does says what a controller does.
func Does(c status.Controller) string {
	switch {
	case c.Leads == nil:
		return "works"
	case *c.Leads:
		return "leads"
	}
	return "stands by"
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
