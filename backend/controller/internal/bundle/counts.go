package bundle

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/delayer-go/delayer/internal/lib/brokertime"
)

// Counts tell how much waits. The leader writes them to a queue that keeps the last message: within
// a second of a change, and once a minute at rest. A new leader begins with them, and whoever looks
// at what waits reads them.
//
//	magic     2 bytes
//	version   1 byte
//	tenure    length and bytes
//	at        varint
//	held      a count
//	count     uvarint, of turns
//	turns     each a level, 1 byte, a number, varint, and a count
//	progress  uvarint, of bundles, and each: writer, number, records, and a bit for each of those
//	checksum  4 bytes, CRC-32C of all before it
type Counts struct {
	Tenure string         // that wrote them
	At     brokertime.Due // when they were right; 0: the broker's time was not known
	Held   Count          // in no slot: the bundles of the log that have been read, and are not acknowledged
	Turns  []TurnCount    // in order, by level and number; those without bundles are left out

	Progress []Progress // of bundles that are in hand
}

// A TurnCount is what the slot of a turn holds, also what has been read from there and is not
// delivered, or stored elsewhere, yet.
type TurnCount struct {
	Turn Turn
	Count
}

// A Count is how much is in some bundles.
type Count struct {
	Bundles  int  // also those of marks
	Messages int  // that are not delivered or dropped yet. One that was published twice counts twice
	Changes  int  // to messages that have not been met: how many of those will be dropped, or moved, is not known
	Exact    bool // otherwise Messages is about right: an earlier leader was lost before it could count them

	First, Last brokertime.Due // the due times of the first and of the last message; 0: not known, or none
}

const (
	// CountsType is the content type of an AMQP message whose body is [Counts].
	CountsType = "application/x-delayer-counts"

	countsMagic1  = 'C'
	countsVersion = 1
	maxTurns      = 1000
	// minTurn is the size of the smallest turn: its level, its number, and a count of six bytes.
	minTurn = 2 + 6
	// maxCount is beyond what any broker holds, and sums do not overflow.
	maxCount = 1 << 40
)

// ErrCounts says that bytes hold counts that nothing can have.
var ErrCounts = errors.New("it has impossible counts")

// Compare orders turns.
func (t Turn) Compare(other Turn) int {
	return cmp.Or(cmp.Compare(t.Level, other.Level), cmp.Compare(t.Number, other.Number))
}

// Append appends the bytes of counts to a buffer.
func (c *Counts) Append(to []byte) []byte {
	begin := len(to)
	to = append(to, magic0, countsMagic1, countsVersion)
	to = appendText(to, c.Tenure)
	to = binary.AppendVarint(to, int64(c.At))
	to = c.Held.append(to)
	to = binary.AppendUvarint(to, uint64(len(c.Turns)))
	for _, t := range c.Turns {
		to = append(to, byte(t.Turn.Level))
		to = binary.AppendVarint(to, t.Turn.Number)
		to = t.append(to)
	}
	to = appendProgress(to, c.Progress)
	return binary.BigEndian.AppendUint32(to, crc32.Checksum(to[begin:], castagnoli))
}

func (c *Count) append(to []byte) []byte {
	exact := byte(0)
	if c.Exact {
		exact = 1
	}
	to = append(to, exact)
	for _, n := range [...]int{c.Bundles, c.Messages, c.Changes} {
		to = binary.AppendUvarint(to, uint64(n))
	}
	to = binary.AppendVarint(to, int64(c.First))
	return binary.AppendVarint(to, int64(c.Last-c.First))
}

// ReadCounts reads the bytes of counts.
func ReadCounts(from []byte) (*Counts, error) {
	switch {
	case len(from) < 2 || from[0] != magic0 || from[1] != countsMagic1:
		return nil, ErrForeign
	case len(from) < 3+checksumSize || len(from) > MaxSize:
		return nil, ErrCut
	}
	r := reader{left: from[3 : len(from)-checksumSize]}
	sum := binary.BigEndian.Uint32(from[len(from)-checksumSize:])
	switch {
	case crc32.Checksum(from[:len(from)-checksumSize], castagnoli) != sum:
		return nil, ErrChecksum
	case from[2] > countsVersion:
		return nil, fmt.Errorf("%w: its version is %d, and this one reads %d", ErrNewer, from[2], countsVersion)
	case from[2] != countsVersion:
		return nil, ErrForeign
	}
	c := &Counts{Tenure: r.text(maxWriter), At: brokertime.Due(r.varint())}
	if !c.Held.read(&r) || c.At != 0 && !c.At.Valid() {
		return nil, ErrCounts
	}
	turns := r.uvarint()
	if turns > maxTurns || turns > uint64(len(r.left)/minTurn) {
		return nil, ErrCounts
	}
	for range turns {
		t := TurnCount{Turn: Turn{int(r.byte()), r.varint()}}
		if !t.read(&r) || len(c.Turns) > 0 && t.Turn.Compare(c.Turns[len(c.Turns)-1].Turn) <= 0 {
			return nil, ErrCounts
		}
		c.Turns = append(c.Turns, t)
	}
	var is bool
	if c.Progress, is = readProgress(&r); !is {
		return nil, ErrCounts
	}
	if len(r.left) > 0 {
		return nil, ErrCut
	}
	return c, nil
}

// read reverses append. It is false for what no leader writes.
func (c *Count) read(from *reader) bool {
	exact := from.byte()
	c.Exact = exact == 1
	for _, n := range [...]*int{&c.Bundles, &c.Messages, &c.Changes} {
		value := from.uvarint()
		if value > maxCount {
			return false
		}
		*n = int(value)
	}
	c.First = brokertime.Due(from.varint())
	c.Last = c.First + brokertime.Due(from.varint())
	known := c.First.Valid() && c.Last.Valid() && c.First <= c.Last && c.Messages > 0
	return from.left != nil && exact <= 1 && (known || c.First == 0 && c.Last == 0)
}
