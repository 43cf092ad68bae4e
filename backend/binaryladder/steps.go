package binaryladder

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/internal/lib/ttl"
)

// Steps say which waiting queues a ladder has: one for each step. A message waits in steps that add
// up to its delay: the longest that fits, then the longest that fits into the rest, and so on.
//
//	calendar      what people's delays are made of (the default with routing source)
//	binary        each twice the one before (the default with routing topic)
//	1s,2s,4s      these; every multiple of the tick up to their sum must be a sum of some of them
//	              (routing topic: each twice the one before, the first is the tick)
//	+45m,+50m     those of calendar, and these
//
// In a configuration file a list may also be a list: [1s, 2s, 4s].
type Steps string

// The steps that have names.
const (
	Calendar Steps = "calendar"
	Binary   Steps = "binary"
)

// UnmarshalYAML reads text or a list.
func (s *Steps) UnmarshalYAML(decode func(any) error) error {
	var list []string
	if decode(&list) == nil {
		*s = Steps(strings.Join(list, ","))
		return nil
	}
	return decode((*string)(s))
}

// mostSteps bounds the queues that a configuration can ask for.
const mostSteps = 128

// A ladder is a list of steps that make up every delay up to the longest.
type ladder struct {
	ttl.Steps
	label   string        // what the steps are called in the configuration
	longest time.Duration // the sum of the steps, or ten years
}

func (s Steps) ladder(tick time.Duration) (ladder, error) {
	if tick < time.Millisecond || tick%time.Millisecond != 0 || tick > ttl.LongestStep {
		return ladder{}, badConfig("tick", "%v is not a whole number of milliseconds from 1ms to ten years: the broker counts in milliseconds", tick)
	}
	switch s {
	case Calendar:
		return newLadder(tick, string(Calendar), calendar(tick))
	case Binary:
		return newLadder(tick, string(Binary), binary(tick))
	}
	list, added, err := s.durations(tick)
	if err != nil {
		return ladder{}, badConfig("steps", "%w", err)
	}
	label := "list"
	if added {
		label = string(Calendar) + "+"
		list = append(list, calendar(tick)...)
	}
	slices.Sort(list)
	return newLadder(tick, label, slices.Compact(list))
}

// newLadder checks that steps, ascending multiples of the tick, have no gap.
func newLadder(tick time.Duration, label string, steps []time.Duration) (ladder, error) {
	if len(steps) == 0 {
		return ladder{}, badConfig("tick", "no step of the %s is a multiple of %v: take a tick that divides a minute, or steps: binary", label, tick)
	}
	l := ladder{Steps: ttl.Steps{Tick: tick, Waits: steps}, label: label}
	if gap := objects.DurationName(l.Gap()); gap != "" {
		return l, badConfig("steps", "with a tick of %v, %s is no sum of steps of the %s: add a step of %[2]s", tick, gap, label)
	}
	const most = objects.MaxTTL
	for _, step := range steps {
		l.longest = min(l.longest+step, most-most%tick)
	}
	return l, nil
}

// doubles reports whether the steps are those of the bits of a delay in ticks.
func (l ladder) doubles() bool {
	for i, step := range l.Waits {
		if step != l.Tick<<i {
			return false
		}
	}
	return true
}

// durations reads a list. added reports whether it is added to calendar.
func (s Steps) durations(tick time.Duration) (list []time.Duration, added bool, err error) {
	items := strings.Split(string(s), ",")
	if len(items) > mostSteps {
		return nil, false, fmt.Errorf("%d steps are more than %d: leave some out, as a delay may take several", len(items), mostSteps)
	}
	for i, item := range items {
		text, plus := strings.CutPrefix(strings.TrimSpace(item), "+")
		if i > 0 && plus != added {
			return nil, false, fmt.Errorf("%q: either all steps have a plus, or none", text)
		}
		added = plus
		step, err := parseStep(text, tick)
		if err != nil {
			return nil, false, err
		}
		if slices.Contains(list, step) {
			return nil, false, fmt.Errorf("%s is listed twice: a message waits in each queue once", text)
		}
		list = append(list, step)
	}
	return list, added, nil
}

