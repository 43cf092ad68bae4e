package backend_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// A badPublish is a call of Publish that cannot be right. The error has the kind, names what is
// wrong with names, and says with out what would be right.
type badPublish struct {
	exchange, key string
	delay         time.Duration
	msg           amqp091.Publishing
	kind          error
	names, out    string
	asks          bool // the broker must be asked: it cannot be known without
}

// bad is a message with one header.
func bad(value any) amqp091.Publishing {
	return amqp091.Publishing{Headers: amqp091.Table{"note": value}}
}

func copies(name string, value any) amqp091.Publishing {
	return amqp091.Publishing{Headers: amqp091.Table{name: value}}
}

// badPublishes are for a ladder of 4 levels of 10 ms under the prefix, and a queue that exists.
func badPublishes(prefix, queue string) map[string]badPublish {
	long, loop := strings.Repeat("x", 256), amqp091.Table{}
	loop["loop"] = loop
	deep := any("bottom")
	for range 70 {
		deep = []any{deep}
	}
	invalid := func(msg amqp091.Publishing, names, out string) badPublish {
		return badPublish{"", queue, time.Millisecond, msg, delayer.ErrInvalid, names, out, false}
	}
	to := func(exchange, key, names, out string) badPublish {
		return badPublish{exchange, key, time.Millisecond, amqp091.Publishing{}, delayer.ErrInvalid, names, out, false}
	}
	after := func(delay time.Duration, names, out string) badPublish {
		return badPublish{"", queue, delay, amqp091.Publishing{}, delayer.ErrOutOfRange, names, out, false}
	}
	gone := func(exchange, key string, delay time.Duration, names, out string) badPublish {
		return badPublish{exchange, key, delay, amqp091.Publishing{}, delayer.ErrUnroutable, names, out, true}
	}
	type table = amqp091.Table
	return map[string]badPublish{
		"delay: negative":          after(-1, "-1ns is negative", "0"),
		"delay: the least":         after(-1<<63, "-2562047h47m16.854775808s is negative", "0"),
		"delay: too long":          after(150*time.Millisecond+1, "150.000001ms is longer than 150ms", "a shorter delay"),
		"delay: the longest":       after(1<<63-1, "2562047h47m16.854775807s is longer than 150ms", "a shorter delay"),
		"nowhere":                  to("", "", "neither an exchange nor a queue", "give an exchange, or a queue's name as the key"),
		"exchange: long":           to(long, "k", "exchange's name has 256 bytes", "AMQP allows 255"),
		"key: long":                to("x", long, "routing key has 256 bytes", "AMQP allows 255"),
		"queue: long":              to("", long, "routing key has 256 bytes", "AMQP allows 255"),
		"key: reserved":            to("x", "~d:=abc", `"~d:=abc" begins with "~d"`, "rename it"),
		"queue: reserved":          to("", "~d", `"~d" begins with "~d"`, "rename it"),
		"exchange: ours":           to(prefix+".delivery", "k", prefix+".", "belong to this Delayer: choose another name"),
		"exchange: ours to be":     to(prefix+".anything", "k", prefix+".", "belong to this Delayer: choose another name"),
		"queue: ours":              to("", prefix+".unroutable", prefix+".", "belong to this Delayer: choose another name"),
		"content type: long":       invalid(amqp091.Publishing{ContentType: long}, "ContentType has 256 bytes", "AMQP allows 255"),
		"content encoding: long":   invalid(amqp091.Publishing{ContentEncoding: long}, "ContentEncoding has 256", "AMQP allows 255"),
		"correlation id: long":     invalid(amqp091.Publishing{CorrelationId: long}, "CorrelationId has 256", "AMQP allows 255"),
		"reply to: long":           invalid(amqp091.Publishing{ReplyTo: long}, "ReplyTo has 256", "AMQP allows 255"),
		"message id: long":         invalid(amqp091.Publishing{MessageId: long}, "MessageId has 256", "AMQP allows 255"),
		"type: long":               invalid(amqp091.Publishing{Type: long}, "Type has 256", "AMQP allows 255"),
		"app id: long":             invalid(amqp091.Publishing{AppId: long}, "AppId has 256", "AMQP allows 255"),
		"user id: long":            invalid(amqp091.Publishing{UserId: long}, "UserId has 256", "AMQP allows 255"),
		"user id: another":         invalid(amqp091.Publishing{UserId: "root"}, `UserId "root" is not the connection's user`, "leave it empty"),
		"expiration":               invalid(amqp091.Publishing{Expiration: "60000"}, `Expiration "60000" would count while`, "x-message-ttl"),
		"expiration: nonsense":     invalid(amqp091.Publishing{Expiration: "soon"}, `Expiration "soon"`, "x-message-ttl"),
		"expiration: 0":            invalid(amqp091.Publishing{Expiration: "0"}, `Expiration "0"`, "x-message-ttl"),
		"delivery mode: 3":         invalid(amqp091.Publishing{DeliveryMode: 3}, "DeliveryMode 3", "1 (transient) and 2 (persistent)"),
		"delivery mode: 255":       invalid(amqp091.Publishing{DeliveryMode: 255}, "DeliveryMode 255", "1 (transient) and 2 (persistent)"),
		"header: map":              invalid(bad(map[string]any{"a": 1}), `header "note"`, "amqp091.Table"),
		"header: strings":          invalid(bad([]string{"a"}), `header "note": AMQP has no type for a []string`, "[]any"),
		"header: uint":             invalid(bad(uint(1)), "a uint:", "a sized integer"),
		"header: uint64":           invalid(bad(uint64(1)), "a uint64", "a sized integer"),
		"header: struct":           invalid(bad(struct{}{}), "a struct {}", "use a string"),
		"header: pointer":          invalid(bad(new(string)), "a *string", "use a string"),
		"header: duration":         invalid(bad(time.Second), "a time.Duration", "a sized integer"),
		"header: complex":          invalid(bad(1i), "a complex128", "float"),
		"header: error":            invalid(bad(context.Canceled), `header "note"`, "use a string"),
		"header: channel":          invalid(bad(make(chan int)), "a chan int", "use a string"),
		"header: function":         invalid(bad(func() {}), "a func()", "use a string"),
		"header: in a list":        invalid(bad([]any{1, []any{uint64(2)}}), "a uint64", "a sized integer"),
		"header: in a table":       invalid(bad(table{"a": table{"b": []int{1}}}), "a []int", "[]any"),
		"header: in itself":        invalid(bad(loop), "nested more than 32 deep", "flatten it"),
		"header: deep":             invalid(bad(deep), "nested more than 32 deep", "flatten it"),
		"header: long name":        invalid(amqp091.Publishing{Headers: table{long: 1}}, "a header's name has 256 bytes", "AMQP allows 255"),
		"header: long name inside": invalid(bad(table{long: 1}), "a header's name has 256 bytes", "AMQP allows 255"),
		"headers: huge":            invalid(bad(strings.Repeat("x", 128<<10)), "properties and headers take", "put the data into the body"),
		"headers: many": invalid(amqp091.Publishing{Headers: func() table {
			t := table{}
			for i := range 10_000 {
				t[strings.Repeat("n", i%200)+string(rune(i+0x4e00))] = int64(i)
			}
			return t
		}()}, "10000 entries in one table", "put the data into the body"),
		"CC: a string":      invalid(copies("CC", "a"), "header CC is a string", "a []any of strings"),
		"CC: nil":           invalid(copies("CC", nil), "header CC is a <nil>", "a []any of strings"),
		"BCC: a table":      invalid(copies("BCC", table{}), "header BCC is a amqp091.Table", "a []any of strings"),
		"BCC: numbers":      invalid(copies("BCC", []any{"a", 1}), "header BCC holds a int", "wants strings"),
		"CC: bytes":         invalid(copies("CC", []any{[]byte("a")}), "header CC holds a []uint8", "wants strings"),
		"CC: long":          invalid(copies("CC", []any{long}), "a key in header CC has 256 bytes", "AMQP allows 255"),
		"BCC: reserved":     invalid(copies("BCC", []any{"a", "~d:3"}), `a key in header BCC, "~d:3"`, "rename it"),
		"CC: reserved":      invalid(copies("CC", []any{"~d.1"}), `a key in header CC, "~d.1"`, "rename it"),
		"unknown exchange":  gone(prefix+"-nowhere", "k", 10*time.Millisecond, `exchange "`+prefix+`-nowhere"`, "declare it before publishing"),
		"unknown queue":     gone("", prefix+"-nowhere", 10*time.Millisecond, `queue "`+prefix+`-nowhere"`, "declare it before publishing"),
		"unknown, at once":  gone(prefix+"-nowhere", "k", 0, `exchange "`+prefix+`-nowhere"`, "declare it before publishing"),
		"unbound, at once":  gone("amq.direct", prefix+"-unbound", 0, "amq.direct", "bind a queue for this key"),
		"queue, at once":    gone("", prefix+"-nowhere", 0, `queue "`+prefix+`-nowhere"`, "declare it before publishing"),
		"control character": gone("", "\x00\x1b[31m", 10*time.Millisecond, `"\x00\x1b[31m"`, "declare it before publishing"),
	}
}

