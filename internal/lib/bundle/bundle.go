// Package bundle has the unit in which messages wait: a bundle of records, which is the body of one
// AMQP message. Publishers write bundles to the log, and the leader to slots. The package is pure, and
// what it reads may have been written by anybody.
//
//	magic     2 bytes
//	version   1 byte
//	place     1 byte: 0 for the log, 1 for a slot
//	writer    length and bytes
//	number    uvarint
//	turn      of a slot: level, 1 byte, and number, varint
//	count     uvarint, of records
//	records   see record.go
//	checksum  4 bytes, CRC-32C of all before it
package bundle

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/delayer-go/delayer/internal/lib/brokertime"
)

const (
	// MaxSize is how large a bundle of several records may be, in bytes. A bundle of one may be as
	// large as a message.
	MaxSize = 64 << 10
	// LoneSize is the size from which a record is a bundle of its own: others need not wait until
	// it is written.
	LoneSize = 16 << 10

	version      = 1
	checksumSize = 4
	maxWriter    = 64
	// overhead is the size of a bundle without records, at most.
	overhead = 4 + 1 + maxWriter + 1 + 4*binary.MaxVarintLen64 + checksumSize
)

var magic = []byte{0xd7, 'B'}

// ContentType is that of an AMQP message whose body is a bundle.
const ContentType = "application/x-delayer-bundle"

// A Turn is the time for which a slot serves: Number widths of its level after 1970, for one width.
type Turn struct {
	Level  int
	Number int64
}

// Widths are those of the levels. Slots of one width are a level.
var Widths = [...]time.Duration{4 * time.Second, 32 * time.Second, 200 * time.Second, 20 * time.Minute, 100 * time.Minute, 8 * time.Hour}

// A Bundle is a list of records, in the order in which they were written. In a slot they are sorted
// by their due times.
type Bundle struct {
	Writer  string // the process, or the tenure, that wrote it
	Number  uint64 // which of that writer's it is
	InSlot  bool
	Turn    Turn // of the slot
	Records []Record
}

// Why bytes are no bundle.
var (
	ErrForeign = errors.New("it is not of a Delayer")
	ErrDamaged = errors.New("it is damaged: its checksum is wrong, or it has what no Delayer writes")
	// ErrNewer is for a bundle of a later version, which must be left for who can read it.
	ErrNewer = errors.New("it was written by a later version of Delayer")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Bytes returns the bytes of a bundle.
func (b *Bundle) Bytes() []byte {
	size := overhead
	for i := range b.Records {
		size += b.Records[i].Size()
	}
	to := append(append(make([]byte, 0, size), magic...), version, flag(b.InSlot))
	to = appendText(to, b.Writer)
	to = binary.AppendUvarint(to, b.Number)
	if b.InSlot {
		to = append(to, byte(b.Turn.Level))
		to = binary.AppendVarint(to, b.Turn.Number)
	}
	to = binary.AppendUvarint(to, uint64(len(b.Records)))
	var last brokertime.Due
	for i := range b.Records {
		to = b.Records[i].append(to, last, b.InSlot)
		last = b.Records[i].Due
	}
	return binary.BigEndian.AppendUint32(to, crc32.Checksum(to, castagnoli))
}

// Fits reports whether a record of so many bytes may follow others of so many in a bundle.
func Fits(others, size int) bool { return others == 0 || others+size+overhead <= MaxSize }

// Read reads the bytes of a bundle. What the records hold shares these bytes. An error is one of
// those above.
func Read(from []byte) (*Bundle, error) {
	end := len(from) - checksumSize
	switch {
	case !bytes.HasPrefix(from, magic):
		return nil, ErrForeign
	case end < 3 || crc32.Checksum(from[:end], castagnoli) != binary.BigEndian.Uint32(from[end:]):
		return nil, ErrDamaged
	case from[2] > version:
		return nil, fmt.Errorf("%w: its version is %d, and this one reads %d", ErrNewer, from[2], version)
	case from[2] != version:
		return nil, ErrForeign
	}
	r := reader{left: from[3:end]}
	b := &Bundle{InSlot: r.flag(), Writer: r.text(maxWriter), Number: r.uvarint()}
	if b.InSlot {
		b.Turn = Turn{int(r.byte()), r.varint()}
	}
	count := r.uvarint()
	if count == 0 || count > uint64(len(r.left)/minRecord) || count > 1 && len(from) > MaxSize {
		return nil, ErrDamaged
	}
	b.Records = make([]Record, count)
	var last brokertime.Due
	for i := range b.Records {
		if !b.Records[i].read(&r, last, b.InSlot) || b.InSlot && b.Records[i].Due < last {
			return nil, ErrDamaged
		}
		last = b.Records[i].Due
	}
	if len(r.left) > 0 {
		return nil, ErrDamaged
	}
	return b, nil
}

// A reader reads values one after the other. Once one is missing, left is nil and all that follow
// are zero.
type reader struct {
	left []byte
	to   string // the destination of the last record: many have the same
}

func (r *reader) bytes(size uint64) []byte {
	if size > uint64(len(r.left)) {
		r.left = nil
		return nil
	}
	value := r.left[:size:size]
	r.left = r.left[size:]
	return value
}

func (r *reader) byte() byte {
	if b := r.bytes(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

func (r *reader) uvarint() uint64 { return number(r, binary.Uvarint) }
func (r *reader) varint() int64   { return number(r, binary.Varint) }

func number[T int64 | uint64](r *reader, read func([]byte) (T, int)) T {
	value, size := read(r.left)
	if size <= 0 {
		r.left = nil
		return 0
	}
	r.left = r.left[size:]
	return value
}

// flag reads a byte that is 0 or 1.
func (r *reader) flag() bool {
	b := r.byte()
	if b > 1 {
		r.left = nil
	}
	return b == 1
}

// short reads a length of at most so many bytes, and these.
func (r *reader) short(most uint64) []byte {
	size := r.uvarint()
	if size > most {
		r.left = nil
	}
	return r.bytes(size)
}

func (r *reader) text(most uint64) string { return string(r.short(most)) }

func flag(is bool) byte {
	if is {
		return 1
	}
	return 0
}

func appendText[T string | []byte](to []byte, text T) []byte {
	return append(binary.AppendUvarint(to, uint64(len(text))), text...)
}
