package controller

import (
	"time"

	"github.com/delayer-go/delayer/backend/controller/internal/slots"
)

// A Turn is the time in which the messages of a slot are due: from Begin, before End.
type Turn struct{ Begin, End time.Time }

// Turns returns the turn of each slot by the name of its queue, for whoever looks at what waits.
// now is the broker's time. A slot serves again after a rotation, so what has waited in it for
// longer, because no controller ran, counts for the next turn. It is empty for [Rounds]: their
// queues do not tell when a message is due. It asks no broker. Errors are ErrConfig.
func Turns(cfg Config, now time.Time) (map[string]Turn, error) {
	w, _, err := newShape(cfg)
	if err != nil {
		return nil, err
	}
	turns := map[string]Turn{}
	if w, is := w.(*slots.Wheel); is {
		for queue, turn := range w.Turns(now) {
			turns[queue] = Turn(turn)
		}
	}
	return turns, nil
}
