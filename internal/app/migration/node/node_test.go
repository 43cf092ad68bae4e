package node

import (
	"context"
	"encoding/base64"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNew_Refuses(t *testing.T) {
	for line, says := range map[string]string{
		"  \t ": "names no command", `''`: "names no command", `docker "exec`: "closing quote", `rabbitmqctl \`: "escape",
	} {
		_, err := New(line)
		require.ErrorContains(t, err, says, line)
	}
}

func script(t *testing.T, text string) *Control {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rabbitmqctl")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700))
	c, err := New(path)
	require.NoError(t, err)
	return c
}

const upLine = "echo node cmFiYml0QGE= up\n" // rabbit@a

func TestNodes_FramedOutput(t *testing.T) {
	c := script(t, "echo 'warning: some locale'; printf 'another '; echo @@delayer-begin@@\n"+upLine+
		"echo @@delayer-end@@; echo ok; echo noise >&2\n")
	nodes, err := c.Nodes(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"rabbit@a"}, nodes)
}

func TestNodes_Unreached(t *testing.T) {
	c := script(t, "echo @@delayer-begin@@\n"+upLine+"echo node cmFiYml0QGI= down; echo @@delayer-end@@\n") // rabbit@b
	nodes, err := c.Nodes(t.Context())
	require.ErrorIs(t, err, ErrUnreached)
	require.ErrorContains(t, err, "rabbit@b")
	assert.Equal(t, []string{"rabbit@a"}, nodes, "those that answer")
}

func TestRun_Failures(t *testing.T) {
	for name, c := range map[string]struct{ script, says string }{
		"status":    {"echo it broke >&2; exit 69", "exit status 69: it broke"},
		"down":      {"echo 'Error: unable to perform an operation on node rabbit@x' >&2; exit 69", "on node rabbit@x (is the node started"},
		"no marker": {"echo hello", "ends without a result: hello"},
		"no end":    {"echo @@delayer-begin@@; " + upLine, "ends without a result"},
		"no base64": {"echo @@delayer-begin@@; echo node '***' up; echo @@delayer-end@@", "unexpected output"},
		"few words": {"echo @@delayer-begin@@; echo node; echo @@delayer-end@@", "unexpected output"},
		"program":   {"echo @@delayer-begin@@; echo failed Ym9vbQ==; echo @@delayer-end@@", "the program failed on the node: boom"},
		"khepri":    {"echo @@delayer-begin@@; echo failed e2JhZHJwYyx7J0VYSVQnLHtraGVwcmksIjMuMTMuNyJ9fX0=; echo @@delayer-end@@", "a Khepri that is not known here"},
		"bindings":  {"echo @@delayer-begin@@; echo failed e2JhZHJwYyx7J0VYSVQnLGJpbmRpbmdzX2NoYW5nZX19; echo @@delayer-end@@", "its bindings change all the time"},
		"on stdout": {"echo 'Error: this node is not running'; exit 64", "this node is not running (is the node started"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := script(t, c.script+"\n").Nodes(t.Context())
			require.ErrorContains(t, err, c.says)
		})
	}
}

func TestRun_NoCommand(t *testing.T) {
	c, err := New("/nowhere/rabbitmqctl")
	require.NoError(t, err)
	_, err = c.Nodes(t.Context())
	require.ErrorContains(t, err, "/nowhere/rabbitmqctl")
	require.ErrorContains(t, err, "docker exec rabbit rabbitmqctl")
}

// TestRun_Hangs: a command that does not answer is ended with its children.
func TestRun_Hangs(t *testing.T) {
	c := script(t, "sleep 600 & wait\n")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := c.Nodes(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// literal is all that a name can become in a program.
var literal = regexp.MustCompile(`^[A-Za-z0-9+/=,]*$`)

// FuzzExpression: no name leaves the one literal of the program.
func FuzzExpression(f *testing.F) {
	f.Add("orders", "rabbit@a", "/")
	f.Add(`">>). init:stop(). %`, "rabbit@a b", "',\n\x00")
	f.Fuzz(func(t *testing.T, exchange, node, vhost string) {
		text := expression(node, "ok.", time.Second, [][]byte{[]byte(vhost), []byte(exchange)})
		before, after, _ := strings.Cut(launcher, "%s")
		require.True(t, strings.HasPrefix(text, before) && strings.HasSuffix(text, after))
		inside := text[len(before) : len(text)-len(after)]
		require.Regexp(t, literal, inside)
		words := strings.Split(inside, ",")
		got, err := base64.StdEncoding.DecodeString(words[len(words)-1])
		require.NoError(t, err)
		require.Equal(t, exchange, string(got))
		require.NotContains(t, text, "'", "some wrappers put it between single quotes")
	})
}

func entry(value ...byte) []byte { return append([]byte{1, 'h'}, value...) }

func headers(table []byte) []byte {
	return append([]byte{0x20, 0, 0, 0, 0, byte(len(table))}, table...)
}

func TestDecodeProperties_Types(t *testing.T) {
	for name, c := range map[string]struct {
		encoded []byte
		want    any
	}{
		"bool":      {[]byte{'t', 1}, true},
		"int8":      {[]byte{'b', 0xFF}, int8(-1)},
		"uint8":     {[]byte{'B', 0xFF}, uint8(255)},
		"int16":     {[]byte{'s', 0xFF, 0xFE}, int16(-2)},
		"uint16":    {[]byte{'u', 0xFF, 0xFE}, uint16(65534)},
		"int32":     {[]byte{'I', 0xFF, 0xFF, 0xFF, 0xFD}, int32(-3)},
		"uint32":    {[]byte{'i', 0xFF, 0xFF, 0xFF, 0xFD}, uint32(4294967293)},
		"int64":     {[]byte{'l', 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFC}, int64(-4)},
		"float":     {[]byte{'f', 0x3F, 0xC0, 0, 0}, float32(1.5)},
		"double":    {[]byte{'d', 0x7F, 0xF0, 0, 0, 0, 0, 0, 0}, math.Inf(1)},
		"decimal":   {[]byte{'D', 2, 0, 0, 0, 5}, amqp091.Decimal{Scale: 2, Value: 5}},
		"string":    {[]byte{'S', 0, 0, 0, 2, 'h', 'i'}, "hi"},
		"bytes":     {[]byte{'x', 0, 0, 0, 2, 0, 1}, []byte{0, 1}},
		"no bytes":  {[]byte{'x', 0, 0, 0, 0}, []byte{}},
		"void":      {[]byte{'V'}, nil},
		"timestamp": {[]byte{'T', 0, 0, 0, 0, 0, 0, 0, 9}, time.Unix(9, 0)},
		"array":     {[]byte{'A', 0, 0, 0, 3, 't', 0, 'V'}, []any{false, nil}},
		"table":     {[]byte{'F', 0, 0, 0, 3, 1, 'k', 'V'}, amqp091.Table{"k": nil}},
	} {
		msg, err := DecodeProperties(headers(entry(c.encoded...)))
		require.NoError(t, err, name)
		assert.Equal(t, amqp091.Table{"h": c.want}, msg.Headers, name)
	}
}

func TestDecodeProperties_All(t *testing.T) {
	encoded := []byte{0xFF, 0xFC, 1, 'a', 1, 'b', 0, 0, 0, 0, 2, 7, 1, 'c', 1, 'd', 1, 'e', 1, 'f', 0, 0, 0, 0, 0, 0, 0, 1, 1, 'g', 1, 'h', 1, 'i', 1, 'j'}
	msg, err := DecodeProperties(encoded)
	require.NoError(t, err)
	assert.Equal(t, amqp091.Publishing{
		ContentType: "a", ContentEncoding: "b", Headers: amqp091.Table{}, DeliveryMode: 2, Priority: 7, CorrelationId: "c",
		ReplyTo: "d", Expiration: "e", MessageId: "f", Timestamp: time.Unix(1, 0), Type: "g", UserId: "h", AppId: "i",
	}, msg)
}

// FuzzDecodeProperties: nothing makes it panic, and what was read is what amqp091-go can write.
func FuzzDecodeProperties(f *testing.F) {
	for _, bad := range [][]byte{
		{}, {0x80, 0, 5, 'a'}, {0, 0, 1}, {0, 1}, headers(entry('?')), headers(entry('l', 1)), {0x20, 0, 0xFF, 0xFF, 0xFF, 0xFF},
	} {
		f.Add(bad)
		_, err := DecodeProperties(bad)
		require.ErrorContains(f, err, "its properties cannot be read", bad)
	}
	f.Add(headers(entry('F', 0, 0, 0, 3, 1, 'k', 'V')))
	f.Fuzz(func(t *testing.T, encoded []byte) {
		if msg, err := DecodeProperties(encoded); err == nil {
			require.NoError(t, msg.Headers.Validate())
		}
	})
}
