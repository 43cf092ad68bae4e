package inventory

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// apiExchange is an exchange as the API shows it.
type apiExchange struct {
	Name       string    `json:"name"`
	Type       string    `json:"type"`
	Durable    bool      `json:"durable"`
	AutoDelete bool      `json:"auto_delete"`
	Internal   bool      `json:"internal"`
	Arguments  arguments `json:"arguments"`
	Policy     string    `json:"policy"`
	Pending    *int64    `json:"messages_delayed"` // of the node that answers
	Stats      struct {
		In struct {
			Rate float64 `json:"rate"`
		} `json:"publish_in_details"`
	} `json:"message_stats"`
}

func (x apiExchange) exchange() Exchange {
	return Exchange{
		Name: x.Name, Type: x.Type, Durable: x.Durable, AutoDelete: x.AutoDelete, Internal: x.Internal,
		Arguments: x.Arguments.table(), Policy: x.Policy,
	}
}

// apiBinding is a binding as the API shows it.
type apiBinding struct {
	Source    string    `json:"source"`
	Target    string    `json:"destination"`
	Kind      string    `json:"destination_type"`
	Key       string    `json:"routing_key"`
	Arguments arguments `json:"arguments"`
}

func (b apiBinding) binding() Binding {
	return Binding{Source: b.Source, Target: b.Target, ToExchange: b.Kind == "exchange", Key: b.Key, Arguments: b.Arguments.table()}
}

// arguments are those of an object. Integers keep all their digits: float64, which package json
// takes for numbers, has 53 bits.
type arguments amqp091.Table

// UnmarshalJSON implements [json.Unmarshaler]. The API sends [] where there are none.
func (a *arguments) UnmarshalJSON(text []byte) error {
	if bytes.HasPrefix(text, []byte("[")) {
		*a = arguments{}
		return nil
	}
	var raw map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&raw); err != nil {
		return err
	}
	table, err := tableOf(raw)
	*a = arguments(table)
	return err
}

// table is never nil.
func (a arguments) table() amqp091.Table {
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
