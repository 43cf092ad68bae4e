// Package strict decodes YAML into structs: a key that is unknown, and a value that would be cut
// off, are errors that name the key.
package strict

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/delayer-go/delayer/internal/lib/engine"
)

// Inline is the yaml tag of a struct whose keys stand beside the others.
const Inline = ",inline"

// hint is for a value of the wrong type.
const hint = "durations have a unit: 1s, 250ms, 15m; docs/choosing.md has the types"

// Decode decodes a mapping, and returns the paths of its keys. path is that of the mapping, as in
// "serve.", or "". Keys of others are passed over. Errors are ErrConfig.
func Decode(path string, node *yaml.Node, into any, others ...string) (named []string, err error) {
	if named, err = knownKeys(node, reflect.TypeOf(into).Elem(), path, others); err != nil {
		return nil, err
	}
	if err := node.Decode(into); err != nil {
		return nil, engine.ConfigError("configuration", Plain(err), hint)
	}
	return named, nil
}

// Section decodes one key of a document, if it is there. What is no YAML has none.
func Section(text []byte, key string, into any) (err error) {
	var document map[string]yaml.Node
	_ = yaml.Unmarshal(text, &document) // who reads the rest says so
	if section, there := document[key]; there {
		_, err = Decode(key+".", &section, into)
	}
	return err
}

// Peek decodes what it can of one key of a document, and passes over the rest: for what is read and
// checked elsewhere.
func Peek(text []byte, key string, into any) {
	var document map[string]yaml.Node
	_ = yaml.Unmarshal(text, &document)
	section := document[key]
	_ = section.Decode(into)
}

// knownKeys refuses unknown keys of a mapping before it is decoded. It returns the paths of its
// keys.
func knownKeys(node *yaml.Node, t reflect.Type, path string, others []string) (named []string, err error) {
	if node.Kind != yaml.MappingNode {
		name := cmp.Or(strings.TrimSuffix(path, "."), "configuration")
		return nil, engine.ConfigError(name, fmt.Errorf("line %d is not a mapping of keys to values", node.Line), "want keys and values, as in backend: binaryladder")
	}
	names, types := keys(t)
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i].Value
		if slices.Contains(others, key) {
			continue
		}
		if !slices.Contains(names, key) {
			return nil, engine.ConfigError(path+key, fmt.Errorf("line %d: unknown key", node.Content[i].Line), "known: "+strings.Join(names, ", "))
		}
		named = append(named, path+key)
		below, err := knownValue(node.Content[i+1], types[key], path+key)
		if err != nil {
			return nil, err
		}
		named = append(named, below...)
	}
	return named, nil
}

// knownValue checks a value. It refuses a fraction where a whole number or a duration is wanted:
// the decoder would silently cut it off.
func knownValue(node *yaml.Node, t reflect.Type, path string) (named []string, err error) {
	switch t.Kind() {
	case reflect.Struct:
		return knownKeys(node, t, path+".", nil)
	case reflect.Slice:
		if node.Kind == yaml.MappingNode && len(node.Content) > 0 {
			key := node.Content[0].Value
			return nil, engine.ConfigError(path, fmt.Errorf("line %d is one entry, not a list of them", node.Line), "write - "+key+": … (or [{"+key+": …}])")
		}
		for _, item := range node.Content {
			if _, err := knownValue(item, t.Elem(), path); err != nil {
				return nil, err
			}
		}
	case reflect.Int, reflect.Int64:
		for node.Kind == yaml.AliasNode {
			node = node.Alias
		}
		if node.ShortTag() == "!!float" {
			return nil, engine.ConfigError(path, fmt.Errorf("line %d: %.40s is not a whole number", node.Line, node.Value), hint)
		}
	}
	return nil, nil
}

func keys(t reflect.Type) (names []string, types map[string]reflect.Type) {
	types = map[string]reflect.Type{}
	for i := range t.NumField() {
		field := t.Field(i)
		switch name := field.Tag.Get("yaml"); name {
		case "", "-":
		case Inline:
			more, theirs := keys(field.Type)
			names = append(names, more...)
			maps.Copy(types, theirs)
		default:
			names = append(names, name)
			types[name] = field.Type
		}
	}
	return names, types
}

// Plain removes package and type names from a message. It may quote a value, but never the URL:
// a string always decodes.
func Plain(err error) error {
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "yaml: "), "unmarshal errors:\n")
	text = strings.NewReplacer("\n", ";", "!!", "", "time.Duration", "a duration", "cannot unmarshal", "cannot read").Replace(text)
	return errors.New(strings.TrimSpace(text))
}
