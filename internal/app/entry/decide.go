package entry

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
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
)

// actions are their names, in logs and metrics.
var actions = [...]string{straight: "at_once", delayed: "delayed", tour: "delayed_to_come_back", park: "parked"}

// A letter is a message with what to do about it.
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
}

// rules decide. They are pure.
type rules struct {
	Names
	spec        Spec
	to          Destinations
	limits      delayer.Limits
	user        string                               // of the connection
	impersonate bool                                 // this user may publish with the user-id of another
	trust       bool                                 // a timestamp is when the message was published
	brokers     func() (earliest time.Time, ok bool) // a time that the broker's clock has reached; asked for if trust is set
	keep        bool                                 // every delayed message comes back, and gets its x-delay header
	turns       bool                                 // the plugin of this broker turns the sign of the header
}

// stateHeader is the header of a message on its way back to the entry, with what the header of
// package attempt has no room for.
const stateHeader = "x-delayer-entry"

// userHeader has the user-id that the broker does not let this user publish.
const userHeader = "x-delayer-user-id"

// decide says what to do with a message of a queue.
func (r *rules) decide(queue string, d *amqp091.Delivery, now time.Time) letter {
	due := false
	if queue == r.Back {
		*d, due = r.restore(*d, now)
	}
	l := letter{Delivery: d, from: queue}
	l.out, l.odd = r.publishing(d)
	if _, is := d.Headers[broker.UnreadableHeader]; is {
		return r.refuse(l, now, errors.New(unreadable))
	}
	asked, err := read(d.Headers, now)
	if err == nil {
		l.to, err = r.to.of(d.Headers)
	}
	if err != nil {
		return r.refuse(l, now, err)
	}
	if name := xdelay.Misspelt(d.Headers); name != "" {
		l.odd = fmt.Sprintf("header %q is not known (write %q): such a message goes at once", name, xdelay.Header)
	}
	if asked.delay == 0 {
		return r.hop(l, now)
	}
	l.delay = asked.delay
	if !asked.absolute {
		l.delay = r.left(asked.delay, d, now)
	}
	if due || l.delay == 0 {
		l.action, l.delay = straight, 0
		if _, is := l.out.Headers[xdelay.Header]; is && r.turns {
			l.out.Headers[xdelay.Header] = -asked.delay.Milliseconds()
		}
		return r.hop(l, now)
	}
	l.action = delayed
	delete(l.out.Headers, xdelay.Header)
	if r.keep || !r.carried(d) {
		if !r.turns && d.Exchange == r.to.To { // it would ask for its delay each time
			return r.refuse(l, now, r.circle(d))
		}
		l.action, l.trip = tour, r.returning(d, now, "", true)
	}
	return l
}

// mostHops is how many entries a message may pass at once, one after the other. A circle of several
// exchanges that are bound to each other multiplies it each time.
const mostHops = 8

// hop counts, for a message that goes at once, whether it goes in a circle: somebody may have bound
// the destination to the entry. What a publisher publishes here has passed nothing yet. What comes
// through a binding was published to another exchange.
func (r *rules) hop(l letter, now time.Time) letter {
	if l.from != r.Queue || l.Exchange == r.spec.Name {
		return l
	}
	passed, _ := xdelay.Integer(l.Headers[message.Hops])
	if passed >= mostHops {
		return r.refuse(l, now, r.circle(l.Delivery))
	}
	l.out.Headers[message.Hops] = max(passed, 0) + 1
	return l
}

func (r *rules) circle(d *amqp091.Delivery) error {
	return fmt.Errorf("it goes in a circle: it came back through exchange %.120q, from which a binding leads to %.120q", d.Exchange, r.spec.Name)
}

const unreadable = "its headers cannot be read: a table is nested too deeply, or has too many entries"

// refuse parks a message.
func (r *rules) refuse(l letter, now time.Time, why error) letter {
	l.action, l.reason = park, strings.TrimPrefix(why.Error(), "delayer: ")
	l.trip = r.returning(l.Delivery, now, l.reason, false)
	return l
}

