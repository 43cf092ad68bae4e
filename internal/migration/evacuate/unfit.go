package evacuate

import (
	"fmt"
	"strings"
	"time"

	"github.com/delayer-go/delayer/internal/message"
	"github.com/delayer-go/delayer/internal/migration/node"
)

// unfit says why the Delayer would refuse a message that the plugin can deliver, or "".
func (r *run) unfit(s staged, row node.Row) string {
	if row.Unreadable != "" {
		return "the node cannot read it: " + row.Unreadable
	}
	frame, user := r.store.limits()
	l := r.Delayer.Limits()
	return unfit(s, r.Prefix, r.clocks[s.Node].Until(s.Due), l.Max, message.Limits{FrameSize: frame, User: user, MaxPriority: l.MaxPriority})
}

func unfit(s staged, prefix string, remaining, longest time.Duration, lim message.Limits) string {
	key, msg, err := s.original()
	if err != nil {
		return err.Error()
	}
	if remaining > longest {
		return fmt.Sprintf("it is due in more than %v, the longest delay of the configuration", longest)
	}
	if strings.HasPrefix(s.Exchange, prefix+".") {
		return fmt.Sprintf("the exchange begins with the prefix %q of the Delayer", prefix)
	}
	if err := message.Validate(s.Exchange, key, &msg, lim); err != nil {
		return err.Error()
	}
	if moved := s.publishing(); lim.FrameSize > 0 && !message.Fits(&moved, lim.FrameSize-reserve) {
		return "its headers are too large to be moved"
	}
	return ""
}

// reserve is what the queue for refused messages adds to the headers, and the frame around them.
const reserve = 2 << 10
