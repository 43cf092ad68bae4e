package broker

import (
	"bytes"
	"encoding/binary"
)

// What amqp091-go v1.16.0 reads of a table.
const (
	deepestField = 32   // how deeply tables and arrays may be nested
	mostFields   = 8192 // of one table or array
)

// Of the frame with a message's properties: where its flags are, and those of what comes first.
const (
	flagsAt        = frameHead + 12 // behind class, weight and the size of the body
	hasContentType = 1 << 15
	hasEncoding    = 1 << 14
	hasHeaders     = 1 << 13
)

// readable returns a frame with a message's properties whose headers amqp091-go can read: the same,
// or one with [UnreadableHeader] for them.
func readable(frame []byte) []byte {
	body := frame[:len(frame)-1] // without the byte that ends it
	if len(body) < flagsAt+2 {
		return frame
	}
	flags := binary.BigEndian.Uint16(body[flagsAt:])
	if flags&hasHeaders == 0 {
		return frame
	}
	at := flagsAt + 2
	for _, flag := range [...]uint16{hasContentType, hasEncoding} {
		if flags&flag == 0 {
			continue
		}
		if at >= len(body) {
			return frame
		}
		at += 1 + int(body[at])
	}
	if at > len(body) {
		return frame
	}
	table, rest, ok := long(body[at:])
	if !ok || readableTable(table, 0) {
		return frame
	}
	field := append([]byte{byte(len(UnreadableHeader))}, UnreadableHeader+"x"...)
	field = append(binary.BigEndian.AppendUint32(field, uint32(len(table))), table...)
	changed := bytes.Clone(body[:at])
	changed = append(binary.BigEndian.AppendUint32(changed, uint32(len(field))), field...)
	changed = append(changed, rest...)
	binary.BigEndian.PutUint32(changed[3:], uint32(len(changed)-frameHead))
	return append(changed, frame[len(frame)-1])
}

// long splits off what has its length in four bytes in front.
func long(b []byte) (value, rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, nil, false
	}
	n := binary.BigEndian.Uint32(b)
	if uint64(n) > uint64(len(b)-4) {
		return nil, nil, false
	}
	return b[4 : 4+n], b[4+n:], true
}

func readableTable(table []byte, depth int) bool {
	for n := 0; len(table) > 0; n++ {
		name := 1 + int(table[0])
		if n >= mostFields || len(table) <= name {
			return false
		}
		var ok bool
		if table, ok = readableField(table[name:], depth); !ok {
			return false
		}
	}
	return true
}

func readableArray(fields []byte, depth int) bool {
	for n := 0; len(fields) > 0; n++ {
		var ok bool
		if fields, ok = readableField(fields, depth); !ok || n >= mostFields {
			return false
		}
	}
	return true
}

// fieldSizes are the lengths in bytes of the types that have a fixed one.
var fieldSizes = [256]int{'t': 1, 'b': 1, 'B': 1, 's': 2, 'u': 2, 'I': 4, 'i': 4, 'f': 4, 'D': 5, 'l': 8, 'd': 8, 'T': 8}

// readableField returns what follows a field.
func readableField(b []byte, depth int) (rest []byte, ok bool) {
	kind, b := b[0], b[1:]
	switch kind {
	case 'V':
		return b, true
	case 'S', 'x', 'A', 'F':
		var value []byte
		if value, rest, ok = long(b); !ok {
			return nil, false
		}
		switch kind {
		case 'A':
			ok = depth < deepestField && readableArray(value, depth+1)
		case 'F':
			ok = depth < deepestField && readableTable(value, depth+1)
		}
		return rest, ok
	}
	size := fieldSizes[kind]
	if size == 0 || len(b) < size {
		return nil, false
	}
	return b[size:], true
}