// TestPublish_Bad: after each of them the same Delayer publishes something good, and that arrives.
func TestPublish_Bad(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.BinaryLadder = binaryladder.Config{Tick: 10 * time.Millisecond, Steps: "10ms,20ms,40ms,80ms"}
	d, queue := rabbittest.Open(t, cfg), rabbittest.Prefix(t)
	in := consume(t, channel(t), queue)
	cases := badPublishes(cfg.Prefix, queue)
	require.GreaterOrEqual(t, len(cases), 55)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		c := cases[name]
		t.Run(name, func(t *testing.T) {
			ctx := within(t)
			if !c.asks {
				ctx = ended // what can be told without the broker is told first
			}
			err := d.Publish(ctx, c.exchange, c.key, c.delay, c.msg)
			checkBad(t, err, c.kind, c.names, c.out)
			require.True(t, delayer.SafeToRetry(err), "nothing was stored")
			require.NoError(t, d.Publish(within(t), "", queue, 10*time.Millisecond, amqp091.Publishing{MessageId: name}))
		})
	}
	for range cases {
		m := <-in
		require.Contains(t, cases, m.MessageId)
		delete(cases, m.MessageId)
	}
}

// checkBad holds an error to what every error of ours promises.
func checkBad(t *testing.T, err error, kind error, names, out string) {
	t.Helper()
	var typed *delayer.Error
	require.ErrorAs(t, err, &typed)
	assert.ErrorIs(t, err, kind)
	assert.ErrorContains(t, err, names, "it names the input")
	assert.ErrorContains(t, err, out, "it says the way out")
	assert.NotContains(t, err.Error(), "hunter2", "it shows no password")
	assert.Less(t, len(err.Error()), 700, "it does not repeat a large input")
	assert.NotContains(t, err.Error(), "\x1b", "it cannot write to a terminal what the input says")
}

