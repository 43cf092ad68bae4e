package entry

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/lib/attempt"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/xdelay"
)

// An action is what to do with a message.
type action int

const (
	straight action = iota // to its destination, at once
	delayed                // to its destination, through the Delayer
	tour                   // back to the entry, through the Delayer: then straight
	park                   // to the queue of parked messages
	dropped                // straight, and no queue there has taken it
)

var actions = [...]string{straight: "at_once", delayed: "delayed", tour: "delayed_to_come_back", park: "parked", dropped: "dropped"}

type letter struct {
	*amqp091.Delivery
	read   time.Time
	from   string // the queue that it was read from
	action action
	to     string // its destination, an exchange
	delay  time.Duration
	out    amqp091.Publishing // as it is published there
	trip   amqp091.Publishing // as it comes back: on tour, and from the parked messages
	reason string             // why it is parked
	odd    string             // what to warn about, or ""

	// stranger: it claims to be one that was parked, and its publisher was another user. It is parked
	// as it is. In a copy of ours that exchange would be believed; without it, it would be lost.
	stranger bool
}

type rules struct {
	Names
	spec     Spec
	allowed  func(exchange string) bool // without spec.To
	limits   delayer.Limits
	user     string // of the connection
	prefix   string
	recounts bool // the broker counts deaths anew in what a client publishes
}

// stateHeader is the header of a message on its way back to the entry, with what the header of
// package attempt has no room for.
const stateHeader = "x-delayer-entry"

// userHeader has the user-id of the publisher: the broker lets a user publish its own only.
const userHeader = "x-delayer-user-id"

// decide says what to do with a message of a queue.
func (r *rules) decide(queue string, d *amqp091.Delivery, now time.Time) letter {
	due := false
	if queue == r.Back {
		*d, due = r.restore(*d, now)
	}
	l := letter{Delivery: d, from: queue, out: r.publishing(d)}
	if _, is := d.Headers[broker.UnreadableHeader]; is {
		return r.refuse(l, now, errors.New(unreadable))
	}
	delay, err := read(d.Headers, now)
	if err == nil {
		l.to, err = r.destination(d)
	}
	if err != nil {
		if l.stranger = queue == r.Back && errors.Is(err, errNoEntry); l.stranger {
			err = errStranger
		}
		return r.refuse(l, now, err)
	}
	l.odd = Misspelt(xdelay.Misspelt(d.Headers))
	_, died := l.out.Headers["x-death"]
	if died && r.recounts {
		l.odd = recounted
	}
	if delay == 0 || due {
		return r.hop(l, now)
	}
	l.action, l.delay = delayed, delay
	if d.Expiration != "" || d.Priority > r.limits.MaxPriority || died { // what the Delayer does not deliver as it is
		l.action, l.trip = tour, r.returning(d, now, "", true)
	}
	return l
}

// Misspelt is what to warn about a message with a header of that name, if it looks like the plugin's
// and nobody reads it; otherwise "".
func Misspelt(name string) string {
	if xdelay.Misspelt(amqp091.Table{name: nil}) == "" {
		return ""
	}
	return fmt.Sprintf("header %q is not known (write %q): such a message goes at once", name, xdelay.Header)
}

// destination is the exchange that a message goes to.
func (r *rules) destination(d *amqp091.Delivery) (string, error) {
	if r.spec.To != "" {
		return r.spec.To, nil
	}
	name, ok := d.Headers[ExchangeHeader].(string)
	if r.spec.proxied {
		if name, ok = behind(r.prefix, d.Exchange, name); !ok {
			return "", fmt.Errorf("it came through %.120q, which is %w", d.Exchange, errNoEntry)
		}
	}
	switch {
	case !ok || name == "":
		return "", fmt.Errorf("header %s does not name an exchange", ExchangeHeader)
	case !r.allowed(name):
		return "", fmt.Errorf("exchange %.120q is not allowed", name)
	}
	return name, nil
}

var errNoEntry = errors.New("no entry of the proxy's")

