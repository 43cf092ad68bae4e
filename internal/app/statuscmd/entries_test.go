package statuscmd

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestEntries: the queues of a configuration, also of one that delayer serve refuses.
func TestEntries(t *testing.T) {
	for text, want := range map[string][]string{
		"":                      nil,
		"serve: 5":              nil,
		"backend: controller":   nil,
		"serve: {exchanges: 5}": nil,
		"serve: {prefetch: x, exchanges: [{name: a, to: b}, {name: c}]}": {"p.serve.parked.a", "p.serve.parked.c"},
		"serve: {amqp: {listen: ':5673'}, exchanges: [{name: a}]}":       {"p.serve.parked.a", "p.serve.parked.p.proxy"},
	} {
		assert.Equal(t, want, entries([]byte(text), "p"), text)
	}
}
