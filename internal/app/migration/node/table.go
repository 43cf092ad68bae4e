package node

import (
	"context"
	"encoding/hex"
	"errors"
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

// Rows reads rows in the order of their due times. It changes nothing. A batch may be empty
// although further rows follow: a call looks at a bounded number of rows.
func (c *Control) Rows(ctx context.Context, node string, q Query) (Batch, error) {
	b, last := Batch{}, false
	in := [][]byte{
		fmt.Append(nil, q.Later.Milliseconds()), q.After, fmt.Append(nil, q.MaxRows), fmt.Append(nil, q.MaxBytes), []byte(q.Vhost),
	}
	for _, name := range q.Exchanges {
		in = append(in, []byte(name))
	}
	err := c.eval(ctx, scanFor, node, "rows.erl", in, func(f fields) {
		switch f.word(0) {
		case "now":
			b.Clock = Clock{f.number(1), time.Now()}
		case "row":
			r := Row{ID: hex.EncodeToString(f.bytes(1)), Due: f.number(2), Exchange: f.text(3), Properties: f.bytes(4), Body: f.bytes(5)}
			for _, key := range strings.Split(f.word(6), ",") {
				r.Keys = append(r.Keys, fields{[]string{key}, f.err}.text(0))
			}
			b.Rows = append(b.Rows, r)
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

// A Table is what waits in the plugin's tables of one node.
type Table struct {
	Node      string
	Exchanges []Waiting // none where the node does not run the plugin
}

// Waiting is what waits for one exchange on one node.
type Waiting struct {
	Vhost    string
	Exchange string
	Rows     int
	Latest   time.Time // by the node's clock
}

// Pending counts what waits on every node. It reads each table once, without the messages: about
// five seconds for a million rows, one core of the node, and a few megabytes of its memory. Do not
// poll it.
//
// If nodes cannot be reached, it returns the tables of the others, and ErrUnreached.
func (c *Control) Pending(ctx context.Context) ([]Table, error) {
	nodes, unreached := c.Nodes(ctx)
	if unreached != nil && !errors.Is(unreached, ErrUnreached) {
		return nil, unreached
	}
	tables := make([]Table, 0, len(nodes))
	for _, name := range nodes {
		t := Table{Node: name}
		err := c.eval(ctx, scanFor, name, "pending.erl", nil, func(f fields) {
			t.Exchanges = append(t.Exchanges, Waiting{
				Vhost: f.text(1), Exchange: f.text(2), Rows: int(f.number(3)),
				Latest: time.UnixMilli(f.number(4)),
			})
		})
		if err != nil && !errors.Is(err, ErrNoPlugin) {
			return nil, fmt.Errorf("count pending messages: %w", err)
		}
		tables = append(tables, t)
	}
	return tables, unreached
}

const (
	idSize = 16 // of a row's id
	// givenSize is how many bytes of each id the command has. That a row which was not asked for,
	// of a million that are due in the same time, has those of one that was is a chance of 1 in
	// 10⁹.
	givenSize = 8
)

// Remove removes rows from a node's table, and returns how many of them were there. Rows that are
// gone are no error. The plugin's own process does it between two of its messages, so that it never
// sees half of it; the node's log is on disk before Remove returns. The ids are in one argument of a
// command, for which Linux has 128 KiB: there may be 8,000.
func (c *Control) Remove(ctx context.Context, node, vhost string, rows []Row) (removed int, err error) {
	if len(rows) == 0 {
		return 0, nil
	}
	from, to, ids := rows[0].Due, rows[0].Due, []byte(nil)
	for _, r := range rows {
		id, err := hex.DecodeString(r.ID)
		if err != nil || len(id) != idSize {
			return 0, fmt.Errorf("remove row %q: it is not the id of a row", r.ID)
		}
		ids, from, to = append(ids, id[:givenSize]...), min(from, r.Due), max(to, r.Due)
	}
	counted := false
	in := [][]byte{fmt.Append(nil, from), fmt.Append(nil, to), []byte(vhost), ids}
	err = c.eval(ctx, scanFor, node, "remove.erl", in, func(f fields) {
		removed, counted = int(f.number(1)), true
	})
	if err == nil && !counted {
		err = errors.New("unexpected output: no count")
	}
	if err != nil {
		return 0, fmt.Errorf("remove moved messages: %w", err)
	}
	return removed, nil
}
