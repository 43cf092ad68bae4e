package attempt

import (
	"reflect"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// table is the header's value.
func (s State) table() amqp091.Table {
	history := make([]any, len(s.History))
	for i, f := range s.History {
		history[i] = amqp091.Table{"attempt": int64(f.Attempt), "at": f.At.UnixMilli(), "error": f.Error}
	}
	o := s.Original
	t := amqp091.Table{
		"queue": s.Queue, "failures": int64(s.Failures), "history": history,
		"exchange": o.Exchange, "routing_key": o.Key,
		"priority": int64(o.Priority), "delivery_mode": int64(o.DeliveryMode),
	}
	if !s.First.IsZero() {
		t["first"] = s.First.UnixMilli()
	}
	for name, value := range map[string]string{
		"reason": Bound(s.Reason), "expiration": o.Expiration, "user_id": o.UserID, "id": o.ID,
	} {
		if value != "" {
			t[name] = value
		}
	}
	if o.CC != nil {
		t["cc"] = o.CC
	}
	return t
}

// read is the inverse of table. What is forged or broken is bounded: a failure lies in the past,
// and there are not more than MaxFailures.
func read(t amqp091.Table, now time.Time) State {
	s := State{
		Queue: text(t, "queue"), Reason: Bound(text(t, "reason")), First: instant(t, "first", now),
		Failures: int(number(t, "failures", 0, MaxFailures)),
		Original: Original{
			Exchange: short(t, "exchange"), Key: short(t, "routing_key"),
			Expiration: short(t, "expiration"), UserID: short(t, "user_id"), ID: text(t, "id"),
			Priority: uint8(number(t, "priority", 0, 255)), DeliveryMode: uint8(number(t, "delivery_mode", 0, 255)),
		},
	}
	s.Original.CC, _ = t["cc"].([]any)
	list, _ := t["history"].([]any)
	for _, item := range list[max(0, len(list)-maxHistory):] {
		if f, ok := item.(amqp091.Table); ok {
			s.History = append(s.History, Failure{
				int(number(f, "attempt", 0, MaxFailures)), instant(f, "at", now), Bound(text(f, "error")),
			})
		}
	}
	return s
}

func text(t amqp091.Table, name string) string {
	s, _ := t[name].(string)
	return s
}

// short is a text that fits where AMQP counts the bytes in one.
func short(t amqp091.Table, name string) string {
	s := text(t, name)
	return s[:min(len(s), 255)]
}

// number returns an integer of any width, not below low and not above high; low where it is none.
func number(t amqp091.Table, name string, low, high int64) int64 {
	var n int64
	switch v := reflect.ValueOf(t[name]); {
	case v.CanInt():
		n = v.Int()
	case v.CanUint():
		n = int64(v.Uint())
	}
	return min(max(n, low), high)
}

// instant returns a time, not after now; the zero time where there is none.
func instant(t amqp091.Table, name string, now time.Time) time.Time {
	ms := number(t, name, 0, now.UnixMilli())
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
