package controller

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/backend/controller/internal/ticket"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// A stamp is written as a text, since a table of as many fields costs the broker and its clients
// several times more to read. It begins as [message.Stamp] says. Then come the clock, the due time,
// the hop and what is left after it in ns, the due time by the broker's clock and since when in ms,
// and t for a ticket or - for none. The destinations and the BCC follow, each with its letter:
//
//	3:key 5BQ2… 71034 0 5000000000 1795329200000 1795329195000 - d26:~d:=… b5:copy1
const (
	withTicket, withoutTicket = 't', '-'
	aDestination, aBCC        = 'd', 'b'
)

// header is the stamp as a message carries it.
func (s stamp) header() amqp091.Table { return amqp091.Table{message.Stamp: s.text()} }

func (s stamp) text() string {
	const usual = 192 // bytes
	text := message.AppendUserKey(make([]byte, 0, usual), s.key)
	text = append(append(text, ' '), s.clock...)
	for _, number := range [...]int64{int64(s.due), int64(s.hop), int64(s.left), s.at, s.since} {
		text = strconv.AppendInt(append(text, ' '), number, 10)
	}
	of := byte(withoutTicket)
	if s.ticket {
		of = withTicket
	}
	text = append(text, ' ', of)
	for _, key := range s.to {
		text = message.AppendKey(append(text, ' ', aDestination), key.(string))
	}
	for _, key := range s.bcc {
		text = message.AppendKey(append(text, ' ', aBCC), key.(string))
	}
	return string(text)
}

// readStamp reverses header. The error says why the message is foreign.
func readStamp(headers amqp091.Table) (stamp, error) {
	value, there := headers[message.Stamp]
	if !there {
		return stamp{}, fmt.Errorf("no header %s", message.Stamp)
	}
	text, ok := value.(string)
	if !ok {
		return stamp{}, fmt.Errorf("header %s is a %T", message.Stamp, value)
	}
	s, err := parseStamp(text)
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return stamp{}, fmt.Errorf("header %s %w", message.Stamp, err)
	}
	return s, nil
}

var (
	errTimes = errors.New("lacks its times")
	errKeys  = errors.New("has keys that cannot be read")
)

func parseStamp(text string) (s stamp, err error) {
	key, rest, ok := message.CutUserKey(text)
	if ok {
		rest, ok = strings.CutPrefix(rest, " ")
	}
	if !ok {
		return s, errKeys
	}
	s.key = key
	s.clock, rest, _ = strings.Cut(rest, " ")
	var times [5]int64
	for i := range times {
		var number string
		number, rest, _ = strings.Cut(rest, " ")
		if times[i], err = strconv.ParseInt(number, 10, 64); err != nil {
			return s, errTimes
		}
	}
	s.due, s.hop, s.left, s.at, s.since = time.Duration(times[0]), time.Duration(times[1]), time.Duration(times[2]), times[3], times[4]
	if rest == "" || rest[0] != withTicket && rest[0] != withoutTicket {
		return s, errTimes
	}
	s.ticket = rest[0] == withTicket
	return s, s.parseKeys(rest[1:])
}

// parseKeys reads the destinations and the BCC.
func (s *stamp) parseKeys(text string) error {
	for text != "" {
		const before = len(" d")
		if len(text) <= before || text[0] != ' ' {
			return errKeys
		}
		list := &s.to
		if text[1] == aBCC {
			list = &s.bcc
		} else if text[1] != aDestination {
			return errKeys
		}
		key, rest, ok := message.CutKey(text[before:])
		if !ok {
			return errKeys
		}
		*list, text = append(*list, key), rest
	}
	return nil
}

// check refuses what no controller writes.
func (s stamp) check() error {
	switch {
	case s.clock == "":
		return errTimes
	case s.hop < 0 || s.hop > longest || s.left > longest || s.left < -longest || s.due < 0:
		return errors.New("has impossible times")
	case s.at < 0 || s.at > ticket.Latest:
		return errors.New("has an impossible due time")
	case s.since < 0 || s.since > ticket.Latest:
		return errors.New("was reckoned at an impossible time")
	case len(s.to) == 0:
		return errors.New("has no destination")
	}
	for _, key := range s.to {
		if !strings.HasPrefix(key.(string), message.Reserved) {
			return fmt.Errorf("has the destination %.64q", key)
		}
	}
	return nil
}
