package message

import (
	"maps"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// A Death is an entry of x-death: how a message left a queue without a consumer's acknowledgement.
type Death struct {
	Queue      string
	Exchange   string    // to which it was published, before it came to the queue
	Reason     string    // such as "expired"
	Time       time.Time // in whole seconds, by the broker's clock
	Expiration string    // its own, which the broker has removed
}

// Deaths returns the entries of x-death, the newest first. There is one for each queue and reason.
// A field, or an entry, that a client has forged is zero.
func Deaths(headers amqp091.Table) []Death {
	entries, _ := headers["x-death"].([]any)
	deaths := make([]Death, len(entries))
	for i, entry := range entries {
		table, _ := entry.(amqp091.Table)
		d := &deaths[i]
		d.Queue, _ = table["queue"].(string)
		d.Exchange, _ = table["exchange"].(string)
		d.Reason, _ = table["reason"].(string)
		d.Time, _ = table["time"].(time.Time)
		d.Expiration, _ = table["original-expiration"].(string)
	}
	return deaths
}

// LastDeath returns the time of the latest entry of x-death, zero if there is none.
func LastDeath(headers amqp091.Table) (last time.Time) {
	for _, d := range Deaths(headers) {
		if d.Time.After(last) {
			last = d.Time
		}
	}
	return last
}

// ForgetDeaths removes x-death, and what else the broker writes when a message leaves a queue.
func ForgetDeaths(headers amqp091.Table) {
	maps.DeleteFunc(headers, func(name string, _ any) bool {
		return name == "x-death" || strings.HasPrefix(name, "x-first-death-") || strings.HasPrefix(name, "x-last-death-")
	})
}
