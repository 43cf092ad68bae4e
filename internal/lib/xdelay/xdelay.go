// Package xdelay reads the header by which publishers tell the x-delayed-message plugin how long a
// message waits. It is pure.
//
// What the plugin does is read in its source (3.10.2 and v4.0.7: rabbit_delayed_message_utils,
// get_delay; rabbit_exchange_type_delayed_message, delay_message) and held by a test beside the
// plugin itself (internal/lab/tests/migrate/wrap_test.go):
//
//	value                               plugin                                    here
//	none                                at once                                   no delay
//	nil                                 3.x: at once; 4.x: closes the connection  no delay
//	integer, 1 to 2^32-1                milliseconds                              the same
//	integer, 0 or negative              at once                                   no delay
//	integer above 2^32-1                at once, in silence                       error
//	string of an integer                as that integer                           the same
//	another string                      closes the connection (541)               error
//	float                               cuts off the fraction                     rounds up
//	NaN, infinity                       closes the connection                     error
//	bytes                               3.x: at once; 4.x: as a string            as a string
//	int8                                3.x: as an integer; 4.x: at once          as an integer
//	decimal                             closes the connection or channel          error
//	bool, time, table, array            at once, in silence                       error
//
// Where the plugin delivers at once although the publisher asked for something else, the answer is
// an error: nothing is early in silence.
package xdelay

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// Header is the name of the header, in the only spelling that the plugin reads.
const Header = "x-delay"

// Max is the longest delay of the plugin.
const Max = math.MaxUint32 * time.Millisecond

// Take returns the delay that headers ask for, and the headers without x-delay: a copy, if they
// have it. A header that is misspelt is an error, and so is a value that [Of] refuses.
func Take(headers amqp091.Table) (time.Duration, amqp091.Table, error) {
	if name := Misspelt(headers); name != "" {
		return 0, nil, fmt.Errorf("header %q: the plugin reads %q only, and delivers such a message at once (rename the header)", name, Header)
	}
	delay, err := Of(headers)
	if _, ok := headers[Header]; !ok || err != nil {
		return 0, headers, err
	}
	headers = maps.Clone(headers)
	delete(headers, Header)
	return delay, headers, nil
}

// Of returns the delay that the header asks for. It is 0 without a header, and for a value that
// is 0 or negative. The error names the value.
func Of(headers amqp091.Table) (time.Duration, error) {
	value, ok := headers[Header]
	if !ok {
		return 0, nil
	}
	switch v := value.(type) {
	case nil:
		return 0, nil
	case string:
		return ofText(v)
	case []byte:
		return ofText(string(v))
	case float32:
		return ofFloat(float64(v))
	case float64:
		return ofFloat(v)
	}
	if n, ok := Integer(value); ok {
		return ofInteger(n)
	}
	return 0, fmt.Errorf("header %s is %s: the plugin takes it for no delay (write an integer, in milliseconds)", Header, Kind(value))
}

// Kind names the AMQP type of a header's value that is no number, for those who know no Go: a
// boolean.
func Kind(value any) string {
	switch value.(type) {
	case bool:
		return "a boolean"
	case amqp091.Decimal:
		return "a decimal"
	case time.Time:
		return "a timestamp"
	case amqp091.Table:
		return "a table"
	case []any:
		return "an array"
	case []byte:
		return "bytes"
	case string:
		return "a text"
	case nil:
		return "void"
	}
	return "a number"
}

// Integer is the value of an integer of any width that amqp091-go has.
func Integer(value any) (int64, bool) {
	v := reflect.ValueOf(value)
	if value == nil || v.Type().PkgPath() != "" { // one such as time.Duration, which AMQP does not have
		return 0, false
	}
	switch v.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int(), true
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return int64(v.Uint()), true //nolint:gosec // 32 bits at most
	}
	return 0, false
}

func ofInteger(n int64) (time.Duration, error) {
	if n > math.MaxUint32 {
		return 0, tooLong(strconv.FormatInt(n, 10))
	}
	return time.Duration(max(n, 0)) * time.Millisecond, nil
}

func tooLong(value string) error {
	return fmt.Errorf("header %s is %s, above %d: the plugin delivers such a message at once (a longer delay needs another way: Delayer itself, or the header x-delayer-delay of delayer serve)",
		Header, value, math.MaxUint32)
}

// number is what Erlang's binary_to_integer reads.
var number = regexp.MustCompile(`^[+-]?[0-9]+$`)

func ofText(text string) (time.Duration, error) {
	if !number.MatchString(text) {
		return 0, fmt.Errorf("header %s is %.64q, which is no integer: the plugin fails on it (write an integer, in milliseconds)", Header, text)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil { // out of range
		if strings.HasPrefix(text, "-") {
			return 0, nil
		}
		return 0, tooLong(fmt.Sprintf("%.64q", text))
	}
	return ofInteger(n)
}

func ofFloat(f float64) (time.Duration, error) {
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return 0, fmt.Errorf("header %s is %v: the plugin fails on it (write an integer, in milliseconds)", Header, f)
	case f >= math.MaxUint32+1:
		return 0, tooLong(strconv.FormatFloat(f, 'g', -1, 64))
	}
	return ofInteger(int64(min(math.Ceil(max(f, 0)), math.MaxUint32)))
}

// Misspelt returns the name of a header that the plugin does not read although it looks like the
// one that it reads, or "".
func Misspelt(headers amqp091.Table) string {
	for name := range headers {
		if name != Header && strings.EqualFold(strings.ReplaceAll(name, "_", "-"), Header) {
			return name
		}
	}
	return ""
}
