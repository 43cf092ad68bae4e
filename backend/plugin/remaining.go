package plugin

import (
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// Remaining is what remains of the delay of a misrouted message: nothing, once the plugin has delivered it and turned
// the sign of its x-delay.
func (s *own) Remaining(headers amqp091.Table) (time.Duration, bool) {
	switch delay := headers["x-delay"].(type) {
	case int64:
		return 0, delay < 0
	case int32:
		return 0, delay < 0
	case int16:
		return 0, delay < 0
	case int8:
		return 0, delay < 0
	}
	return 0, false
}
