package gorabbitmq

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	rabbitmq "github.com/wagslane/go-rabbitmq"

	"github.com/delayer-go/delayer"
)

// refused are the options that no message can have.
var refused = map[string]bool{"Mandatory": true, "Immediate": true}

// TestRead_EveryOption: each option is in the message, or refused by its name. That of a newer
// version of go-rabbitmq, which nobody has thought of, fails here.
func TestRead_EveryOption(t *testing.T) {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[rabbitmq.PublishOptions]()) {
		value := sample(t, field)
		exchange, msg, err := read(nil, []func(*rabbitmq.PublishOptions){func(o *rabbitmq.PublishOptions) {
			reflect.ValueOf(o).Elem().FieldByIndex(field.Index).Set(reflect.ValueOf(value))
		}})
		if refused[field.Name] {
			require.ErrorIs(t, err, delayer.ErrInvalid, field.Name)
			require.ErrorContains(t, err, field.Name)
			continue
		}
		require.NoError(t, err, field.Name)
		require.Equal(t, []any{plain(value)}, set(exchange, msg), "%s is neither mapped nor refused", field.Name)
	}
}

// sample is a value of a field that no other field has.
func sample(t *testing.T, field reflect.StructField) any {
	t.Helper()
	switch reflect.Zero(field.Type).Interface().(type) {
	case string:
		return "value of " + field.Name
	case bool:
		return true
	case uint8:
		return uint8(len(field.Name))
	case time.Time:
		return time.Unix(1_700_000_000, 0)
	case rabbitmq.Table:
		return rabbitmq.Table{"a": rabbitmq.Table{"b": "c"}}
	}
	require.Fail(t, fmt.Sprintf("%s is a %v: what is to become of it?", field.Name, field.Type))
	return nil
}

// plain is a value as amqp091-go knows it.
func plain(value any) any {
	if t, is := value.(rabbitmq.Table); is {
		return table(t)
	}
	return value
}

// set returns all that is set.
func set(exchange string, msg amqp091.Publishing) (values []any) {
	if exchange != "" {
		values = append(values, exchange)
	}
	v := reflect.ValueOf(msg)
	for i := range v.NumField() {
		if f := v.Field(i); !f.IsZero() {
			values = append(values, f.Interface())
		}
	}
	return values
}
