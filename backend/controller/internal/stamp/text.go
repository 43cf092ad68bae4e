package stamp

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// A stamp is written as a text, since a table of as many fields costs the broker and its clients
// several times more to read. It begins as [message.Stamp] says. Then come the clock, the due time,
// the hop and what is left after it in ns, the due time by the broker's clock in ms, and t for a
// ticket or - for none. The priority, if there is one, later due times, the
// destinations and the BCC follow, each with its letter:
//
//	3:key 5BQ2… 71034 0 5000000000 1795329200000 - p9 n1795329210000 d26:~d:=… b5:copy1
const (
	withTicket, withoutTicket            = 't', '-'
	aPriority, aNext, aDestination, aBCC = 'p', 'n', 'd', 'b'
)

// Header is the stamp as a message carries it.
func (s Stamp) Header() amqp091.Table { return amqp091.Table{message.Stamp: s.text()} }

func (s Stamp) text() string {
	const usual = 192 // bytes
	text := message.AppendUserKey(make([]byte, 0, usual), s.Key)
	text = append(append(text, ' '), s.Clock...)
	for _, number := range [...]int64{int64(s.OwnDue), int64(s.Hop), int64(s.Left), int64(s.Due)} {
		text = strconv.AppendInt(append(text, ' '), number, 10)
	}
	of := byte(withoutTicket)
	if s.Ticket {
		of = withTicket
	}
	text = append(text, ' ', of)
	if s.Priority > 0 {
		text = strconv.AppendInt(append(text, ' ', aPriority), int64(s.Priority), 10)
	}
	for _, next := range s.Then {
		text = strconv.AppendInt(append(text, ' ', aNext), int64(next), 10)
	}
	for _, key := range s.To {
		text = message.AppendKey(append(text, ' ', aDestination), key.(string))
	}
	for _, key := range s.BCC {
		text = message.AppendKey(append(text, ' ', aBCC), key.(string))
	}
	return string(text)
}

// Read reverses Header. The error says why the message is foreign.
func Read(headers amqp091.Table) (Stamp, error) {
	value, there := headers[message.Stamp]
	if !there {
		return Stamp{}, fmt.Errorf("no header %s", message.Stamp)
	}
	text, ok := value.(string)
	if !ok {
		return Stamp{}, fmt.Errorf("header %s is a %T", message.Stamp, value)
	}
	s, err := parse(text)
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return Stamp{}, fmt.Errorf("header %s %w", message.Stamp, err)
	}
	return s, nil
}

var (
	errTimes = errors.New("lacks its times")
	errKeys  = errors.New("has keys that cannot be read")
)

func parse(text string) (s Stamp, err error) {
	key, rest, ok := message.CutUserKey(text)
	if ok {
		rest, ok = strings.CutPrefix(rest, " ")
	}
	if !ok {
		return s, errKeys
	}
	s.Key = key
	s.Clock, rest, _ = strings.Cut(rest, " ")
	var times [4]int64
	for i := range times {
		var number string
		number, rest, _ = strings.Cut(rest, " ")
		if times[i], err = strconv.ParseInt(number, 10, 64); err != nil {
			return s, errTimes
		}
	}
	s.OwnDue, s.Hop, s.Left = time.Duration(times[0]), time.Duration(times[1]), time.Duration(times[2])
	s.Due = brokertime.Due(times[3])
	if rest == "" || rest[0] != withTicket && rest[0] != withoutTicket {
		return s, errTimes
	}
	s.Ticket = rest[0] == withTicket
	return s, s.parseFields(rest[1:])
}

// parseFields reads what follows, each field with its letter.
func (s *Stamp) parseFields(text string) error {
	for text != "" {
		const before = len(" d")
		if len(text) < before || text[0] != ' ' {
			return errKeys
		}
		var field string
		letter := text[1]
		text = text[before:]
		switch letter {
		case aPriority:
			field, text = cutField(text)
			priority, err := strconv.ParseUint(field, 10, 8)
			if err != nil {
				return errTimes
			}
			s.Priority = uint8(priority)
		case aNext:
			field, text = cutField(text)
			next, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				return errTimes
			}
			s.Then = append(s.Then, brokertime.Due(next))
		case aDestination, aBCC:
			key, rest, ok := message.CutKey(text)
			if !ok {
				return errKeys
			}
			list := &s.To
			if letter == aBCC {
				list = &s.BCC
			}
			*list, text = append(*list, key), rest
		default:
			return errKeys
		}
	}
	return nil
}

// cutField returns what is before the next space, and the rest from that space on.
func cutField(text string) (field, rest string) {
	end := strings.IndexByte(text, ' ')
	if end < 0 {
		return text, ""
	}
	return text[:end], text[end:]
}

// check refuses what no controller writes.
func (s Stamp) check() error {
	switch {
	case s.Clock == "":
		return errTimes
	case s.Hop < 0 || s.Hop > Longest || s.Left > Longest || s.Left < -Longest || s.OwnDue < 0:
		return errors.New("has impossible times")
	case s.Due != 0 && !s.Due.Valid():
		return errors.New("has an impossible due time")
	case slices.ContainsFunc(s.Then, func(d brokertime.Due) bool { return !d.Valid() }):
		return errors.New("has an impossible later due time")
	case len(s.To) == 0:
		return errors.New("has no destination")
	}
	for _, key := range s.To {
		if !strings.HasPrefix(key.(string), message.Reserved) {
			return fmt.Errorf("has the destination %.64q", key)
		}
	}
	return nil
}
