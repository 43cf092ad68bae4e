package bundle

import (
	"encoding/json"
	"fmt"

	"github.com/delayer-go/delayer/internal/lib/brokertime"
)

// Counts tell how much waits. The leader writes them, as JSON, to a queue that keeps the last
// message: within a second of a change, and once a minute at rest. A new leader begins with them,
// and whoever looks at what waits reads them.
type Counts struct {
	At    brokertime.Due // when they were right; 0: the broker's time was not known
	Held  Count          // in no slot: the bundles of the log that have been read, and are not acknowledged
	Turns []TurnCount    // by level; those without bundles are left out

	Progress []Progress // of bundles that are in hand
}

// A TurnCount is what the slot of a turn holds, also what has been read from there and is not
// delivered, or stored elsewhere, yet.
type TurnCount struct {
	Turn Turn
	Open bool // it was being read
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

// maxCount is beyond what any broker holds, and sums do not overflow.
const maxCount = 1 << 40

// Bytes are those of the message. Of much progress it leaves some out: what is told fits into one.
func (c *Counts) Bytes() []byte {
	told, size := *c, 0
	for i, p := range c.Progress {
		const names = 80
		if size += names + len(p.Writer) + len(p.Done)*4/3; size > MaxSize*3/4 {
			told.Progress = c.Progress[:i]
			break
		}
	}
	text, _ := json.Marshal(told) // never fails
	return text
}

// ReadCounts reads such bytes. It fails for what no leader writes.
func ReadCounts(from []byte) (*Counts, error) {
	c := &Counts{}
	if err := json.Unmarshal(from, c); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrForeign, err)
	}
	possible := c.Held.possible() && (c.At == 0 || c.At.Valid())
	for i := range c.Turns {
		possible = possible && c.Turns[i].possible()
	}
	if !possible {
		return nil, ErrDamaged
	}
	return c, nil
}

func (c *Count) possible() bool {
	for _, n := range [...]int{c.Bundles, c.Messages, c.Changes} {
		if n < 0 || n > maxCount {
			return false
		}
	}
	known := c.First.Valid() && c.Last.Valid() && c.First <= c.Last && c.Messages > 0
	return known || c.First == 0 && c.Last == 0
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
