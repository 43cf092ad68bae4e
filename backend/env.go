package backend

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/strict"
)

const envPrefix = "DELAYER_"

// ours matches the DELAYER_ variables of this project's tests and benchmarks, which are no
// configuration.
var ours = regexp.MustCompile(`^DELAYER_(POSTGRES|BROKER|RABBITMQ_IMAGE|TEST_.*)$`)

// afterService matches what Kubernetes sets in each pod for a Service, after its name:
// https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables.
var afterService = regexp.MustCompile(`^(_SERVICE_HOST|_SERVICE_PORT(_.+)?|_PORT|_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// FromEnv overlays cfg with the variables of environ ("KEY=value") that begin with DELAYER_: the
// key's path in capitals with underscores, as in DELAYER_URL, DELAYER_QUEUE_TYPE or
// DELAYER_BINARYLADDER_TICK. A variable that is set but empty counts as unset. Unknown variables
// are errors, so that a misspelt one is not ignored. Those that Kubernetes sets for a Service named
// delayer or delayer-serve (DELAYER_SERVICE_HOST, DELAYER_SERVE_PORT_80_TCP_ADDR) are ignored.
// Errors are ErrConfig.
func FromEnv(cfg Config, environ []string) (Config, error) {
	known := fields(&cfg)
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		ofService := func(other string) bool { // without its _SERVICE_HOST a DELAYER_HTTP_PORT was typed by a person
			host, _, _ := strings.Cut(other, "=")
			service, is := strings.CutSuffix(host, "_SERVICE_HOST")
			return is && strings.HasPrefix(name, service) && afterService.MatchString(name[len(service):])
		}
		if !strings.HasPrefix(name, envPrefix) || value == "" || ours.MatchString(name) || slices.ContainsFunc(environ, ofService) {
			continue
		}
		at := slices.IndexFunc(known, func(f field) bool { return f.env() == name })
		if at < 0 {
			names := make([]string, len(known))
			for i, f := range known {
				names[i] = strings.TrimPrefix(f.env(), envPrefix)
			}
			return cfg, engine.ConfigError(name, fmt.Errorf("unknown variable"), "known, each with "+envPrefix+" before it: "+strings.Join(names, ", "))
		}
		if err := known[at].set(value); err != nil {
			return cfg, engine.ConfigError(name, err, "")
		}
	}
	return cfg, nil
}

// A field is a value of a Config with its key's path.
type field struct {
	name  string // "binaryladder.tick"
	value reflect.Value
}

func (f field) env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(f.name, ".", "_"))
}

func (f field) empty() bool {
	return f.value.IsZero() || f.value.Kind() == reflect.Slice && f.value.Len() == 0
}

// set parses a value. Its error never quotes a string value, which may be the URL.
func (f field) set(text string) error {
	switch f.value.Interface().(type) {
	case time.Duration:
		d, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("%q is not a duration such as 1s, 250ms or 15m", text)
		}
		f.value.SetInt(int64(d))
	case bool:
		on, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		f.value.SetBool(on)
		return nil
	case int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
		f.value.SetInt(int64(n))
	case []time.Duration:
		var list []time.Duration
		for item := range strings.SplitSeq(text, ",") {
			d, err := time.ParseDuration(strings.TrimSpace(item))
			if err != nil {
				return fmt.Errorf("%q is not a list of durations such as 1m,5m,15m", text)
			}
			list = append(list, d)
		}
		f.value.Set(reflect.ValueOf(list))
	default:
		if f.value.Kind() == reflect.String {
			f.value.SetString(text)
			return nil
		}
		return fmt.Errorf("cannot be set from the environment")
	}
	if f.value.IsZero() {
		return fmt.Errorf("%q is not a value for it: leave it unset for its default", text)
	}
	return nil
}

// fields lists the values of a Config that a file may set.
func fields(cfg *Config) []field {
	return walk(reflect.ValueOf(cfg).Elem(), "")
}

func walk(v reflect.Value, path string) []field {
	var out []field
	for i := range v.NumField() {
		name := v.Type().Field(i).Tag.Get("yaml")
		switch {
		case name == "" || name == "-":
			continue
		case name == strict.Inline:
			out = append(out, walk(v.Field(i), path)...)
			continue
		case v.Field(i).Kind() == reflect.Struct:
			out = append(out, walk(v.Field(i), path+name+".")...)
			continue
		}
		out = append(out, field{path + name, v.Field(i)})
	}
	return out
}
