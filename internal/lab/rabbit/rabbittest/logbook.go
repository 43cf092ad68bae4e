package rabbittest

import (
	"bytes"
	"log/slog"
	"sync"
)

// A Logbook is a log that a test reads while it is written. The zero value is empty and ready for
// use.
type Logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Logger writes into the logbook.
func (l *Logbook) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// Write implements [io.Writer].
func (l *Logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String is what was logged until now.
func (l *Logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
