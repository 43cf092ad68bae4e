package messagejson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// Table reads a JSON object as an AMQP table. Its values carry no types, unlike those of [Headers]:
// a number without fraction and exponent is an int64, with every digit, and another a float64.
func Table(text []byte) (amqp091.Table, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var values map[string]any
	if err := decoder.Decode(&values); err != nil {
		return nil, errors.New("it is not a JSON object")
	}
	return untypedTable(values)
}

func untypedTable(values map[string]any) (amqp091.Table, error) {
	table := make(amqp091.Table, len(values))
	for name, value := range values {
		field, err := untypedField(value)
		if err != nil {
			return nil, fmt.Errorf("%.64q: %w", name, err)
		}
		table[name] = field
	}
	return table, nil
}

func untypedField(value any) (_ any, err error) {
	switch v := value.(type) {
	case json.Number:
		var number any
		if strings.ContainsAny(v.String(), ".eE") {
			number, err = v.Float64()
		} else {
			number, err = v.Int64()
		}
		if err != nil {
			return nil, fmt.Errorf("%.40s does not fit into 64 bits", v)
		}
		return number, nil
	case map[string]any:
		return untypedTable(v)
	case []any:
		for i := range v {
			if v[i], err = untypedField(v[i]); err != nil {
				return nil, err
			}
		}
	}
	return value, nil // text, bool, nil or the list
}