func parseStep(text string, tick time.Duration) (time.Duration, error) {
	step, err := time.ParseDuration(text)
	switch {
	case text == "":
		return 0, errors.New("an empty step: want calendar, binary, or a list such as 1s,2s,4s")
	case err != nil:
		return 0, fmt.Errorf("%.40q is no duration such as 1s, 250ms or 15m (calendar and binary stand alone)", text)
	case step <= 0:
		return 0, fmt.Errorf("%s is not positive", text)
	case step < tick:
		return 0, fmt.Errorf("%s is shorter than the tick, %v: set a shorter tick", text, tick)
	case step%tick != 0:
		return 0, fmt.Errorf("%s is no multiple of the tick, %v", text, tick)
	case step > ttl.LongestStep:
		return 0, fmt.Errorf("%s is longer than ten years, the longest x-message-ttl that RabbitMQ takes", text)
	}
	return step, nil
}

// binary doubles from the tick on. With a tick of a second its longest step is 4.3 years, and its
// longest delay 8.5.
func binary(tick time.Duration) []time.Duration {
	const longest = 1 << 27 * time.Second
	steps := []time.Duration{tick}
	for next := 2 * tick; next <= longest; next *= 2 {
		steps = append(steps, next)
	}
	return steps
}

const day = 24 * time.Hour

// calendarSteps are 64. Each second up to 15, and each quarter of a minute up to two minutes, make
// the delays up to two minutes of at most two steps. The delays that people write are steps. The
// other steps of minutes and hours were found by counting: see TestCalendar_Hops.
var calendarSteps = [...]time.Duration{
	1 * time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second, 5 * time.Second,
	6 * time.Second, 7 * time.Second, 8 * time.Second, 9 * time.Second, 10 * time.Second,
	11 * time.Second, 12 * time.Second, 13 * time.Second, 14 * time.Second, 15 * time.Second,
	20 * time.Second, 30 * time.Second, 45 * time.Second,
	60 * time.Second, 75 * time.Second, 90 * time.Second, 105 * time.Second, 120 * time.Second,
	3 * time.Minute, 5 * time.Minute, 8 * time.Minute, 10 * time.Minute, 12*time.Minute + 30*time.Second, 15 * time.Minute,
	18*time.Minute + 30*time.Second, 20 * time.Minute, 24 * time.Minute, 28 * time.Minute, 30 * time.Minute, 34 * time.Minute,
	39*time.Minute + 30*time.Second, 45 * time.Minute, 50*time.Minute + 30*time.Second, 56 * time.Minute, 1 * time.Hour, 90 * time.Minute,
	2 * time.Hour, 3 * time.Hour, 4 * time.Hour, 6 * time.Hour, 8 * time.Hour, 12 * time.Hour,
	16 * time.Hour, 21 * time.Hour,
	1 * day, 2 * day, 3 * day, 4 * day, 7 * day, 14 * day, 21 * day, 30 * day, 60 * day, 90 * day, 180 * day,
	365 * day, 730 * day, 1095 * day, 1460 * day,
}

// calendar returns the steps that are multiples of the tick, and, if the tick is shorter, steps
// below a second: at most 63, of which any fraction of a second is one or two.
func calendar(tick time.Duration) []time.Duration {
	steps := fractions(tick)
	for _, s := range calendarSteps {
		if s%tick == 0 {
			steps = append(steps, s)
		}
	}
	return steps
}

// fractions counts in ticks up to a round part of a second, and on in these parts. Round parts are
// what people write.
func fractions(tick time.Duration) []time.Duration {
	var steps []time.Duration
	for _, part := range [...]time.Duration{25, 50, 100, 200, 500} {
		part *= time.Millisecond
		if part%tick != 0 {
			continue
		}
		for s := tick; s < part; s += tick {
			steps = append(steps, s)
		}
		for s := part; s < time.Second; s += part {
			steps = append(steps, s)
		}
		break
	}
	return steps
}