const recounted = "a queue dead-letters to this exchange, and RabbitMQ from 4.0 on begins x-death anew for what a client publishes: its count never exceeds 1. Let a queue whose consumer counts by it dead-letter to the exchange behind this one"

// mostHops is how many entries a message may pass at once, one after the other. A circle of several
// exchanges that are bound to each other multiplies it each time.
const mostHops = 8

// hop counts, for a message that goes at once, whether it goes in a circle: somebody may have bound
// the destination to the entry. What a publisher publishes here has passed nothing yet. What comes
// through a binding was published to another exchange.
func (r *rules) hop(l letter, now time.Time) letter {
	if l.from != r.Queue || l.Exchange == r.spec.Name || r.spec.proxied { // which takes nothing from elsewhere
		return l
	}
	passed, _ := xdelay.Integer(l.Headers[message.Hops])
	if passed >= mostHops {
		return r.refuse(l, now, fmt.Errorf("it goes in a circle: it came back through exchange %.120q, from which a binding leads to %.120q", l.Exchange, r.spec.Name))
	}
	l.out.Headers[message.Hops] = max(passed, 0) + 1
	return l
}

// errNative is why a message with [message.NativeDelay] is parked. The parked one has that header
// among those that are carried, where the broker does not see it.
var errNative = fmt.Errorf("it has the header %s, by which RabbitMQ 4.4 delays a message in every queue that it passes: write %s", message.NativeDelay, DueHeader)

const unreadable = "its headers cannot be read: a table is nested too deeply, or has too many entries"

func (r *rules) refuse(l letter, now time.Time, why error) letter {
	l.action, l.reason = park, strings.TrimPrefix(why.Error(), "delayer: ")
	l.trip = r.returning(l.Delivery, now, l.reason, false)
	return l
}

// publishing is the message as it came, but for the user-id of another user and what asks for a
// delay. Headers that only Delayer writes are not passed on: a publisher has written them. Nor is
// what the Delayer's own queues have written into x-death.
func (r *rules) publishing(d *amqp091.Delivery) amqp091.Publishing {
	msg := message.Again(d, r.user)
	for _, name := range [...]string{xdelay.Header, ExchangeHeader, DelayHeader, DueHeader, message.NativeDelay, message.Hops, message.NewDelay, stateHeader, userHeader, attempt.Header} {
		delete(msg.Headers, name)
	}
	message.ForgetDeathsOf(msg.Headers, r.prefix)
	if d.UserId != "" && d.UserId != msg.UserId {
		msg.Headers[userHeader] = d.UserId
	}
	return msg
}

// returning is a message with all that restore needs.
func (r *rules) returning(d *amqp091.Delivery, now time.Time, reason string, due bool) amqp091.Publishing {
	s := attempt.First(r.Back, d)
	if reason != "" {
		s = s.Fail(now, reason)
		s.Reason = reason
	}
	msg := s.Publishing(d, r.limits.MaxPriority)
	msg.UserId = r.user
	state := amqp091.Table{"due": due}
	for key, header := range carriedHeaders {
		if value, ok := d.Headers[header]; ok {
			state[key] = value
			delete(msg.Headers, header)
		}
	}
	delete(msg.Headers, message.Hops) // whoever sends it from the parked ones has fixed the circle
	msg.Headers[stateHeader] = state
	return msg
}

// carriedHeaders are those that would delay a message on the way back, or end it: for a broker
// before 4.0, an x-death that names its destination is a circle.
var carriedHeaders = map[string]string{"delay": xdelay.Header, "native": message.NativeDelay, "deaths": "x-death"}

