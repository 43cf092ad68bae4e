package messagejson

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// field is a header's value with the name of its AMQP type.
type field struct {
	Type  string `json:"type"`
	Value any    `json:"value"`
}

func fieldOf(value any) (field, error) {
	switch v := value.(type) {
	case nil:
		return field{"void", nil}, nil
	case bool:
		return field{"bool", v}, nil
	case string:
		return field{"string", Text(v)}, nil
	case []byte:
		return field{"bytes", append([]byte{}, v...)}, nil // nil would be null
	case time.Time:
		return field{"time", Instant(v)}, nil
	case amqp091.Decimal:
		return field{"decimal", decimal{int64(v.Scale), int64(v.Value)}}, nil
	case float32:
		return field{"float32", float(float64(v), 32)}, nil
	case float64:
		return field{"float64", float(v, 64)}, nil
	case int: // it has 32 bits on the wire, or 64 if it needs them
		if int64(int32(v)) != int64(v) {
			return field{"int64", v}, nil
		}
		return field{"int32", v}, nil
	case int8, int16, int32, int64, byte, uint16, uint32:
		return field{fmt.Sprintf("%T", v), v}, nil
	case []any:
		list := make([]field, len(v))
		for i, item := range v {
			var err error
			if list[i], err = fieldOf(item); err != nil {
				return field{}, err
			}
		}
		return field{"array", list}, nil
	case amqp091.Table:
		table, err := tableOf(v)
		return field{"table", table}, err
	}
	return field{}, fmt.Errorf("a %T", value)
}

type decimal struct {
	Scale int64 `json:"scale"`
	Value int64 `json:"value"`
}

// float is a number, or a string where JSON has none: "NaN", "+Inf", "-Inf".
func float(v float64, bits int) any {
	text := strconv.FormatFloat(v, 'g', -1, bits)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return text
	}
	return json.Number(text)
}

func tableOf(t amqp091.Table) (map[string]field, error) {
	table := make(map[string]field, len(t))
	for name, value := range t {
		f, err := fieldOf(value)
		if err != nil {
			return nil, fmt.Errorf("header %q: %w", name, err)
		}
		table[name] = f
	}
	return table, nil
}
