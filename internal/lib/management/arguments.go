package management

import (
	"bytes"
	"fmt"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/lib/messagejson"
)

// Arguments are those of an object. Integers keep all their digits.
type Arguments amqp091.Table

// UnmarshalJSON reads them. The API sends [] where there are none.
func (a *Arguments) UnmarshalJSON(text []byte) error {
	if bytes.HasPrefix(text, []byte("[")) {
		*a = Arguments{}
		return nil
	}
	table, err := messagejson.Table(text)
	if err != nil {
		return fmt.Errorf("arguments: %w", err)
	}
	*a = Arguments(table)
	return nil
}

// Table is never nil.
func (a Arguments) Table() amqp091.Table {
	if a == nil {
		return amqp091.Table{}
	}
	return amqp091.Table(a)
}
