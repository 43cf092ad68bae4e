package slots

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"
	"strings"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller/internal/bundle"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
)

// A ticket names a message that may be changed. Its text is "d2." and the base64 (URL, without
// padding) of
//
//	vhost     3 bytes of the hash of the vhost
//	prefix    3 bytes of the hash of the prefix
//	wheel     2 bytes of the hash of the wheel
//	due       varint, ms since 1970 by the broker's clock
//	id        of the message: the rest
//	checksum  4 bytes
type ticket struct {
	id  string
	due brokertime.Due
}

const (
	beginTicket, beginOldTicket = "d2.", "d1."
	ofVhost, ofPrefix, ofWheel  = 3, 3, 2 // bytes
	checksum                    = 4
)

// Why a text is not a ticket.
var (
	errDamaged = errors.New("it is not a ticket, or damaged")
	errOld     = errors.New("it is of an earlier version of Delayer, whose messages this one does not deliver")
	errVhost   = errors.New("it is of another vhost")
	errPrefix  = errors.New("it is of a Delayer with another prefix")
	errWheel   = errors.New("it is of a wheel with other slots")
)

var ticketEncoding = base64.RawURLEncoding.Strict()

// tickets writes and reads the tickets of one wheel: it holds what they begin with.
type tickets [ofVhost + ofPrefix + ofWheel]byte

func newTickets(vhost, prefix, wheel string) (of tickets) {
	part := of[:0]
	for _, p := range [...]struct {
		text string
		size int
	}{{vhost, ofVhost}, {prefix, ofPrefix}, {wheel, ofWheel}} {
		hash := sha256.Sum256([]byte(p.text))
		part = append(part, hash[:p.size]...)
	}
	return of
}

func (of tickets) write(t ticket) delayer.Ticket {
	b := slices.Clone(of[:])
	b = binary.AppendVarint(b, int64(t.due))
	b = append(b, t.id...)
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	return delayer.Ticket(beginTicket + ticketEncoding.EncodeToString(b))
}

// read reverses write. Each ticket has one text only.
func (of tickets) read(text delayer.Ticket) (t ticket, err error) {
	if strings.HasPrefix(string(text), beginOldTicket) {
		return t, errOld
	}
	coded, ok := strings.CutPrefix(string(text), beginTicket)
	b, err := ticketEncoding.DecodeString(coded)
	if !ok || err != nil || len(b) < len(of)+checksum {
		return t, errDamaged
	}
	rest, check := b[:len(b)-checksum], binary.BigEndian.Uint32(b[len(b)-checksum:])
	if crc32.ChecksumIEEE(rest) != check {
		return t, errDamaged
	}
	const wheelAt = ofVhost + ofPrefix
	switch {
	case string(rest[:ofVhost]) != string(of[:ofVhost]):
		return t, errVhost
	case string(rest[ofVhost:wheelAt]) != string(of[ofVhost:wheelAt]):
		return t, errPrefix
	case string(rest[wheelAt:len(of)]) != string(of[wheelAt:]):
		return t, errWheel
	}
	if t, ok = ticketFields(rest[len(of):]); !ok || of.write(t) != text {
		return ticket{}, errDamaged
	}
	return t, nil
}

func ticketFields(b []byte) (t ticket, ok bool) {
	at, size := binary.Varint(b)
	if size <= 0 {
		return t, false
	}
	t = ticket{id: string(b[size:]), due: brokertime.Due(at)}
	return t, validID(t.id) && t.due.Valid()
}

// validID reports whether an id may be one of ours, or a user's.
func validID(id string) bool { return id != "" && len(id) <= bundle.MaxID }
