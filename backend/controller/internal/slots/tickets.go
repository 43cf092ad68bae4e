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
	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/bundle"
)

// A ticket names a message that may be changed. Its text is "d2." and the base64 (URL, without
// padding) of
//
//	wheel     8 bytes of the hash of vhost, prefix and slots
//	due       varint, ms since 1970 by the broker's clock
//	id        of the message: the rest
//	checksum  4 bytes
type ticket struct {
	id  string
	due brokertime.Due
}

const (
	beginTicket       = "d2."
	ofWheel, checksum = 8, 4 // bytes
)

// Why a text is not a ticket.
var (
	errDamaged = errors.New("it is not a ticket, or damaged")
	errOthers  = errors.New("it is of another vhost or prefix, or of other slots")
)

var ticketEncoding = base64.RawURLEncoding.Strict()

// tickets writes and reads the tickets of one wheel: it holds what they begin with.
type tickets [ofWheel]byte

func newTickets(vhost, prefix, slots string) tickets {
	hash := sha256.Sum256([]byte(vhost + "\x00" + prefix + "\x00" + slots))
	return tickets(hash[:ofWheel])
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
	coded, ok := strings.CutPrefix(string(text), beginTicket)
	b, err := ticketEncoding.DecodeString(coded)
	if !ok || err != nil || len(b) < len(of)+checksum {
		return t, errDamaged
	}
	rest, check := b[:len(b)-checksum], binary.BigEndian.Uint32(b[len(b)-checksum:])
	if crc32.ChecksumIEEE(rest) != check {
		return t, errDamaged
	}
	if string(rest[:len(of)]) != string(of[:]) {
		return t, errOthers
	}
	at, size := binary.Varint(rest[len(of):])
	if size <= 0 {
		return t, errDamaged
	}
	t = ticket{id: string(rest[len(of)+size:]), due: brokertime.Due(at)}
	if t.id == "" || len(t.id) > bundle.MaxID || !t.due.Valid() || of.write(t) != text {
		return ticket{}, errDamaged
	}
	return t, nil
}
