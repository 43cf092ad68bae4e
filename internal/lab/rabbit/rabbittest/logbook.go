package rabbittest

import (
	"bytes"
	"log/slog"
	"sync"
	"testing"
)

// A Logbook is a log that a test reads while it is written. The zero value is empty and ready for
// use.
type Logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Logger writes into the logbook.
func (l *Logbook) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// ShowIfFailed shows what was logged when a test ends that has failed. what says what it is.
func (l *Logbook) ShowIfFailed(t testing.TB, what string) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s:\n%s", what, l)
		}
	})
}

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
