package node

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// MostRemoved is how many rows one call can remove. Their ids are in one argument of a command, for
// which Linux has 128 KiB. A call takes rabbitmqctl a second to start, so that many are worth it.
const MostRemoved = 8000

const (
	idSize = 16 // of a row's id
	// givenSize is how many bytes of each id the command has. That a row which was not asked for, of
	// a million that are due in the same time, has those of one that was is a chance of 1 in 10⁹.
	givenSize = 8
)

// An Entry names a row.
type Entry struct {
	ID  string
	Due int64
}

// Remove removes rows from a node's table, and returns how many of them were there. Rows that are
// gone are no error. The plugin's own process does it between two of its messages, so that it never
// sees half of it; the node's log is on disk before Remove returns.
func (c *Control) Remove(ctx context.Context, node, vhost string, rows []Entry) (removed int, clock Clock, err error) {
	if len(rows) == 0 {
		return 0, Clock{}, nil
	}
	if len(rows) > MostRemoved {
		return 0, Clock{}, fmt.Errorf("remove %d rows: at most %d at a time", len(rows), MostRemoved)
	}
	from, to, ids := rows[0].Due, rows[0].Due, []byte(nil)
	for _, r := range rows {
		id, err := hex.DecodeString(r.ID)
		if err != nil || len(id) != idSize {
			return 0, Clock{}, fmt.Errorf("remove row %q: it is not the id of a row", r.ID)
		}
		ids, from, to = append(ids, id[:givenSize]...), min(from, r.Due), max(to, r.Due)
	}
	counted := false
	in := [][]byte{fmt.Append(nil, from), fmt.Append(nil, to), []byte(vhost), ids}
	err = c.eval(ctx, scanFor, node, "remove.erl", in, func(f fields) {
		switch f.word(0) {
		case "now":
			clock = Clock{f.number(1), time.Now()}
		case "removed":
			removed, counted = int(f.number(1)), true
		}
	})
	if err == nil && !counted {
		err = errors.New("unexpected output: no count")
	}
	if err != nil {
		return 0, clock, fmt.Errorf("remove moved messages: %w", err)
	}
	return removed, clock, nil
}
