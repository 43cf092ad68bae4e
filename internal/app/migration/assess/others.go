package assess

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/delayer-go/delayer/internal/app/migration/inventory"
)

// A Ladder is what another library delays messages with: queues of doubling TTLs, each of which
// dead-letters to the next shorter one.
type Ladder struct {
	Library  string `json:"library"`
	Queues   string `json:"queues"` // the common beginning of their names
	Levels   int    `json:"levels"`
	Messages int64  `json:"messages"`
	// Drained is, in milliseconds, the longest that any message there can still wait, once nothing
	// new is sent: the TTLs of the highest level that holds messages and of all below.
	Drained int64  `json:"drained_within_ms"`
	Do      string `json:"do"`
}

// OtherQueues are the texts by which the queues of other libraries are found.
func OtherQueues() []string { return []string{"nsb.", "celery_delayed_"} }

// others are the libraries that are recognised.
var others = []struct {
	library, beginning string
	level              *regexp.Regexp
	stop, delete       string
}{
	{"NServiceBus", "nsb.v2.delay-level-", regexp.MustCompile(`^nsb\.v2\.delay-level-(\d+)$`), "no endpoint defers messages any more", "nsb.v2.delay-*"},
	{"NServiceBus (v1)", "nsb.delay-level-", regexp.MustCompile(`^nsb\.delay-level-(\d+)$`), "no endpoint defers messages any more", "nsb.delay-*"},
	{"Celery (kombu)", "celery_delayed_", regexp.MustCompile(`^celery_delayed_(\d+)$`), "no task is sent with eta, countdown or retry any more", "celery_delayed_*"},
}

func ladders(queues []inventory.Queue) []Ladder {
	found := []Ladder{}
	for _, o := range others {
		number := func(q inventory.Queue) int {
			n, _ := strconv.Atoi(o.level.FindStringSubmatch(q.Name)[1])
			return n
		}
		levels := slices.DeleteFunc(slices.Clone(queues), func(q inventory.Queue) bool { return !o.level.MatchString(q.Name) })
		if len(levels) == 0 {
			continue
		}
		slices.SortFunc(levels, func(p, q inventory.Queue) int { return cmp.Compare(number(p), number(q)) })
		l := Ladder{Library: o.library, Queues: o.beginning, Levels: len(levels)}
		var below int64 // milliseconds
		for _, q := range levels {
			ttl, _ := q.Arguments["x-message-ttl"].(int64)
			below += ttl
			if l.Messages += q.Messages; q.Messages > 0 {
				l.Drained = below
			}
		}
		l.Do = fmt.Sprintf("see to it that %s; wait until the queues are empty; then delete the exchanges and queues %s", o.stop, o.delete)
		found = append(found, l)
	}
	return found
}
