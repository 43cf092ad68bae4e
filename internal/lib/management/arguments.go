package management

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// Arguments are those of an object. Integers keep all their digits: float64, which package json
// takes for numbers, has 53 bits.
type Arguments amqp091.Table

// UnmarshalJSON implements [json.Unmarshaler]. The API sends [] where there are none.
func (a *Arguments) UnmarshalJSON(text []byte) error {
	if bytes.HasPrefix(text, []byte("[")) {
		*a = Arguments{}
		return nil
	}
	var raw map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&raw); err != nil {
		return err
	}
	table, err := tableOf(raw)
	*a = Arguments(table)
	return err
}

// Table is never nil.
func (a Arguments) Table() amqp091.Table {
	if a == nil {
		return amqp091.Table{}
	}
	return amqp091.Table(a)
}

func tableOf(raw map[string]any) (amqp091.Table, error) {
	table := amqp091.Table{}
	for key, value := range raw {
		field, err := fieldOf(value)
		if err != nil {
			return nil, fmt.Errorf("argument %q: %w", key, err)
		}
		table[key] = field
	}
	return table, nil
}

// fieldOf is a JSON value as a field of an AMQP table.
func fieldOf(value any) (any, error) {
	switch value := value.(type) {
	case json.Number:
		return numberOf(value)
	case map[string]any:
		return tableOf(value)
	case []any:
		list := make([]any, len(value))
		for i, item := range value {
			var err error
			if list[i], err = fieldOf(item); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	return value, nil // string, bool or nil
}

// numberOf is an int64, or a float64 if the number is written as one.
func numberOf(n json.Number) (any, error) {
	if i, err := strconv.ParseInt(n.String(), 10, 64); err == nil {
		return i, nil
	}
	if strings.ContainsAny(n.String(), ".eE") {
		return n.Float64()
	}
	return nil, fmt.Errorf("%v has more than 64 bits", n)
}
