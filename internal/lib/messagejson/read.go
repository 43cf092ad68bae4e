package messagejson

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

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
		return readArray(w.Value)
	case "table":
		return readTable(w.Value)
	}
	reader, ok := readers[w.Type]
	if !ok {
		return nil, fmt.Errorf("there is no type %q", w.Type)
	}
	return reader(w.Value)
}

func readArray(raw json.RawMessage) (any, error) {
	items, err := as[[]written](raw)
	if err != nil {
		return nil, err
	}
	list := make([]any, len(items))
	for i, item := range items {
		if list[i], err = item.value(); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func readTable(raw json.RawMessage) (amqp091.Table, error) {
	items, err := as[map[string]written](raw)
	if err != nil {
		return nil, err
	}
	table := make(amqp091.Table, len(items))
	for name, item := range items {
		if table[name], err = item.value(); err != nil {
			return nil, fmt.Errorf("header %q: %w", name, err)
		}
	}
	return table, nil
}
