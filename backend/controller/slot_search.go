package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/backend/controller/internal/wheel"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// searchHeader asks the controllers to search a slot. A publisher sends it through the intake if a
// message was confirmed so late that its slot may be at rest by now: the broker had not read for a
// while. There the message is behind those of the next turn.
const searchHeader = "x-delayer-search"

// search asks for a search of a slot.
func (s *slotStrategy) search(ctx context.Context, slot wheel.Slot) error {
	lasting := amqp091.Publishing{DeliveryMode: amqp091.Persistent}
	headers := amqp091.Table{searchHeader: fmt.Sprintf("%d.%d", slot.Level, slot.Index)}
	return s.publish(ctx, broker.Publishing{
		Exchange: s.blueprint.names.enter(), Message: message.Seal(lasting, message.NewEnvelope(time.Now(), 0, ""), headers),
	})
}

// searched returns the slot that a message asks to search.
func (b blueprint) searched(d *amqp091.Delivery) (slot wheel.Slot, ok bool) {
	text, _ := d.Headers[searchHeader].(string)
	if _, stamped := d.Headers[message.Stamp]; stamped || text == "" {
		return slot, false
	}
	_, err := fmt.Sscanf(text, "%d.%d", &slot.Level, &slot.Index)
	return slot, err == nil && slices.Contains(b.wheel.Slots(), slot)
}

// searches are the slots to be searched, and what to do after each.
type searches struct {
	mu    sync.Mutex
	after map[wheel.Slot][]func()
}

func (s *searches) add(slot wheel.Slot, after ...func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.after == nil {
		s.after = map[wheel.Slot][]func(){}
	}
	s.after[slot] = append(s.after[slot], after...)
}

// slots lists those to be searched.
func (s *searches) slots() []wheel.Slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.after))
}

// take removes a slot. What is added from now on needs another search.
func (s *searches) take(slot wheel.Slot) []func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	after := s.after[slot]
	delete(s.after, slot)
	return after
}

// A search is a session that moves all that is in a slot, also what waits for the next turn. It goes
// on until it has taken as many messages as were there.
type search struct {
	most  int // that were there; -1: unknown
	taken atomic.Int64
	after []func()
}

// startSearches opens a session for each slot to be searched. In its turn a slot is drained anyway.
func (h *hand) startSearches(ctx context.Context, now time.Time) {
	for _, slot := range h.searches.slots() {
		switch s := h.sessions[slot]; {
		case s == nil:
			found := &search{most: -1, after: h.searches.take(slot)}
			visit := wheel.Visit{Turn: h.wheel.Upcoming(slot, now), Resting: true}
			h.sessions[slot] = h.open(ctx, h.blueprint.slot(slot), visit, false, found)
		case !s.visit.Resting:
			finish(h.searches.take(slot))
		case s.search == nil:
			s.cancel()
		}
	}
}

// endSearch ends the search of a session that has ended. inTurn says that its slot's turn has come.
func (h *hand) endSearch(slot wheel.Slot, s *session, inTurn bool) {
	switch {
	case s.search == nil:
	case inTurn, s.search.most >= 0 && s.search.taken.Load() >= int64(s.search.most):
		finish(s.search.after)
	default:
		h.searches.add(slot, s.search.after...)
	}
}

func finish(after []func()) {
	for _, f := range after {
		f()
	}
}

// begin counts what is to be searched.
func (s *search) begin(ready int, err error) {
	s.most = ready
	if err != nil {
		s.most = -1
	}
}

// moves reports whether a message is to be moved that could stay where it is. Some may not have been
// counted, since another controller had them.
func (s *search) moves() bool { return s != nil && s.taken.Load() <= int64(s.most+mostAfterTurn) }
