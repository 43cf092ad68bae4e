package delivery

import (
	"log/slog"
	"sync"
	"time"
)

// complainAt is the least time between two complaints of one text.
const complainAt = time.Minute

// Complaints are warnings. Each text is logged at most once a minute: many messages often have the
// same problem, and it must not hide another. The zero value may be used.
type Complaints struct {
	last sync.Map // by text
}

// Warn logs a warning, or leaves it out.
func (c *Complaints) Warn(log *slog.Logger, text string, args ...any) {
	now := time.Now()
	last, before := c.last.LoadOrStore(text, now)
	if !before || now.Sub(last.(time.Time)) >= complainAt && c.last.CompareAndSwap(text, last, now) {
		log.Warn(text, args...)
	}
}
