package bundle

import (
	"cmp"
	"encoding/binary"
	"errors"

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
//	progress  of bundles: writer, number, records, and the bits, with their length
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

	// maxCount is beyond what any broker holds, and sums do not overflow.
	maxCount = 1 << 40
)

// ErrCounts says that bytes hold counts that nothing can have.
var ErrCounts = errors.New("it has impossible counts")

// Compare orders turns.
func (t Turn) Compare(other Turn) int {
	return cmp.Or(cmp.Compare(t.Level, other.Level), cmp.Compare(t.Number, other.Number))
}

// Append appends the bytes of counts to a buffer. Of much progress it leaves some out: what is told
// fits into one message.
func (c *Counts) Append(to []byte) []byte {
	begin := len(to)
	to = append(to, magic, areCounts, version)
	to = appendText(to, c.Tenure)
	to = binary.AppendVarint(to, int64(c.At))
	to = c.Held.append(to)
	to = binary.AppendUvarint(to, uint64(len(c.Turns)))
	for _, t := range c.Turns {
		to = append(to, byte(t.Turn.Level))
		to = binary.AppendVarint(to, t.Turn.Number)
		to = t.append(to)
	}
	for _, p := range c.Progress {
		if len(to)-begin > MaxSize/2 {
			break
		}
		to = appendText(to, p.Writer)
		to = binary.AppendUvarint(to, p.Number)
		to = binary.AppendUvarint(to, uint64(p.Records))
		to = appendText(to, p.Done)
	}
	return seal(to, begin)
}

func (c *Count) append(to []byte) []byte {
	to = append(to, flag(c.Exact))
	for _, n := range [...]int{c.Bundles, c.Messages, c.Changes} {
		to = binary.AppendUvarint(to, uint64(n))
	}
	to = binary.AppendVarint(to, int64(c.First))
	return binary.AppendVarint(to, int64(c.Last-c.First))
}

// ReadCounts reads the bytes of counts.
func ReadCounts(from []byte) (*Counts, error) {
	if len(from) > MaxSize {
		return nil, ErrCut
	}
	r, err := open(from, areCounts)
	if err != nil {
		return nil, err
	}
	c := &Counts{Tenure: r.text(maxWriter), At: brokertime.Due(r.varint())}
	if !c.Held.read(&r) || c.At != 0 && !c.At.Valid() {
		return nil, ErrCounts
	}
	for range r.uvarint() {
		t := TurnCount{Turn: Turn{int(r.byte()), r.varint()}}
		if !t.read(&r) {
			return nil, ErrCounts
		}
		c.Turns = append(c.Turns, t)
	}
	for len(r.left) > 0 {
		p := Progress{Writer: r.text(maxWriter), Number: r.uvarint(), Records: int(r.uvarint()), Done: r.short(MaxSize)}
		c.Progress = append(c.Progress, p)
	}
	if r.left == nil {
		return nil, ErrCut
	}
	return c, nil
}

// read reverses append. It is false for what no leader writes.
func (c *Count) read(from *reader) bool {
	c.Exact = from.flag()
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
	return from.left != nil && (known || c.First == 0 && c.Last == 0)
}

// A Progress tells which records of a bundle are finished: delivered, stored elsewhere or dropped.
// The bundle is not acknowledged, since others are not.
type Progress struct {
	Writer  string
	Number  uint64
	Records int    // of the bundle
	Done    []byte // a bit for each, as far as the last that is set
}

// Is reports whether a record is finished.
func (p *Progress) Is(record int) bool {
	return record/8 < len(p.Done) && p.Done[record/8]&(1<<(record%8)) != 0
}

// Set notes that a record is finished.
func (p *Progress) Set(record int) {
	for len(p.Done) <= record/8 {
		p.Done = append(p.Done, 0)
	}
	p.Done[record/8] |= 1 << (record % 8)
}
