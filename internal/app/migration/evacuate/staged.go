package evacuate

import (
	"errors"
	"fmt"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/migration/node"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// RowHeader is the header of evacuated messages that their consumers see beside [delayer.Header].
// It is the id of the row in the plugin's table: copies of a message carry the same.
const RowHeader = "x-delayer-row"

// The further headers of a message in our queues. The message's own properties and headers are in
// one of them, encoded: there CC routes nothing, and an expiration does not run.
const (
	nodeHeader       = "x-delayer-row-node"
	dueHeader        = "x-delayer-row-due"
	exchangeHeader   = "x-delayer-row-exchange"
	keysHeader       = "x-delayer-row-keys"
	propertiesHeader = "x-delayer-row-properties"
	reasonHeader     = "x-delayer-refused"
)

// A staged message is a row on its way.
type staged struct {
	ID, Node   string
	Due        int64 // by the node's clock, in milliseconds
	Exchange   string
	Keys       []string
	Properties []byte
	Body       []byte
}

func newStaged(name string, r node.Row) staged {
	return staged{r.ID, name, r.Due, r.Exchange, r.Keys, r.Properties, r.Body}
}

// publishing is the message as our queues have it.
func (s staged) publishing() amqp091.Publishing {
	keys := make([]any, len(s.Keys))
	for i, key := range s.Keys {
		keys[i] = key
	}
	return amqp091.Publishing{
		DeliveryMode: amqp091.Persistent, Body: s.Body,
		Headers: amqp091.Table{
			delayer.Header: message.NewEnvelope(time.UnixMilli(s.Due), 0, s.Exchange).String(),
			RowHeader:      s.ID, nodeHeader: s.Node, dueHeader: s.Due, exchangeHeader: s.Exchange, keysHeader: keys,
			propertiesHeader: s.Properties,
		},
	}
}

func parseStaged(headers amqp091.Table, body []byte) (s staged, err error) {
	ok := [6]bool{}
	s.ID, ok[0] = headers[RowHeader].(string)
	s.Node, ok[1] = headers[nodeHeader].(string)
	s.Due, ok[2] = headers[dueHeader].(int64)
	s.Exchange, ok[3] = headers[exchangeHeader].(string)
	keys, isList := headers[keysHeader].([]any)
	ok[4] = isList && len(keys) > 0
	s.Properties, ok[5] = headers[propertiesHeader].([]byte)
	for _, key := range keys {
		text, isText := key.(string)
		ok[4] = ok[4] && isText
		s.Keys = append(s.Keys, text)
	}
	s.Body = body
	if ok != [6]bool{true, true, true, true, true, true} {
		return s, errors.New("it is not a message that was evacuated")
	}
	return s, nil
}

// original returns the message as it was published, with RowHeader and without x-delay. A row has
// the keys of CC, which its headers have too, and those of BCC, which the broker has taken away.
func (s staged) original() (key string, msg amqp091.Publishing, err error) {
	if msg, err = node.DecodeProperties(s.Properties); err != nil {
		return "", msg, err
	}
	if len(s.Keys) == 0 {
		return "", msg, errors.New("it has no routing key")
	}
	if msg.Headers == nil {
		msg.Headers = amqp091.Table{}
	}
	delete(msg.Headers, "x-delay")
	cc, _ := msg.Headers["CC"].([]any)
	if bcc := s.Keys[min(len(s.Keys), 1+len(cc)):]; len(bcc) > 0 {
		list := make([]any, len(bcc))
		for i, key := range bcc {
			list[i] = key
		}
		msg.Headers["BCC"] = list
	}
	msg.Headers[RowHeader] = s.ID
	msg.Body = s.Body
	return s.Keys[0], msg, nil
}

// unfit says why the Delayer would refuse a message that the plugin can deliver, or "".
func (r *run) unfit(s staged, row node.Row) string {
	if row.Unreadable != "" {
		return "the node cannot read it: " + row.Unreadable
	}
	frame, _, _ := r.store.writing.Server()
	l := r.Delayer.Limits()
	return unfit(s, r.Prefix, r.clocks[s.Node].Until(s.Due), l.Max, message.Limits{FrameSize: frame, User: r.store.writing.User(), MaxPriority: l.MaxPriority})
}

func unfit(s staged, prefix string, remaining, longest time.Duration, lim message.Limits) string {
	key, msg, err := s.original()
	if err != nil {
		return err.Error()
	}
	if remaining > longest {
		return fmt.Sprintf("it is due in more than %v, the longest delay of the configuration", longest)
	}
	if strings.HasPrefix(s.Exchange, prefix+".") {
		return fmt.Sprintf("the exchange begins with the prefix %q of the Delayer", prefix)
	}
	if err := message.Validate(s.Exchange, key, &msg, lim); err != nil {
		return err.Error()
	}
	if moved := s.publishing(); lim.FrameSize > 0 && !message.Fits(&moved, lim.FrameSize-reserve) {
		return "its headers are too large to be moved"
	}
	return ""
}

// reserve is what the queue for refused messages adds to the headers, and the frame around them.
const reserve = 2 << 10
