package frame

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func read(b []byte, most int) (Frame, error) {
	r := Reader{In: bufio.NewReaderSize(bytes.NewReader(b), 16)}
	return r.Read(most)
}

func TestReader(t *testing.T) {
	whole := NewMethod(7, Publish, uint16(0), "orders", "key", byte(1))
	for n := range whole {
		_, err := read(whole[:n], 100)
		require.Error(t, err)
		require.Equal(t, n == 0, errors.Is(err, io.EOF), "%d bytes: an end within a frame is none", n)
	}
	f, err := read(whole, len(whole))
	require.NoError(t, err)
	require.Equal(t, whole, f)
	assert.Equal(t, uint16(7), f.Channel())
	assert.Equal(t, Publish, f.Method())
	a := f.Args()
	assert.Equal(t, []any{uint16(0), "orders", "key", byte(1), false}, []any{a.Uint16(), a.Short(), a.Short(), a.Byte(), a.Bad})
	_, err = read(whole, len(whole)-1)
	require.ErrorIs(t, err, ErrSize)
	_, err = read(append(slices.Clone(whole[:len(whole)-1]), 0), 100)
	require.ErrorIs(t, err, ErrEnd)
	_, err = read([]byte{1, 0, 0, 0xff, 0xff, 0xff, 0xff}, 1<<20)
	require.ErrorIs(t, err, ErrSize, "nothing is allocated for it")
}

// properties returns the properties of a message with a content type and headers.
func properties(table string) Frame {
	p := append([]byte{0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5}, 0xa0, 0) // a content type and headers
	p = append(append(p, 4), "text"...)
	p = append(append(p, 0, 0, 0, byte(len(table))), table...)
	return New(TypeHeader, 3, p)
}

const fields = "\x01aI\x00\x00\x00\x05" + "\x01bV" + "\x01cF\x00\x00\x00\x03\x01dV" + "\x07x-delayS\x00\x00\x00\x01" + "5"

func TestWithHeader(t *testing.T) {
	f, err := properties(fields).WithHeader("more", "text")
	require.NoError(t, err)
	table, at, err := Headers(f.Payload())
	require.NoError(t, err)
	require.Equal(t, 23, at)
	all, err := Table(table)
	require.NoError(t, err)
	names := ""
	for _, field := range all {
		names += field.Name + string(field.Kind) + " "
	}
	assert.Equal(t, "aI bV cF x-delayS moreS ", names)
	assert.Equal(t, "text", string(all[4].Value))
	_, err = New(TypeHeader, 3, make([]byte, 14)).WithHeader("more", "text")
	require.Error(t, err, "it has none")
}

// FuzzRead: whatever comes is bounded, passes unchanged, and breaks nothing that looks into it.
func FuzzRead(f *testing.F) {
	f.Add([]byte(NewMethod(1, ExchangeDeclare, uint16(0), "x", "topic", byte(2), uint32(0))))
	f.Add([]byte(properties(fields)))
	f.Add([]byte{8, 0, 0, 0, 0, 0, 0, last})
	f.Fuzz(func(t *testing.T, b []byte) {
		const most = 1 << 12
		got, err := read(b, most)
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(got), most)
		require.Equal(t, b[:len(got)], []byte(got))
		require.Equal(t, got, New(got.Type(), got.Channel(), got.Payload()))
		if got.Method() != 0 {
			a := got.Args()
			before := len(a.Rest())
			_, _, _, _, _ = a.Uint16(), a.Short(), a.Short(), a.Byte(), a.Long()
			require.LessOrEqual(t, len(a.Rest()), before)
		}
		table, at, err := Headers(got.Payload())
		if err != nil || at == 0 {
			return
		}
		all, err := Table(table)
		if err != nil {
			return
		}
		var raw []byte
		for _, field := range all {
			raw = append(raw, field.Raw...)
		}
		require.Equal(t, table, append([]byte{}, raw...))
		with, err := got.WithHeader("name", "text")
		require.NoError(t, err)
		more, _, err := Headers(with.Payload())
		require.NoError(t, err)
		again, err := Table(more)
		require.NoError(t, err)
		require.Len(t, again, len(all)+1)
	})
}
