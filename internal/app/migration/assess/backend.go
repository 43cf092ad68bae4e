package assess

import (
	"fmt"
	"strings"
	"time"

	"github.com/delayer-go/delayer/internal/app/cli"
)

// PluginMax is the longest x-delay that the plugin takes.
const PluginMax = (1<<32 - 1) * time.Millisecond

// Delays are the x-delays that the new backend must take, in milliseconds.
type Delays struct {
	Longest int64 `json:"longest_ms"`
	Finest  int64 `json:"finest_ms"`
	// Assumed says where nothing is known, so that the plugin's own limit stands there.
	LongestAssumed bool `json:"longest_assumed"`
	FinestAssumed  bool `json:"finest_assumed"`
	// Latest is until the last message that waits now is due; null if nobody was asked.
	Latest *int64 `json:"latest_due_in_ms"`
}

func (d Delays) longest() time.Duration { return time.Duration(d.Longest) * time.Millisecond }
func (d Delays) finest() time.Duration  { return time.Duration(d.Finest) * time.Millisecond }

// delays are those that the user gives, or that can be seen to wait, or any that the plugin takes.
func delays(q Question) Delays {
	d := Delays{Longest: PluginMax.Milliseconds(), LongestAssumed: true, Finest: 1, FinestAssumed: true}
	if q.Asked {
		var latest time.Duration
		for _, w := range q.Waiting {
			latest = max(latest, w.Latest)
		}
		ms := latest.Milliseconds()
		d.Latest = &ms
	}
	if q.Longest > 0 {
		d.Longest, d.LongestAssumed = q.Longest.Milliseconds(), false
	}
	if q.Finest > 0 {
		d.Finest, d.FinestAssumed = q.Finest.Milliseconds(), false
	}
	return d
}

// A Backend is a candidate, and how it fits.
type Backend struct {
	Backend     string `json:"backend"`
	Settings    string `json:"settings,omitempty"` // further lines of the configuration
	Configured  bool   `json:"configured"`
	Fits        bool   `json:"fits"`
	Recommended bool   `json:"recommended"`
	Why         string `json:"why"`
}

// String is how the configuration selects it.
func (b Backend) String() string {
	text := "backend: " + b.Backend
	if b.Settings != "" {
		text += " and " + b.Settings
	}
	switch {
	case b.Configured:
		text += ", as configured"
	case b.Settings == "":
		text += ", with its defaults"
	}
	return text
}

// backends judges the candidates. The first that fits is recommended.
func backends(candidates []Candidate, d Delays) []Backend {
	list, recommended := make([]Backend, len(candidates)), false
	for i, c := range candidates {
		why, fits := fit(c, d)
		list[i] = Backend{c.Backend, c.Settings, c.Configured, fits, fits && !recommended, why}
		recommended = recommended || fits
	}
	return list
}

// Leaving is the backend that a migration leaves.
const Leaving = "plugin"

// fit says whether, and why, a candidate takes the delays as they are.
func fit(c Candidate, d Delays) (why string, fits bool) {
	l := c.Limits
	switch {
	case c.Backend == Leaving:
		return "it is what you leave", false
	case l.Max < d.longest():
		return fmt.Sprintf("its longest delay is %v, and %v is needed; longer ones are refused", Span(l.Max), Span(d.longest())), false
	case len(l.Tiers) > 0:
		return fmt.Sprintf("it has %s only; others become the next longer one", cli.Count(len(l.Tiers), "delay")), false
	case d.finest()%l.Resolution != 0:
		example := d.finest()
		if d.FinestAssumed {
			example = 1500 * time.Millisecond
		}
		return fmt.Sprintf("its tick is %v: a delay of %v becomes %v", l.Resolution, example, example.Truncate(l.Resolution)+l.Resolution), false
	}
	why = fmt.Sprintf("every delay up to %v in steps of %v", Span(l.Max), l.Resolution)
	if !l.Ordered {
		why += "; equal delays do not keep their order"
	}
	if c.About.Needs != "nothing" {
		why += "; needs " + c.About.Needs
	}
	return why, true
}

// Span is a duration for people: days above 48 hours.
func Span(d time.Duration) string {
	const day, year = 24 * time.Hour, 365 * 24 * time.Hour
	switch {
	case d >= 2*year:
		return fmt.Sprintf("%.1f years", d.Hours()/year.Hours())
	case d >= 2*day:
		return fmt.Sprintf("%.1f days", d.Hours()/day.Hours())
	}
	return cli.Short(d)
}

// delayFindings are about the configured backend, the first candidate.
func delayFindings(q Question, a *Assessment) []Finding {
	var found []Finding
	if len(a.Backends) > 0 && !a.Backends[0].Fits {
		found = append(found, configuredFinding(q.Candidates[0], a))
	}
	if a.Delays.Latest != nil && a.Delays.LongestAssumed {
		latest := time.Duration(*a.Delays.Latest) * time.Millisecond
		found = append(found, Finding{Note, "x-delay", fmt.Sprintf("the last message that waits now is due in %v; longer delays may have been published before",
			Span(latest.Round(time.Second))), ""})
	}
	return append(found,
		Finding{Note, "x-delay", "one that is zero or negative is delivered at once, by the plugin, delayer serve and package migrate. One above 4294967295 is delivered at once by the plugin, in silence; package migrate refuses it, and delayer serve parks it", ""})
}

// configuredFinding says that the configuration does not take the delays as they are.
func configuredFinding(c Candidate, a *Assessment) Finding {
	f := Finding{Level: Warning, About: "backend " + c.Backend, Says: "as configured, " + a.Backends[0].Why}
	if c.Backend == Leaving || c.Limits.Max < a.Delays.longest() && !a.Delays.LongestAssumed {
		f.Level = Blocker
	}
	for _, b := range a.Backends {
		if b.Recommended {
			f.Do = "configure " + b.String()
		}
	}
	if a.Delays.LongestAssumed || a.Delays.FinestAssumed {
		f.Do = strings.TrimPrefix(f.Do+", or say what your code uses: --longest, --finest", ", ")
	}
	return f
}
