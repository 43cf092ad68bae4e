package assess

import (
	"slices"
	"strings"

	"github.com/delayer-go/delayer"
)

// A Change is what applications see after the switch.
type Change struct {
	What   string `json:"what"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// changes are those to the recommended backend, or else to the configured one.
func changes(q Question, judged []Backend) []Change {
	at := max(0, slices.IndexFunc(judged, func(b Backend) bool { return b.Recommended }))
	if at >= len(q.Candidates) {
		return []Change{}
	}
	c := q.Candidates[at]
	headers := append([]string{delayer.Header}, c.About.Adds...)
	if c.About.Deaths {
		headers = append(headers, "x-death")
	}
	order := "in the order of publishing"
	if !c.Limits.Ordered {
		order = "in any order"
	}
	all := []Change{
		{"header", "x-delay, its sign turned from RabbitMQ 3.13 on", strings.Join(headers, ", ")},
		{"equal delays", "in the order of publishing", order},
		{"mandatory", "every delayed message is returned", "returned if the exchange is missing"},
		{"unroutable when due", "dropped", "no binding: dropped; no exchange: kept in " + delayer.Options{Prefix: q.Prefix}.UnroutableQueue()},
		{"alternate exchange", "a copy of every delayed message", "what is unroutable when due"},
		{"crash of a node", "what waits there is away, or lost", survives(c.Limits)},
		{"declaring the exchange", "type x-delayed-message", "its x-delayed-type, or passively"},
	}
	return slices.DeleteFunc(all, func(c Change) bool { return c.Before == c.After })
}

func survives(l delayer.Limits) string {
	switch {
	case l.Replicated && l.SurvivesCrash:
		return "nothing is lost; other nodes go on"
	case l.SurvivesCrash:
		return "nothing is lost"
	}
	return "may lose what moves (classic queues)"
}

// declarations is always said: no migration can prevent it.
func declarations(Question) []Finding {
	return []Finding{{
		Warning, "applications", "those that declare an exchange as x-delayed-message when they start get 406 PRECONDITION_FAILED after the switch, " +
			"and 503 once the plugin is disabled. The broker does not show which do",
		"before the switch, let them declare it passively, or not at all",
	}}
}