// ParkedAgain returns what says why an entry will park a message again that a user sends from its
// queue of parked ones, whatever else was fixed meanwhile, and what to do. Otherwise it says "".
func ParkedAgain(parked string) func(d *amqp091.Delivery, user, newDelay string) string {
	return func(d *amqp091.Delivery, user, newDelay string) string {
		const again = "it would be parked again: "
		deaths := message.Deaths(d.Headers)
		if len(deaths) > 0 && deaths[0].Queue == attempt.BackOf(parked) && deaths[0].Reason == "rejected" {
			return again + "the log of delayer serve says why. Export and purge it"
		}
		if why := unproxied(parked, d, user); why != "" {
			return again + why
		}
		if why := misread(d.Headers); newDelay == "" && why != "" {
			return again + why + ". Retry with another delay"
		}
		return ""
	}
}

// unproxied says why the proxy's entry, if parked is its queue, will not know where a message goes.
func unproxied(parked string, d *amqp091.Delivery, user string) string {
	prefix, name, _ := strings.Cut(parked, ".serve.parked.")
	if name != Proxied(prefix).Name {
		return ""
	}
	state, _ := attempt.Parked(d, time.Now())
	header, _ := d.Headers[ExchangeHeader].(string)
	_, known := behind(prefix, state.Original.Exchange, header)
	switch {
	case !known || d.UserId == "":
		return "it does not tell to which exchange it was published. Export and purge it"
	case d.UserId != user:
		return fmt.Sprintf("delayer serve believes its own user where a message goes. Retry as user %q", d.UserId)
	}
	return ""
}

// misread says why the delay of a parked message cannot be understood, or is "".
func misread(headers amqp091.Table) string {
	was := maps.Clone(headers)
	state, _ := was[stateHeader].(amqp091.Table)
	for key, header := range carriedHeaders {
		if value, ok := state[key]; ok {
			was[header] = value
		}
	}
	if _, err := read(was, time.Now()); err != nil {
		return strings.TrimPrefix(err.Error(), "delayer: ")
	}
	return ""
}

// restore returns a message of the queue Back as it first came to the entry, and whether it has
// waited for its delay. The user-id that it first had is believed only of a message that serve has
// published: the broker has checked the user-id that it has now.
func (r *rules) restore(d amqp091.Delivery, now time.Time) (was amqp091.Delivery, due bool) {
	if r.died(&d, "expired") {
		if r.spec.proxied && d.Exchange != named(r.prefix, "expired", r.spec.Name) { // forged, to reach another exchange
			return d, false
		}
		return unexpired(d), false
	}
	state, ok := d.Headers[stateHeader].(amqp091.Table)
	if !ok || r.died(&d, "rejected") { // a publisher may have written that
		return d, false
	}
	known := attempt.Of(r.Back, &d, now)
	id, ours := d.Headers[delayer.Header], d.UserId != "" && d.UserId == r.user
	d = known.Seen(d)
	d.UserId = ""
	if ours {
		d.UserId = known.Original.UserID
	} else if r.spec.proxied { // it is not known to which exchange it was published
		d.Exchange = ""
	}
	d.Headers = maps.Clone(d.Headers)
	if d.Headers == nil {
		d.Headers = amqp091.Table{}
	}
	delete(d.Headers, stateHeader)
	for key, header := range carriedHeaders {
		if value, ok := state[key]; ok {
			d.Headers[header] = value
		}
	}
	if value, is := d.Headers[message.NewDelay]; is {
		for _, name := range [...]string{xdelay.Header, DueHeader, message.NativeDelay, message.NewDelay} {
			delete(d.Headers, name)
		}
		d.Headers[DelayHeader] = value
	}
	due, _ = state["due"].(bool)
	if due && id != nil {
		d.Headers[delayer.Header] = id // as every delayed message has one
	}
	return d, due
}

// died reports whether a message was last dead-lettered from the entry's queue, and for a reason.
func (r *rules) died(d *amqp091.Delivery, reason string) bool {
	deaths := message.Deaths(d.Headers)
	return len(deaths) > 0 && deaths[0].Queue == r.Queue && deaths[0].Reason == reason
}

