// Package ticket writes and reads the tickets of scheduled messages. It is pure.
//
// A ticket is "d1." and the base64 (URL, without padding) of
//
//	prefix    4 bytes of the hash of the prefix
//	due       varint, ms since 1970 by the broker's clock
//	since     varint, how long before that it was reckoned
//	from      varint, how long before due the due time was for which the message has its queue
//	read      varint, how long before from a controller takes the message out of that queue
//	revision  varint, how often the message was postponed
//	id        of the message: the rest
//	checksum  4 bytes
package ticket

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strings"

	"github.com/delayer-go/delayer"
)

// A Ticket is what a ticket says. Times are in ms by the broker's clock.
type Ticket struct {
	ID       string
	Due      int64
	Since    int64 // what the clock showed when the due time was reckoned
	From     int64 // the due time for which the message was put into its queue
	Read     int64 // when a controller takes it from there, or later if it is busy
	Revision int64 // how often the message was postponed
}

const (
	begin = "d1."
	// Latest is after every due time: in the year 2500.
	Latest = 16_725_225_600_000
	// MaxRevision is how often a message may be postponed.
	MaxRevision = 1 << 30
	longestID   = 48
	sum         = 4 // bytes of the fingerprint, and of the checksum
)

// Why a text is not a ticket.
var (
	ErrDamaged = errors.New("it is not a ticket, or damaged")
	ErrPrefix  = errors.New("it is of a Delayer with another prefix")
)

var encoding = base64.RawURLEncoding.Strict()

// Write writes a ticket of a prefix.
func (t Ticket) Write(prefix string) delayer.Ticket {
	b := fingerprint(prefix)
	for _, value := range []int64{t.Due, t.Due - t.Since, t.Due - t.From, t.From - t.Read, t.Revision} {
		b = binary.AppendVarint(b, value)
	}
	b = append(b, t.ID...)
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	return delayer.Ticket(begin + encoding.EncodeToString(b))
}

func fingerprint(prefix string) []byte {
	hash := sha256.Sum256([]byte(prefix))
	return hash[:sum:sum]
}

// Read reads a ticket of a prefix. Each ticket has one text only.
func Read(text delayer.Ticket, prefix string) (Ticket, error) {
	coded, ok := strings.CutPrefix(string(text), begin)
	b, err := encoding.DecodeString(coded)
	if !ok || err != nil || len(b) < 2*sum {
		return Ticket{}, ErrDamaged
	}
	rest, check := b[:len(b)-sum], binary.BigEndian.Uint32(b[len(b)-sum:])
	if crc32.ChecksumIEEE(rest) != check {
		return Ticket{}, ErrDamaged
	}
	if string(rest[:sum]) != string(fingerprint(prefix)) {
		return Ticket{}, ErrPrefix
	}
	t, ok := fields(rest[sum:])
	if !ok || t.Write(prefix) != text {
		return Ticket{}, ErrDamaged
	}
	return t, nil
}

func fields(b []byte) (t Ticket, ok bool) {
	var values [5]int64
	for i := range values {
		value, size := binary.Varint(b)
		if size <= 0 || value < -Latest || value > Latest {
			return t, false
		}
		values[i], b = value, b[size:]
	}
	t = Ticket{ID: string(b), Due: values[0], Since: values[0] - values[1], From: values[0] - values[2], Revision: values[4]}
	t.Read = t.From - values[3]
	return t, t.valid()
}

func (t Ticket) valid() bool {
	return t.ID != "" && len(t.ID) <= longestID && t.Due > 0 && t.Since > 0 && t.Revision >= 0 && t.Revision <= MaxRevision
}
