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
	const fields = 2 + 5*binary.MaxVarintLen64 + 4*binary.MaxVarintLen32
	return fields + len(r.ID) + len(r.To) + len(r.User) + len(r.Payload)
}

const (
	// MaxID is how long an id may be, in bytes; it may have any bytes.
	MaxID = 48
	maxTo = 600 // an exchange and a routing key
	// minRecord is the size of the smallest record: a mark, with a kind, a due time and a place.
	minRecord = 2
)

// append appends a record. Its due time is written as the difference to that of the last.
func (r *Record) append(to []byte, last brokertime.Due, inSlot bool) []byte {
	to = append(to, byte(r.Kind))
	to = binary.AppendVarint(to, int64(r.Due-last))
	if r.Kind == Mark {
		return to
	}
	to = appendText(to, r.ID)
	if inSlot {
		to = binary.AppendUvarint(to, uint64(r.At))
	}
	switch r.Kind {
	case Message:
		to = append(to, flag(r.Ticket))
		to = binary.AppendVarint(to, int64(r.Left))
		to = binary.AppendVarint(to, int64(r.Own))
		to = binary.AppendVarint(to, int64(r.Wanted))
		to = appendText(appendText(to, r.User), r.To)
		to = appendText(to, r.Payload)
	case Postpone:
		to = binary.AppendVarint(to, int64(r.Next-r.Due))
	}
	return to
}

// read reverses append. It is false for what no Delayer writes.
func (r *Record) read(from *reader, last brokertime.Due, inSlot bool) bool {
	r.Kind = Kind(from.byte())
	r.Due = last + brokertime.Due(from.varint())
	known := r.Due.Valid()
	switch {
	case from.left == nil || !known && r.Due != 0:
		return false
	case r.Kind == Mark:
		return true
	}
	r.ID = from.text(MaxID)
	if inSlot {
		r.At = int64(from.uvarint())
	}
	switch r.Kind {
	case Message:
		r.Ticket = from.flag()
		r.Left, r.Own = time.Duration(from.varint()), time.Duration(from.varint())
		r.Wanted = brokertime.Due(from.varint())
		r.User, r.To = from.text(maxShort), from.destination()
		r.Payload = from.bytes(from.uvarint())
		switch {
		case inSlot && !known, r.Left < 0 || r.Left > longest, known && r.Left != 0, r.Wanted != 0 && !r.Wanted.Valid():
			return false
		}
	case Cancel:
		if !known {
			return false
		}
	case Postpone:
		r.Next = r.Due + brokertime.Due(from.varint())
		if !known || !r.Next.Valid() {
			return false
		}
	default:
		return false
	}
	return from.left != nil && r.ID != "" && r.At >= 0
}

// destination reads that of a message, which is often the last one's.
func (r *reader) destination() string {
	if next := r.short(maxTo); string(next) != r.to {
		r.to = string(next)
	}
	return r.to
}

// longest is the longest delay: no sum of delays and times overflows.
const longest = 200 * 365 * 24 * time.Hour