// unexpired takes back what the broker does to a message that expires.
func unexpired(d amqp091.Delivery) amqp091.Delivery {
	death := message.Deaths(d.Headers)[0]
	d.Expiration, d.Exchange = death.Expiration, death.Exchange
	headers := maps.Clone(d.Headers)
	if rest := headers["x-death"].([]any)[1:]; len(rest) > 0 {
		headers["x-death"] = rest
	} else {
		message.ForgetDeaths(headers)
	}
	d.Headers = headers
	return d
}

// Headers by which a publisher says when a message is to arrive, beside the plugin's x-delay, and
// where. Consumers do not see them.
const (
	DelayHeader    = "x-delayer-delay"    // a text: 30m
	DueHeader      = "x-delayer-due"      // a time: an AMQP timestamp, milliseconds since 1970, or RFC 3339
	ExchangeHeader = "x-delayer-exchange" // where an entry lets publishers choose
)

// read returns how long the headers of a message ask it to wait; 0: not at all. What cannot be
// understood is an error: nothing is early in silence.
func read(headers amqp091.Table, now time.Time) (time.Duration, error) {
	if value, is := headers[message.NativeDelay]; is { // backend native leaves it in what it has delivered
		if at, ok := value.(int64); !ok || at > now.UnixMilli() {
			return 0, errNative
		}
	}
	_, x := headers[xdelay.Header]
	delay, relative := headers[DelayHeader]
	due, absolute := headers[DueHeader]
	switch {
	case x && relative, x && absolute, relative && absolute:
		return 0, fmt.Errorf("it has two of the headers %s, %s and %s", xdelay.Header, DelayHeader, DueHeader)
	case relative:
		return readDelay(delay)
	case absolute:
		return readDue(due, now)
	}
	return xdelay.Of(headers)
}

func readDelay(value any) (time.Duration, error) {
	var d cli.Delay
	text, is := value.(string)
	if !is {
		return 0, fmt.Errorf("header %s is %s: write a text such as 90s, 30m or 2d", DelayHeader, xdelay.Kind(value))
	}
	if err := d.UnmarshalText([]byte(text)); err != nil {
		return 0, fmt.Errorf("header %s is %.64q: %w", DelayHeader, text, err)
	}
	if d < 0 {
		return 0, fmt.Errorf("header %s is %.64q, which is negative", DelayHeader, text)
	}
	return time.Duration(d), nil
}

func readDue(value any, now time.Time) (time.Duration, error) {
	var due time.Time
	switch v := value.(type) {
	case time.Time:
		const year9999 = 253_402_300_799 // AMQP has 64 bits for the seconds, and package time fewer
		if s := v.Unix(); s < 0 || s > year9999 {
			return 0, fmt.Errorf("header %s is a timestamp after the year 9999", DueHeader)
		}
		due = v
	case string:
		ms, err := strconv.ParseInt(v, 10, 64)
		if err == nil {
			return readDue(ms, now)
		}
		if errors.Is(err, strconv.ErrRange) {
			return 0, fmt.Errorf("header %s is %.64q: %w", DueHeader, v, strconv.ErrRange)
		}
		if due, err = time.Parse(time.RFC3339, v); err != nil {
			return 0, fmt.Errorf("header %s is %.64q: write a time such as 2027-01-31T18:00:00Z", DueHeader, v)
		}
	default:
		ms, is := xdelay.Integer(value)
		if !is {
			return 0, fmt.Errorf("header %s is %s: write a timestamp, milliseconds since 1970, or a time such as 2027-01-31T18:00:00Z",
				DueHeader, xdelay.Kind(value))
		}
		const year1973 = 100_000_000_000 // seconds of the years up to 5138 are less
		if ms < year1973 {
			return 0, fmt.Errorf("header %s is %d: it must be in milliseconds since 1970, and that looks like seconds", DueHeader, ms)
		}
		due = time.UnixMilli(ms)
	}
	left := due.Sub(now)
	if left == math.MaxInt64 { // what Sub returns for more
		return 0, fmt.Errorf("header %s is more than 292 years away", DueHeader)
	}
	return max(0, left), nil
}
