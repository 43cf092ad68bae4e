package bundle

import (
	"encoding/binary"
	"time"

	"github.com/delayer-go/delayer/internal/lib/brokertime"
)

// A Kind says what a record is.
type Kind uint8

// The kinds.
const (
	Message  Kind = iota // to be delivered when it is due
	Cancel               // drops the message of this id and due time
	Postpone             // makes that message due at Next instead
	Mark                 // comes back to the leader that wrote it: all before it has been read
	kinds
)

// A Record is one entry of a bundle.
type Record struct {
	Kind   Kind
	ID     string         // of the message; of a change, that of the message that it is for
	Due    brokertime.Due // when that is due. Zero: the broker's time was not known
	At     int64          // its place in the log: of two with the same due time the lower is older. In slots only
	Next   brokertime.Due // of a Postpone
	Ticket bool           // the message may be changed, and is delivered once for its id and due time

	Left time.Duration // of a message without a due time: what remained of its delay when it was written
	Own  time.Duration // the due time by the clock of the process that wrote the bundle; 0: unknown

	Wanted brokertime.Due // of a message that was refused: when it was due before; 0: it was not

	To      string // names the destination of a message
	User    string // that has published it, if the message has a user-id; believed only if the broker has checked it
	Payload []byte // the message
}

// Size is how many bytes a record takes in a bundle, at most.
func (r *Record) Size() int {
	const fields = 1 + 6*binary.MaxVarintLen64 + 4*binary.MaxVarintLen32
	return fields + len(r.ID) + len(r.To) + len(r.User) + len(r.Payload)
}

const (
	// MaxID is how long an id may be, in bytes; it may have any bytes.
	MaxID = 48
	maxTo = 600 // an exchange and a routing key
	// minRecord is the size of the smallest record: a mark, with a kind, a due time and a place.
	minRecord = 2

	kindBits            = 0x03
	flagTicket    uint8 = 1 << 2
	flagLeft      uint8 = 1 << 3
	flagOwn       uint8 = 1 << 4
	flagUser      uint8 = 1 << 5
	flagWanted    uint8 = 1 << 6
	unknownRecord uint8 = 0x80
)

// append appends a record. Its due time is written as the difference to that of the last.
func (r *Record) append(to []byte, last brokertime.Due, inSlot bool) []byte {
	first := uint8(r.Kind)
	if r.Ticket {
		first |= flagTicket
	}
	if r.Left != 0 {
		first |= flagLeft
	}
	if r.Own != 0 {
		first |= flagOwn
	}
	if r.User != "" {
		first |= flagUser
	}
	if r.Wanted != 0 {
		first |= flagWanted
	}
	to = append(to, first)
	to = binary.AppendVarint(to, int64(r.Due-last))
	if r.Kind == Mark {
		return to
	}
	to = appendText(to, r.ID)
	if inSlot {
		to = binary.AppendUvarint(to, uint64(r.At))
	}
	if first&flagLeft != 0 {
		to = binary.AppendVarint(to, int64(r.Left))
	}
	if first&flagOwn != 0 {
		to = binary.AppendVarint(to, int64(r.Own))
	}
	switch r.Kind {
	case Message:
		if r.Wanted != 0 {
			to = binary.AppendVarint(to, int64(r.Wanted))
		}
		if r.User != "" {
			to = appendText(to, r.User)
		}
		to = appendText(appendText(to, r.To), r.Payload)
	case Postpone:
		to = binary.AppendVarint(to, int64(r.Next-r.Due))
	}
	return to
}

// read reverses append. It is false for what no Delayer writes.
func (r *Record) read(from *reader, last brokertime.Due, inSlot bool) bool {
	first := from.byte()
	r.Kind = Kind(first & kindBits)
	r.Ticket = first&flagTicket != 0
	r.Due = last + brokertime.Due(from.varint())
	if first&unknownRecord != 0 || r.Due != 0 && !r.Due.Valid() {
		return false
	}
	if r.Kind == Mark {
		return first == uint8(Mark) && from.left != nil
	}
	r.ID = from.text(MaxID)
	if inSlot {
		r.At = int64(from.uvarint())
	}
	if first&flagLeft != 0 {
		r.Left = time.Duration(from.varint())
	}
	if first&flagOwn != 0 {
		r.Own = time.Duration(from.varint())
	}
	switch r.Kind {
	case Message:
		if first&flagWanted != 0 {
			r.Wanted = brokertime.Due(from.varint())
		}
		if first&flagUser != 0 {
			r.User = from.text(maxShort)
		}
		r.To = from.sameText(maxTo)
		r.Payload = from.bytes(from.uvarint())
		if r.Due == 0 && inSlot || r.Left < 0 || r.Left > longest || r.Due != 0 && r.Left != 0 || r.Wanted != 0 && !r.Wanted.Valid() {
			return false
		}
	case Cancel:
		if first != uint8(Cancel) || r.Due == 0 {
			return false
		}
	case Postpone:
		r.Next = r.Due + brokertime.Due(from.varint())
		if first != uint8(Postpone) || r.Due == 0 || !r.Next.Valid() {
			return false
		}
	}
	return from.left != nil && r.ID != "" && r.At >= 0
}

// longest is the longest delay: no sum of delays and times overflows.
const longest = 200 * 365 * 24 * time.Hour