// A badText is a configuration that cannot be right.
type badText struct{ text, names, out string }

var badFiles = map[string]badText{
	"no mapping":            {"- url", "line 1 is not a mapping", "want keys and values, as in backend: binaryladder"},
	"a word":                {"binaryladder", "line 1 is not a mapping", "want keys and values"},
	"broken":                {"url: [", "did not find expected node content", "YAML or JSON"},
	"broken JSON":           {`{"url": "amqp://h/"`, "did not find expected", "YAML or JSON"},
	"a tab":                 {"binaryladder:\n\tlevels: 3", "found character that cannot start any token", "YAML or JSON"},
	"two documents":         {"url: amqp://h/\n---\nurl: amqp://h/", "more than one document", "keep one"},
	"a key twice":           {"prefix: a\nprefix: b", `"prefix" already defined`, "keep one"},
	"an unknown key":        {"urls: x", "open urls", "known: url, "},
	"capitals":              {"URL: x", "open URL", "known: url, "},
	"a nested unknown key":  {"controller: {ticks: 1s}", "open controller.ticks", "known: wheel, levels, tick, run"},
	"another's key":         {"fixedtiers: {levels: 3}", "open fixedtiers.levels", "known: tiers, "},
	"a scalar for a part":   {"plugin: theirs", "open plugin", "want keys and values"},
	"a list for a part":     {"controller: [1]", "open controller", "want keys and values"},
	"a map for a value":     {"backend: {a: b}", "cannot read map into string", "want text"},
	"a word for a number":   {"connections: many", "`many` into int", "want a whole number"},
	"a float for a number":  {"connections: 1.5", "connections: invalid configuration: line 1: 1.5 is not", "want a whole number"},
	"an overflow":           {"connections: 99999999999999999999", "99999999999999999999 is not", "that fits into 64 bits"},
	"a float as a delay":    {"binaryladder: {tick: 1e6}", "binaryladder.tick: invalid configuration: line 1: 1e6 is not", "durations have a unit: 1s"},
	"a float in a list":     {"fixedtiers: {tiers: [1m, 1e9]}", "fixedtiers.tiers: invalid configuration: line 1: 1e9 is not", "durations have a unit: 1s"},
	"an aliased float":      {"connections: &n 1.5\ncontroller: {levels: *n}", "1.5 is not a whole number", "line 1"},
	"a number as a delay":   {"binaryladder: {tick: 60}", "`60` into a duration", "durations have a unit: 1s"},
	"an unknown unit":       {"binaryladder: {tick: 3d}", "`3d` into a duration", "durations have a unit: 1s"},
	"a word as a delay":     {"controller: {tick: soon}", "`soon` into a duration", "durations have a unit: 1s"},
	"a word as a list":      {"fixedtiers: {tiers: 1m}", "`1m` into []a duration", "durations have a unit: 1s"},
	"a number in a list":    {"fixedtiers: {tiers: [1m, 5]}", "`5` into a duration", "durations have a unit: 1s"},
	"a word as a yes":       {"controller: {run: maybe}", `"maybe" is neither true nor false`, "leave the key out for its default"},
	"an empty backend":      {"backend: ''", `open backend: invalid configuration: "" is not a value`, "leave the key out"},
	"an empty prefix":       {"prefix: ''", "open prefix", "leave the key out"},
	"an empty list":         {"fixedtiers: {tiers: []}", "open fixedtiers.tiers", "leave the key out"},
	"zero levels":           {"controller: {levels: 0}", "open controller.levels", "leave the key out"},
	"no steps":              {"binaryladder: {steps: []}", "open binaryladder.steps", "leave the key out"},
	"null steps":            {"binaryladder: {steps: null}", "open binaryladder.steps", "leave the key out"},
	"a map of steps":        {"binaryladder: {steps: {a: b}}", "cannot read map into string", "want text"},
	"zero ticks":            {"controller: {tick: 0s}", "open controller.tick", "leave the key out"},
	"zero connections":      {"connections: 0", "open connections", "leave the key out"},
	"no URL":                {"backend: binaryladder", "open url: invalid configuration: empty", "want amqp://"},
	"no scheme":             {"url: host/hunter2", "open url: invalid configuration: no scheme", "want amqp://"},
	"another scheme":        {"url: http://u:hunter2@h/", `scheme "http" is not AMQP`, "want amqp://"},
	"a space in a password": {"url: 'amqp://u:hun ter2@h/'", "open url: invalid configuration: malformed", "percent-encode"},
	"a word as a port":      {"url: amqp://u:hunter2@h:port/", "open url: invalid configuration: malformed", "want amqp://"},
	"an unknown backend":    {"url: amqp://h/\nbackend: ladder", `unknown backend "ladder"`, "known: binaryladder, "},
	"an unknown queue type": {"url: amqp://h/\nqueue_type: stream", `"stream" is neither quorum nor classic`, "quorum"},
	"many connections":      {"url: amqp://h/\nconnections: 65", "65 is not between 1 and 64", "1 is enough"},
	"a prefix of amq.":      {"url: amqp://h/\nprefix: amq.x", "open prefix", "the default is delayer"},
	"a long prefix":         {"url: amqp://h/\nprefix: " + strings.Repeat("p", 129), "129 bytes, at most 128", "the default is delayer"},
	"a line in a prefix":    {"url: amqp://h/\nprefix: \"a\\nb\"", "contains a control character", "the default is delayer"},
	"many levels":           {"url: amqp://h/\nbackend: controller\ncontroller: {wheel: rounds, levels: 29}", "29 is not between 1 and 28", "between 1 and 28"},
	"negative levels":       {"url: amqp://h/\nbackend: controller\ncontroller: {wheel: rounds, levels: -1}", "-1 is not between 1 and 28", "between 1 and 28"},
	"a zero step":           {"url: amqp://h/\nbinaryladder: {steps: [1s, 0s]}", "binaryladder.steps", "0s is not positive"},
	"a negative step":       {"url: amqp://h/\nbinaryladder: {steps: [1s, -2s]}", "binaryladder.steps", "-2s is not positive"},
	"a step below the tick": {"url: amqp://h/\nbinaryladder: {steps: [1s, 500ms]}", "500ms is shorter than the tick, 1s", "set a shorter tick"},
	"a broken step":         {"url: amqp://h/\nbinaryladder: {steps: [1s, 1500ms]}", "binaryladder.steps", "1500ms is no multiple of the tick, 1s"},
	"a step twice":          {"url: amqp://h/\nbinaryladder: {steps: [1s, 2s, 2000ms]}", "2000ms is listed twice", "each queue once"},
	"a step too long":       {"url: amqp://h/\nbinaryladder: {steps: [1s, 87601h]}", "87601h is longer than ten years", "x-message-ttl"},
	"a thousand steps":      {"url: amqp://h/\nbinaryladder: {steps: [" + strings.Repeat("1s, ", 999) + "1s]}", "1000 steps are more than 128", "a delay may take several"},
	"a gap between steps":   {"url: amqp://h/\nbinaryladder: {steps: [1s, 2s, 5s]}", "4s is no sum of steps", "add a step of 4s"},
	"a number as a step":    {"url: amqp://h/\nbinaryladder: {steps: [60]}", `"60" is no duration`, "such as 1s"},
	"steps by a word":       {"url: amqp://h/\nbinaryladder: {steps: weekly}", `"weekly" is no duration`, "calendar and binary"},
	"some steps added":      {"url: amqp://h/\nbinaryladder: {steps: [1s, +45m]}", `"45m"`, "either all steps have a plus, or none"},
	"steps with topics":     {"url: amqp://h/\nbinaryladder: {steps: [1s, 2s, 3s], routing: topic}", "binaryladder.steps", "needs routing: source"},
	"a long tick":           {"url: amqp://h/\nbinaryladder: {tick: 87601h}", "87601h0m0s is not", "to ten years"},
	"half a millisecond":    {"url: amqp://h/\nbinaryladder: {tick: 500us}", "500µs is not a whole number of milliseconds", "from 1ms"},
	"an unknown routing":    {"url: amqp://h/\nbinaryladder: {routing: direct}", `"direct" is neither source nor topic`, "source"},
	"a tier twice":          {"url: amqp://h/\nbackend: fixedtiers\nfixedtiers: {tiers: [1m, 60s]}", "1m is listed twice", "fixedtiers.tiers"},
	"a negative tier":       {"url: amqp://h/\nbackend: fixedtiers\nfixedtiers: {tiers: [-1m]}", "-1m0s is not a whole number", "from 1ms to ten years"},
	"a tier too long":       {"url: amqp://h/\nbackend: fixedtiers\nfixedtiers: {tiers: [90000h]}", "90000h0m0s is not", "from 1ms to ten years"},
	"rounding down":         {"url: amqp://h/\nbackend: fixedtiers\nfixedtiers: {rounding: down}", `"down" is neither up nor exact`, "up nor exact"},
	"a negative length":     {"url: amqp://h/\nbackend: fixedtiers\nfixedtiers: {max_length: -5}", "-5 is not a number of messages", "at least 1"},
	"a long controller":     {"url: amqp://h/\nbackend: controller\ncontroller: {wheel: rounds, levels: 28, tick: 1m}", "28 levels and a tick of 1m0s", "use at most 23 levels"},
	"too little memory":     {"url: amqp://h/\nbackend: controller\ncontroller: {memory: 1048575}", "controller.memory", "1048575 bytes are less than 1048576"},
	"a slow controller":     {"url: amqp://h/\nbackend: controller\ncontroller: {wheel: rounds, tick: 2m}", "2m0s is more than 1m0s", "controller.tick"},
}