// left is what remains of a delay. The time that the broker wrote is compared with the broker's
// clock, and as long as that is not known the delay counts from now. The publisher's is compared
// with this machine's.
func (r *rules) left(delay time.Duration, d *amqp091.Delivery, now time.Time) time.Duration {
	ms, received := xdelay.Integer(d.Headers[receivedHeader])
	switch {
	case !r.trust:
		return delay
	case received:
		earliest, known := r.brokers()
		if !known {
			return delay
		}
		return rest(delay, time.UnixMilli(ms).Add(time.Millisecond), earliest)
	case d.Timestamp.IsZero():
		return delay
	}
	return rest(delay, d.Timestamp.Add(time.Second), now) // in whole seconds: it was at most a second after that
}

// rest is what remains of a delay at a time, by the clock that says when it began.
func rest(delay time.Duration, began, now time.Time) time.Duration {
	waited := max(now.Sub(began), 0) // a clock may be ahead
	return max(delay-waited, 0)
}

// receivedHeader is written by the broker where its message interceptor says so: when it got the
// message, in ms since 1970.
const receivedHeader = "timestamp_in_ms"

// carried reports whether the Delayer delivers a message as it is.
func (r *rules) carried(d *amqp091.Delivery) bool {
	return d.Expiration == "" && d.Priority <= r.limits.MaxPriority && (d.UserId == "" || d.UserId == r.user || !r.impersonate)
}

// publishing is the message as it came, but for a user-id that the broker would refuse.
func (r *rules) publishing(d *amqp091.Delivery) (msg amqp091.Publishing, odd string) {
	user := r.user
	if r.impersonate {
		user = d.UserId
	}
	msg = message.Again(d, user)
	for _, name := range [...]string{ExchangeHeader, DelayHeader, DueHeader, message.Hops} {
		delete(msg.Headers, name)
	}
	if r.trust { // whoever publishes it again would otherwise have its delay count from now
		delete(msg.Headers, receivedHeader)
	}
	if d.UserId != "" && d.UserId != msg.UserId {
		msg.Headers[userHeader] = d.UserId
		odd = fmt.Sprintf("the user-id %q goes into header %s, because the broker lets user %q publish its own only "+
			"(give that user the tag impersonator)", d.UserId, userHeader, r.user)
	}
	return msg, odd
}

// returning is a message with all that restore needs.
func (r *rules) returning(d *amqp091.Delivery, now time.Time, reason string, due bool) amqp091.Publishing {
	s := attempt.First(r.Back, d)
	if reason != "" {
		s = s.Fail(now, reason)
		s.Reason = reason
	}
	msg := s.Publishing(d, r.limits.MaxPriority)
	state := amqp091.Table{"due": due}
	for key, header := range carriedHeaders {
		if value, ok := d.Headers[header]; ok {
			state[key] = value
		}
	}
	delete(msg.Headers, xdelay.Header)
	delete(msg.Headers, message.Hops) // whoever sends it from the parked ones has mended the circle
	msg.Headers[stateHeader] = state
	return msg
}

// carriedHeaders are those that are lost or replaced on the way back.
var carriedHeaders = map[string]string{"delay": xdelay.Header, "retry": attempt.Header}

// restore returns a message of the queue Back as it first came to the entry, and whether it has
// waited for its delay.
func (r *rules) restore(d amqp091.Delivery, now time.Time) (was amqp091.Delivery, due bool) {
	if r.expired(&d) {
		return unexpired(d), false
	}
	state, ok := d.Headers[stateHeader].(amqp091.Table)
	if !ok || r.rejected(&d) { // a publisher may have written that
		return d, false
	}
	known := attempt.Of(r.Back, &d, now)
	id := d.Headers[delayer.Header]
	d = known.Seen(d)
	d.UserId = known.Original.UserID
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
	due, _ = state["due"].(bool)
	if due && id != nil {
		d.Headers[delayer.Header] = id // as every delayed message has one
	}
	return d, due
}

// expired reports whether a message has just expired in the entry's queue, and rejected whether it
// was rejected there.
func (r *rules) expired(d *amqp091.Delivery) bool  { return r.died(d, "expired") }
func (r *rules) rejected(d *amqp091.Delivery) bool { return r.died(d, "rejected") }

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
