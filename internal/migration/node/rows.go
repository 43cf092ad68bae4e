package node

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// A Row is one message that waits in the plugin's table.
type Row struct {
	ID         string   // the same whenever the row is read; hexadecimal
	Due        int64    // by the node's clock, in milliseconds since the Unix epoch
	Exchange   string   // where it is delivered when due
	Keys       []string // its routing key, those of its CC, and those of its BCC, which its headers lack
	Properties []byte   // as AMQP 0-9-1 encodes them; see DecodeProperties
	Body       []byte
	Unreadable string // why the node could not read the message, or ""
}

// A Cursor is a place in a node's table. The zero Cursor is its beginning.
type Cursor []byte

// A Query says which rows to read.
type Query struct {
	Vhost     string
	Exchanges []string      // empty: all of the vhost
	Later     time.Duration // only rows that are due later than this from now; for the zero Cursor
	After     Cursor
	MaxRows   int
	MaxBytes  int // a batch ends with the row that reaches this
}

// A Batch is what Rows returns.
type Batch struct {
	Rows  []Row
	Next  Cursor
	Last  bool // there are no further rows
	Clock Clock
}

// Rows reads rows in the order of their due times. It changes nothing. A batch may be empty although
// further rows follow: a call looks at a bounded number of rows.
func (c *Control) Rows(ctx context.Context, node string, q Query) (Batch, error) {
	b, last := Batch{}, false
	in := [][]byte{
		fmt.Append(nil, q.Later.Milliseconds()), q.After, fmt.Append(nil, q.MaxRows), fmt.Append(nil, q.MaxBytes), []byte(q.Vhost),
	}
	err := c.eval(ctx, scanFor, node, "rows.erl", append(in, names(q.Exchanges)...), func(f fields) {
		switch f.word(0) {
		case "now":
			b.Clock = Clock{f.number(1), time.Now()}
		case "row":
			b.Rows = append(b.Rows, row(f))
		case "bad":
			b.Rows = append(b.Rows, Row{ID: hex.EncodeToString(f.bytes(1)), Due: f.number(2), Exchange: f.text(3), Unreadable: f.text(4)})
		case "next":
			b.Next, last = f.bytes(1), true
		case "done":
			b.Last, last = true, true
		}
	})
	if err == nil && !last {
		err = fmt.Errorf("node %s: unexpected output: a batch without an end", node)
	}
	if err != nil {
		return Batch{}, fmt.Errorf("read pending messages: %w", err)
	}
	return b, nil
}

func row(f fields) Row {
	r := Row{
		ID: hex.EncodeToString(f.bytes(1)), Due: f.number(2), Exchange: f.text(3), Properties: f.bytes(4), Body: f.bytes(5),
	}
	for _, key := range strings.Split(f.word(6), ",") {
		k := fields{[]string{key}, f.err}
		r.Keys = append(r.Keys, k.text(0))
	}
	return r
}

func names(list []string) [][]byte {
	out := make([][]byte, len(list))
	for i, name := range list {
		out[i] = []byte(name)
	}
	return out
}
