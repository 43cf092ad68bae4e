package page

import (
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/delayer-go/delayer/internal/app/cli"
)

// Times are written in UTC. A script writes them in the reader's zone, by the same layouts:
// assets/times.js.
const (
	clockLayout = "15:04:05 MST"
	whenLayout  = "Jan 2 15:04:05 MST"
)

// stamp is a time by a layout of package time. One without hours is of a day in UTC, which scripts
// leave as it is.
func stamp(t time.Time, layout string) template.HTML {
	t = t.UTC()
	if !strings.Contains(layout, "15") {
		return element(t.Format(layout), "datetime", t.Format(time.DateOnly))
	}
	return element(t.Format(layout), "datetime", t.Format(time.RFC3339), "data-layout", layout)
}

// dated is a time with its date, where that is not the date of near.
func dated(t, near time.Time, layout string) template.HTML {
	t, near = t.UTC(), near.UTC()
	return element(cli.Dated(t, near, layout), "datetime", t.Format(time.RFC3339), "data-layout", layout, "data-near", near.Format(time.RFC3339))
}

// element is a time with attributes, none of which is anybody's text.
func element(text string, attributes ...string) template.HTML {
	var b strings.Builder
	for i := 0; i < len(attributes); i += 2 {
		fmt.Fprintf(&b, " %s=%q", attributes[i], attributes[i+1])
	}
	return template.HTML("<time" + b.String() + ">" + text + "</time>")
}

// when is a time with how far it is from now.
func when(t, now time.Time) template.HTML {
	if t.IsZero() {
		return "–"
	}
	if now.Sub(t).Abs() < time.Second {
		return stamp(t, whenLayout) + ", now"
	}
	return stamp(t, whenLayout) + ", " + template.HTML(cli.Ago(t, now))
}

// stretch is a stretch of time.
func stretch(from, to, now time.Time) template.HTML {
	return template.HTML(cli.StretchBy(from, to, now, func(t, near time.Time, layout string) string {
		return string(dated(t, near, layout))
	}))
}
