package bundle

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
	"slices"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
)

var everyByte = func() string {
	var all [MaxID]byte
	for i := range all {
		all[i] = byte(i * 5)
	}
	return string(all[:])
}()

func inLog() *Bundle {
	return &Bundle{Writer: "5BQ2ZK7M1A", Number: 17, Records: []Record{
		{ID: "a", Due: 1_795_329_200_000, Own: 71034, To: "~d:=orders", Payload: []byte("body")},
		{ID: "b", Left: 5 * time.Second, To: "ex\x00key", User: "alice", Payload: nil},
		{ID: everyByte, Due: 1_795_329_100_000, Ticket: true, To: "~d:=x", Payload: []byte{}},
		{Kind: Cancel, ID: everyByte, Due: 1_795_329_100_000},
		{Kind: Postpone, ID: "a", Due: 1_795_329_200_000, Next: 1_795_329_200_001},
		{Kind: Mark},
	}}
}

func inSlot() *Bundle {
	return &Bundle{Writer: "tenure", Number: math.MaxUint64, InSlot: true, Turn: Turn{4, -3}, Records: []Record{
		{ID: "a", Due: 1_795_329_200_000, At: 4, To: "~d:=orders", Payload: []byte("body")},
		{Kind: Cancel, ID: "c", Due: 1_795_329_200_000, At: math.MaxInt64},
		{ID: "b", Due: 1_795_329_200_001, At: 3, Ticket: true, Wanted: 1_795_329_100_000, User: "bob", To: "~d:=orders", Payload: []byte("body")},
	}}
}

// same compares bundles: an empty payload is no payload.
func same(t require.TestingT, want, got *Bundle) {
	for _, b := range []*Bundle{want, got} {
		for i := range b.Records {
			if len(b.Records[i].Payload) == 0 {
				b.Records[i].Payload = nil
			}
		}
	}
	require.Equal(t, want, got)
}

func TestBundle_RoundTrip(t *testing.T) {
	for _, want := range []*Bundle{inLog(), inSlot()} {
		got, err := Read(want.Bytes())
		require.NoError(t, err)
		same(t, want, got)
	}
}

// TestRead_Damaged: a bundle that is cut short, or of which any byte is changed, is none.
func TestRead_Damaged(t *testing.T) {
	for _, b := range []*Bundle{inLog(), inSlot()} {
		whole := b.Bytes()
		for size := range whole {
			_, err := Read(whole[:size])
			require.Error(t, err, "the first %d of %d bytes", size, len(whole))
		}
		for at := range whole {
			for _, change := range []byte{1, 0x80, 0xff} {
				damaged := bytes.Clone(whole)
				damaged[at] ^= change
				_, err := Read(damaged)
				require.Error(t, err, "byte %d", at)
			}
		}
		_, err := Read(append(bytes.Clone(whole), 0))
		require.ErrorIs(t, err, ErrDamaged)
	}
}

// forge gives bytes a right checksum.
func forge(b []byte) []byte {
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// TestRead_Forged: a right checksum does not make a bundle.
func TestRead_Forged(t *testing.T) {
	begin := func(place byte, count uint64) []byte {
		b := append(slices.Concat(magic, []byte{version, place}), 1, 'w', 0)
		if place == 1 {
			b = append(b, 0, 0)
		}
		return binary.AppendUvarint(b, count)
	}
	whole := inLog().Bytes()
	newer := bytes.Clone(whole[:len(whole)-checksumSize])
	newer[2] = version + 1
	large := inLog()
	large.Records[0].Payload = make([]byte, MaxSize)
	lies := inSlot()
	lies.Records[0], lies.Records[2] = lies.Records[2], lies.Records[0]
	for name, c := range map[string]struct {
		from []byte
		want error
	}{
		"nothing":                  {nil, ErrForeign},
		"text":                     {[]byte("Hello, world"), ErrForeign},
		"of a later version":       {forge(newer), ErrNewer},
		"without a place":          {forge(begin(2, 0)), ErrDamaged},
		"without records":          {forge(begin(0, 0)), ErrDamaged},
		"with a million records":   {forge(begin(0, 1_000_000)), ErrDamaged},
		"with 2^64 - 1 records":    {forge(begin(0, math.MaxUint64)), ErrDamaged},
		"with fewer records":       {forge(append(begin(0, 1), uint8(Mark), 0, 0)), ErrDamaged},
		"with an unknown kind":     {forge(append(begin(0, 1), uint8(Mark)+1, 0, 1, 'a')), ErrDamaged},
		"with a cancel for no due": {forge(append(begin(0, 1), uint8(Cancel), 0, 1, 'a')), ErrDamaged},
		"with a nameless message":  {forge(append(begin(0, 1), uint8(Message), 2, 0, 0, 0, 0, 0, 0, 0, 0)), ErrDamaged},
		"with a time below 0":      {forge(append(begin(0, 1), uint8(Mark), 1)), ErrDamaged},
		"with a long id":           {forge(append(begin(0, 1), uint8(Cancel), 2, 0xff, 0x7f)), ErrDamaged},
		"too large":                {large.Bytes(), ErrDamaged},
		"not sorted":               {lies.Bytes(), ErrDamaged},
	} {
		_, err := Read(c.from)
		require.ErrorIs(t, err, c.want, name)
	}
}

// TestFits: what fits is never refused as too large; a lone record may be of any size.
func TestFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := &Bundle{Writer: rapid.StringN(0, -1, maxWriter).Draw(t, "writer"), InSlot: true, Turn: Turn{5, math.MinInt64}, Number: math.MaxUint64}
		size, due := 0, brokertime.Due(0)
		for {
			due += brokertime.Due(rapid.Int64Range(0, 1<<40).Draw(t, "later"))
			r := Record{ID: "id", Due: max(1, due%1e13), At: math.MaxInt64, To: "to", Payload: make([]byte, rapid.IntRange(0, 2*LoneSize).Draw(t, "payload"))}
			if len(b.Records) > 0 && r.Due < b.Records[len(b.Records)-1].Due || !Fits(size, r.Size()) {
				break
			}
			size += r.Size()
			b.Records = append(b.Records, r)
		}
		got, err := Read(b.Bytes())
		require.NoError(t, err)
		require.Len(t, got.Records, len(b.Records))
	})
}