// TestLoad_BadFiles: what is wrong with a file is told before a broker is looked for.
func TestLoad_BadFiles(t *testing.T) {
	require.GreaterOrEqual(t, len(badFiles), 50)
	for name, c := range badFiles {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "delayer.yaml")
			require.NoError(t, os.WriteFile(path, []byte(c.text), 0o600))
			cfg, err := backend.Load(path)
			if err == nil {
				_, err = backend.Open(within(t), cfg)
			}
			checkBad(t, err, delayer.ErrConfig, c.names, c.out)
		})
	}
}

var badVariables = map[string]badText{
	"unknown":                 {"DELAYER_URI=amqp://u:hunter2@h/", "open DELAYER_URI", "known, each with DELAYER_ before it: URL, "},
	"another's":               {"DELAYER_FIXEDTIERS_LEVELS=3", "open DELAYER_FIXEDTIERS_LEVELS", "FIXEDTIERS_TIERS, "},
	"a part":                  {"DELAYER_CONTROLLER=x", "open DELAYER_CONTROLLER", "CONTROLLER_WHEEL, "},
	"small letters":           {"DELAYER_url=x", "open DELAYER_url", "URL, "},
	"nothing":                 {"DELAYER_=x", "open DELAYER_:", "URL, "},
	"a word for a number":     {"DELAYER_CONNECTIONS=two", `DELAYER_CONNECTIONS: invalid configuration: "two" is not a whole number`, "a whole number"},
	"a float for a number":    {"DELAYER_CONNECTIONS=1.5", `"1.5" is not`, "a whole number"},
	"a space":                 {"DELAYER_CONNECTIONS= 1", `" 1" is not`, "a whole number"},
	"an overflow":             {"DELAYER_CONTROLLER_LEVELS=9223372036854775808", "is not a whole number", "a whole number"},
	"a zero":                  {"DELAYER_CONTROLLER_LEVELS=0", `"0" is not a value`, "leave it unset"},
	"memory with a unit":      {"DELAYER_CONTROLLER_MEMORY=64MiB", `"64MiB" is not`, "a whole number"},
	"a zero of milliseconds":  {"DELAYER_CONTROLLER_TICK=0ms", `"0ms" is not a value`, "leave it unset"},
	"no unit":                 {"DELAYER_CONTROLLER_TICK=60", `"60" is not a duration`, "such as 1s"},
	"an unknown unit":         {"DELAYER_CONTROLLER_TICK=1d", `"1d" is not a duration`, "such as 1s"},
	"an unknown separator":    {"DELAYER_FIXEDTIERS_TIERS=1m;5m", `"1m;5m" is not a list`, "such as 1m,5m,15m"},
	"an empty item":           {"DELAYER_FIXEDTIERS_TIERS=1m,,5m", `"1m,,5m" is not a list`, "such as 1m,5m,15m"},
	"brackets":                {"DELAYER_FIXEDTIERS_TIERS=[1m]", `"[1m]" is not a list`, "such as 1m,5m,15m"},
	"neither":                 {"DELAYER_CONTROLLER_RUN=perhaps", `"perhaps" is neither true nor false`, "true"},
	"an unknown backend":      {"DELAYER_BACKEND=ladders", `unknown backend "ladders"`, "known: "},
	"a control character":     {"DELAYER_BACKEND=\x1b[31m", `unknown backend "\x1b[31m"`, "known: "},
	"a gap between steps":     {"DELAYER_BINARYLADDER_STEPS=1s,3s", "2s is no sum of steps", "add a step of 2s"},
	"a URL without a scheme":  {"DELAYER_URL=u:hunter2@h", "open url", "want amqp://"},
	"a URL of another scheme": {"DELAYER_URL=ftp://u:hunter2@h/", `scheme "ftp"`, "want amqp://"},
}

func TestFromEnv_BadVariables(t *testing.T) {
	require.GreaterOrEqual(t, len(badVariables), 20)
	for name, c := range badVariables {
		t.Run(name, func(t *testing.T) {
			cfg, err := backend.FromEnv(backend.Config{Options: delayer.Options{URL: "amqp://127.0.0.1:1/"}}, []string{c.text})
			if err == nil {
				_, err = backend.Open(within(t), cfg)
			}
			checkBad(t, err, delayer.ErrConfig, c.names, c.out)
		})
	}
}
