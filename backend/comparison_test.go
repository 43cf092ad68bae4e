package backend

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller"
)

// comparison compares the backends as they are by default, and says where classic queues differ.
func comparison(t *testing.T) string {
	quorum, classic := map[string]delayer.Limits{}, map[string]delayer.Limits{}
	for _, c := range table {
		quorum[c.name], classic[c.name] = limits(t, c.name, "quorum"), limits(t, c.name, "classic")
	}
	var b strings.Builder
	line := func(name string, cell func(row) string) {
		b.WriteString("| " + name)
		for _, c := range table {
			b.WriteString(" | " + cell(c))
		}
		b.WriteString(" |\n")
	}
	line("", func(c row) string { return "`" + c.name + "`" })
	b.WriteString("|---" + strings.Repeat("|---", len(table)) + "|\n")
	line("waits in", func(c row) string { return c.about.WaitsIn })
	line("longest delay", func(c row) string { return longest(quorum[c.name].Max) })
	line("delays", func(c row) string { return steps(quorum[c.name]) })
	line("survives", func(c row) string { return differs(survives(quorum[c.name]), survives(classic[c.name])) })
	line("replicated", func(c row) string {
		return differs(yesNo(quorum[c.name].Replicated), yesNo(classic[c.name].Replicated))
	})
	line("equal delays keep their order", func(c row) string { return yesNo(quorum[c.name].Ordered) })
	line("unknown destination is an error", func(c row) string { return yesNo(quorum[c.name].ReportsUnroutable) })
	line("keeps what became unroutable", func(c row) string { return yesNo(quorum[c.name].KeepsUnroutable) })
	line("the consumer also sees", func(c row) string { return sees(c.about) })
	line("needs", func(c row) string { return c.about.Needs })
	return b.String()
}

// sees are the headers that a consumer sees.
func sees(a delayer.About) string {
	names := []string{delayer.Header}
	if a.Deaths {
		names = append(names, "x-death")
	}
	return "`" + strings.Join(append(names, a.Adds...), "`, `") + "`"
}

// limits are those of a backend with the default configuration, where it allows these queues.
func limits(t *testing.T, name string, queueType delayer.QueueType) delayer.Limits {
	cfg := Config{Options: delayer.Options{QueueType: queueType}, Backend: name}
	if queueType == delayer.Classic {
		cfg.Controller.Wheel = controller.Rounds
	}
	limits, err := Limits(cfg)
	require.NoError(t, err)
	return limits
}

// longest is a delay in units that one can picture.
func longest(d time.Duration) string {
	const day = 24 * time.Hour
	const year = 365 * day
	switch {
	case d >= 100*year:
		return fmt.Sprintf("%.0f years", math.Floor(float64(d)/float64(year)))
	case d >= 2*year:
		return fmt.Sprintf("%.1f years", float64(d)/float64(year))
	case d >= 2*day:
		return fmt.Sprintf("%.0f days", math.Floor(float64(d)/float64(day)))
	default:
		return plain(d)
	}
}

// plain is 15m instead of 15m0s.
func plain(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	return text
}

func steps(l delayer.Limits) string {
	switch {
	case l.Tiers == nil && l.Resolution == time.Millisecond:
		return "any, to the millisecond"
	case l.Tiers == nil:
		return "any multiple of the tick, " + plain(l.Resolution)
	}
	var names []string
	for _, tier := range l.Tiers {
		names = append(names, plain(tier))
	}
	if l.ExactTiers {
		return strings.Join(names, ", ")
	}
	return strings.Join(names, ", ") + "; others round up"
}

func survives(l delayer.Limits) string {
	switch {
	case l.SurvivesCrash:
		return "crashes"
	case l.SurvivesRestart:
		return "restarts"
	default:
		return "nothing for certain"
	}
}

func differs(quorum, classic string) string {
	if quorum == classic {
		return quorum
	}
	return quorum + " (classic: " + classic + ")"
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// TestTheTableIsUpToDate holds docs/backends.md to what the Limits say.
func TestTheTableIsUpToDate(t *testing.T) {
	const file, begin, end = "../docs/backends.md", "<!-- backends: begin -->\n", "<!-- backends: end -->"
	want := comparison(t)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), begin)
	shown, _, closed := strings.Cut(rest, end)
	require.True(t, found && closed, "%s has no table between %q and %q", file, begin, end)
	if shown != want {
		t.Errorf("the table in %s is out of date; paste this between the markers:\n%s", file, want)
	}
}