// FuzzRead takes bytes as they come from the broker: whatever is read without an error is written
// again as the same.
func FuzzRead(f *testing.F) {
	for _, b := range []*Bundle{inLog(), inSlot()} {
		whole := b.Bytes()
		f.Add(whole[:len(whole)-checksumSize])
	}
	f.Fuzz(func(t *testing.T, from []byte) {
		b, err := Read(forge(bytes.Clone(from)))
		if err != nil {
			return
		}
		again, err := Read(b.Bytes())
		require.NoError(t, err)
		same(t, b, again)
	})
}

func content() *Content {
	return &Content{
		Envelope: delayer.Envelope{Due: time.Unix(1_795_329_200, 5e6), Delay: time.Hour, Exchange: "orders"},
		Key:      "a.b", To: []any{"~d:=x", "~d:=y.."}, Due: 1795329200000,
		Message: amqp091.Publishing{
			ContentType: "text/plain", ContentEncoding: "gzip", DeliveryMode: 2, Priority: 9, CorrelationId: "c", ReplyTo: "r", Expiration: "1",
			MessageId: "m", Timestamp: time.Unix(7, 0), Type: "t", AppId: "a", Body: []byte("body"),
			Headers: amqp091.Table{
				"nothing": nil, "yes": true, "no": false, "byte": byte(200), "int8": int8(-3), "int16": int16(-300), "uint16": uint16(60000),
				"int32": int32(-1 << 31), "uint32": uint32(1<<32 - 1), "int64": int64(-1 << 63), "float32": float32(1.5), "float64": 1e300,
				"decimal": amqp091.Decimal{Scale: 2, Value: -5}, "text": "text\x00\xff", "bytes": []byte{0, 1}, "time": time.Unix(-5, 0).UTC(), "name\xff": 1.5,
				"table": amqp091.Table{"in": amqp091.Table{"it": []any{int32(1), "x", []any{}}}}, "": "no name",
			},
		},
	}
}

func TestContent_RoundTrip(t *testing.T) {
	for _, want := range []*Content{content(), {To: []any{"~d:=x"}, Envelope: delayer.Envelope{Due: time.Unix(0, 0)}, Message: amqp091.Publishing{Body: []byte{}}}} {
		written, err := want.Append(nil)
		require.NoError(t, err)
		got, err := ReadContent(written)
		require.NoError(t, err)
		require.Equal(t, *want, got)
		for size := range written {
			_, err := ReadContent(written[:size])
			require.Error(t, err, "the first %d of %d bytes", size, len(written))
		}
		_, err = ReadContent(append(written, 0))
		require.ErrorIs(t, err, ErrDamaged)
	}
	written, err := (&Content{To: []any{""}}).Append(nil)
	require.NoError(t, err)
	_, err = ReadContent(written)
	require.ErrorIs(t, err, ErrDamaged, "a million empty keys would be of 16 bytes each")
}

// FuzzReadContent: whatever is read without an error can be written again, and is then the same.
func FuzzReadContent(f *testing.F) {
	written, err := content().Append(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(written)
	f.Fuzz(func(t *testing.T, from []byte) {
		c, err := ReadContent(from)
		if err != nil {
			return
		}
		written, err := c.Append(nil)
		require.NoError(t, err)
		again, err := ReadContent(written)
		require.NoError(t, err)
		second, err := again.Append(nil)
		require.NoError(t, err)
		require.Equal(t, written, second) // not the contents: a NaN is not itself
	})
}
