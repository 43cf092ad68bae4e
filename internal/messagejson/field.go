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
		return field{"bytes", base64Of(v)}, nil
	case time.Time:
		return field{"time", Instant(v)}, nil
	case amqp091.Decimal:
		return field{"decimal", decimal{int64(v.Scale), int64(v.Value)}}, nil
	case float32:
		return field{"float32", float(float64(v), 32)}, nil
	case float64:
		return field{"float64", float(v, 64)}, nil
	case int:
		return ofInt(v), nil
	case int8, int16, int32, int64, byte, uint16, uint32:
		return field{integerTypes[fmt.Sprintf("%T", v)], v}, nil
	case []any:
		return arrayOf(v)
	case amqp091.Table:
		return tableOf(v)
	}
	return field{}, fmt.Errorf("a %T", value)
}

// integerTypes are the names, by Go's.
var integerTypes = map[string]string{
	"int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64", "uint8": "uint8", "uint16": "uint16", "uint32": "uint32",
}

// ofInt gives an int the width that it has on the wire.
func ofInt(v int) field {
	if v > math.MaxInt32 || v < math.MinInt32 {
		return field{"int64", int64(v)}
	}
	return field{"int32", int32(v)}
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

func arrayOf(items []any) (field, error) {
	list := make([]field, 0, len(items))
	for _, item := range items {
		f, err := fieldOf(item)
		if err != nil {
			return field{}, err
		}
		list = append(list, f)
	}
	return field{"array", list}, nil
}

func tableOf(t amqp091.Table) (field, error) {
	table := map[string]field{}
	for name, value := range t {
		f, err := fieldOf(value)
		if err != nil {
			return field{}, err
		}
		table[name] = f
	}
	return field{"table", table}, nil
}
