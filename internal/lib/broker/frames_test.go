package broker

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lib/frame"
)

// properties is a frame with a content type, a table of headers and an id of a message.
func properties(table string) frame.Frame {
	body := append(make([]byte, 12), 0xa0, 0x80, 4)
	body = append(body, "text"...)
	body = append(binary.BigEndian.AppendUint32(body, uint32(len(table))), table...)
	return frame.New(frame.TypeHeader, 1, append(body, "\x02id"...))
}

// sized is text with its length in four bytes in front.
func sized(text string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(text)))) + text
}

// nested is a field of arrays in one another.
func nested(depth int) string {
	field := "V"
	for range depth {
		field = "A" + sized(field)
	}
	return field
}

func TestReadableHeaders(t *testing.T) {
	for name, c := range map[string]struct {
		table    string
		readable bool
	}{
		"empty":          {"", true},
		"types":          {"\x01at\x01\x01bb1\x01cB1\x01ds12\x01eu12\x01fI1234\x01gi1234\x01hl12345678\x01jf1234\x01kd12345678\x01lD12345\x01mT12345678\x01nV", true},
		"sized types":    {"\x01aS" + sized("text") + "\x01bx" + sized("bytes") + "\x01cF" + sized("\x01aV"), true},
		"without a name": {"\x00V", true},
		"deep":           {"\x01a" + nested(32), true},
		"too deep":       {"\x01a" + nested(33), false},
		"wide":           {"\x01aA" + sized(strings.Repeat("V", 8192)), true},
		"too wide":       {"\x01aA" + sized(strings.Repeat("V", 8193)), false},
		"entries":        {strings.Repeat("\x01aV", 8192), true},
		"too many":       {strings.Repeat("\x01aV", 8193), false},
		"unknown type":   {"\x01aL12345678", false},
		"cut off":        {"\x01aI12", false},
		"name only":      {"\x01a", false},
	} {
		t.Run(name, func(t *testing.T) {
			whole := properties(c.table)
			got := withReadableHeaders(bytes.Clone(whole))
			if !c.readable {
				whole = properties("\x14" + UnreadableHeader + "V")
			}
			assert.Equal(t, whole, got)
		})
	}
}

// FuzzReadableHeaders: it never panics, and returns a frame whose headers it takes for readable.
func FuzzReadableHeaders(f *testing.F) {
	f.Add([]byte(properties("\x01a"+nested(33))), "\x01aV")
	f.Fuzz(func(t *testing.T, text []byte, table string) {
		for _, whole := range []frame.Frame{properties(table), append(bytes.Repeat([]byte{2}, frame.Overhead), text...)} {
			once := withReadableHeaders(bytes.Clone(whole))
			require.Equal(t, once, withReadableHeaders(bytes.Clone(once)))
		}
	})
}
