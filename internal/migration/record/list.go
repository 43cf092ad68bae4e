package record

import (
	"cmp"
	"context"
	"slices"

	"github.com/delayer-go/delayer/internal/broker"
)

// Entry is a record that was found in a broker.
type Entry struct {
	Queue  string
	Record Record
	Held   bool // a tool that works on the exchange holds the record: it cannot be read
}

// List reads all records of a prefix without a lock, and leaves them. queues are the names of the
// broker's queues that begin with the prefix.
func List(ctx context.Context, conn *broker.Conn, prefix string, queues []string) ([]Entry, error) {
	var all []Entry
	for _, name := range queues {
		if !isQueue(prefix, name) {
			continue
		}
		e, err := peek(ctx, conn, name)
		if err != nil {
			return nil, broker.Explain("read", "", "the record in queue "+name, err)
		}
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b Entry) int { return cmp.Compare(a.Record.Former.Name, b.Record.Former.Name) })
	return all, nil
}

func peek(ctx context.Context, conn *broker.Conn, name string) (Entry, error) {
	ch, err := conn.Channel(ctx)
	if err != nil {
		return Entry{}, err
	}
	defer func() { _ = ch.Close() }() // gives the record back
	r, held, err := newest(ch, name)
	return Entry{Queue: name, Record: r, Held: held == 0}, err
}
