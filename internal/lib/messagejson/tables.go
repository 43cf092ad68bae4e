package messagejson

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

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
		table[nameOf(name)] = f
	}
	return table, nil
}

// bytesName is how the name of a header begins whose bytes are not UTF-8. They follow in base64.
const bytesName = "base64:"

func nameOf(header string) string {
	if utf8.ValidString(header) && !strings.HasPrefix(header, bytesName) {
		return header
	}
	return bytesName + base64.StdEncoding.EncodeToString([]byte(header))
}

func headerOf(name string) string {
	if text, is := strings.CutPrefix(name, bytesName); is {
		if header, err := base64.StdEncoding.DecodeString(text); err == nil {
			return string(header)
		}
	}
	return name
}

// A written field is one whose value is not read yet.
type written struct {
	Type  string          `json:"type"`
	Value json.RawMessage `json:"value"`
}

// readers read a value by the name of its type. Tables and arrays are readers of their own.
var readers = map[string]func(json.RawMessage) (any, error){
	"void":    func(json.RawMessage) (any, error) { return nil, nil },
	"bool":    read[bool],
	"bytes":   read[[]byte],
	"int8":    read[int8],
	"int16":   read[int16],
	"int32":   read[int32],
	"int64":   read[int64],
	"uint8":   read[uint8],
	"uint16":  read[uint16],
	"uint32":  read[uint32],
	"string":  func(raw json.RawMessage) (any, error) { t, err := as[Text](raw); return string(t), err },
	"time":    func(raw json.RawMessage) (any, error) { t, err := as[Instant](raw); return time.Time(t), err },
	"float32": func(raw json.RawMessage) (any, error) { f, err := readFloat(raw, 32); return float32(f), err },
	"float64": func(raw json.RawMessage) (any, error) { return readFloat(raw, 64) },
	"decimal": func(raw json.RawMessage) (any, error) {
		d, err := as[decimal](raw)
		return amqp091.Decimal{Scale: uint8(d.Scale), Value: int32(d.Value)}, err
	},
}

func as[T any](raw json.RawMessage) (v T, err error) {
	err = json.Unmarshal(raw, &v)
	return v, err
}

func read[T any](raw json.RawMessage) (any, error) { return as[T](raw) }

// readFloat takes the strings for what JSON has no number for as well.
func readFloat(raw json.RawMessage, bits int) (float64, error) {
	text := string(raw)
	if len(raw) > 0 && raw[0] == '"' {
		var err error
		if text, err = as[string](raw); err != nil {
			return 0, err
		}
	}
	return strconv.ParseFloat(text, bits)
}

func (w written) value() (any, error) {
	switch w.Type {
	case "array":
		items, err := as[[]written](w.Value)
		list := make([]any, len(items))
		for i := range items {
			if err == nil {
				list[i], err = items[i].value()
			}
		}
		return list, err
	case "table":
		return readTable(w.Value)
	}
	reader, ok := readers[w.Type]
	if !ok {
		return nil, fmt.Errorf("there is no type %q", w.Type)
	}
	return reader(w.Value)
}

func readTable(raw json.RawMessage) (amqp091.Table, error) {
	items, err := as[map[string]written](raw)
	if err != nil {
		return nil, err
	}
	table := make(amqp091.Table, len(items))
	for name, item := range items {
		if table[headerOf(name)], err = item.value(); err != nil {
			return nil, fmt.Errorf("header %q: %w", name, err)
		}
	}
	return table, nil
}

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
