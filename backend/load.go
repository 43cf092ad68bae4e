package backend

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/delayer-go/delayer/internal/lib/engine"
)

// Load reads a YAML or JSON file and then the environment, which wins (see [FromEnv]). Keys in
// neither have their defaults. Errors are ErrConfig.
func Load(path string) (Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return Config{}, engine.ConfigError(path, err, "give an existing file")
	}
	defer f.Close() //nolint:errcheck // read only
	cfg, err := Parse(f)
	if err != nil {
		return Config{}, err
	}
	return FromEnv(cfg, os.Environ())
}

// Parse reads a configuration in YAML or JSON. Unknown keys and values of the wrong type are
// errors, which name the key and what is allowed. A zero or empty value is an error unless it is
// the default, because zero means the default in a Config. Fields that the text does not name stay
// zero. Errors are ErrConfig.
func Parse(r io.Reader) (Config, error) {
	var cfg Config
	var doc yaml.Node
	dec := yaml.NewDecoder(r)
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return cfg, nil // an empty file says nothing
	case err != nil:
		return cfg, engine.ConfigError("configuration", plainYAML(err), "want YAML or JSON")
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return cfg, engine.ConfigError("configuration", errors.New("holds more than one document"), "keep one")
	}
	named, err := knownKeys(doc.Content[0], reflect.TypeOf(cfg), "")
	if err != nil {
		return cfg, err
	}
	if err := doc.Decode(&cfg); err != nil {
		plain := plainYAML(err)
		return cfg, engine.ConfigError("configuration", plain, hintFor(plain.Error()))
	}
	return cfg, cfg.refuseZeros(named)
}

// refuseZeros refuses keys that a file sets to zero or empty although their default is another
// value.
func (c Config) refuseZeros(named []string) error {
	def := Default()
	byDefault := fields(&def)
	for i, f := range fields(&c) {
		if slices.Contains(named, f.name) && f.empty() && !byDefault[i].empty() {
			return engine.ConfigError(f.name, fmt.Errorf("%s is not a value for it", f.text()), "leave the key out for its default")
		}
	}
	return nil
}

// knownKeys refuses unknown keys of a mapping before it is decoded. It returns the paths of its
// keys.
func knownKeys(node *yaml.Node, t reflect.Type, path string) (named []string, err error) {
	if node.Kind != yaml.MappingNode {
		name := strings.TrimSuffix(path, ".")
		if name == "" {
			name = "configuration"
		}
		return nil, engine.ConfigError(name, fmt.Errorf("line %d is not a mapping of keys to values", node.Line), "want keys and values, as in backend: binaryladder")
	}
	names, types := keys(t)
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i].Value
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
		return knownKeys(node, t, path+".")
	case reflect.Slice:
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
			hint := hintFor("into int")
			if t == reflect.TypeFor[time.Duration]() {
				hint = hintFor("a duration")
			}
			return nil, engine.ConfigError(path, fmt.Errorf("line %d: %.40s is not a whole number", node.Line, node.Value), hint)
		}
	}
	return nil, nil
}

// keys lists the yaml keys of a struct with the types of their values.
func keys(t reflect.Type) (names []string, types map[string]reflect.Type) {
	types = map[string]reflect.Type{}
	for i := range t.NumField() {
		field := t.Field(i)
		switch name := field.Tag.Get("yaml"); name {
		case "", "-":
		case inline:
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

// plainYAML removes package and type names from a message. It may quote a value, but never the URL:
// a string always decodes.
func plainYAML(err error) error {
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "yaml: "), "unmarshal errors:\n")
	text = strings.NewReplacer("\n", ";", "!!", "", "time.Duration", "a duration", "cannot unmarshal", "cannot read").Replace(text)
	return errors.New(strings.TrimSpace(text))
}

// hintFor returns the hint for a decoder's complaint.
func hintFor(problem string) string {
	for _, c := range [...]struct{ part, hint string }{
		{"a duration", "durations have a unit: 1s, 250ms, 15m"},
		{"already defined", "keep one"},
		{"into int", "want a whole number that fits into 64 bits"},
		{"neither true nor false", "leave the key out for its default"},
		{"into string", "want text"},
	} {
		if strings.Contains(problem, c.part) {
			return c.hint
		}
	}
	return "want values of the types in docs/backends.md"
}
