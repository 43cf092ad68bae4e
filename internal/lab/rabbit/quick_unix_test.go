//go:build unix

package rabbit

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestQuick(t *testing.T) {
	for _, c := range []struct {
		want string
		args []string
	}{
		{`begin ok = rabbit_auth_backend_internal:set_permissions(<<117>>, <<47>>, <<46,42>>, <<>>, <<37,115>>, <<"test">>), "" end`,
			[]string{"set_permissions", "u", ".*", "", "%s"}},
		{`begin ok = rabbit_policy:delete(<<118>>, <<86>>, <<"test">>), "" end`, []string{"clear_policy", "-p", "v", "V"}},
		{`begin ok = vm_memory_monitor:set_vm_memory_high_watermark(0.000000), "" end`, []string{"set_vm_memory_high_watermark", "0"}},
		{`io_lib:format("~p~n", [begin 1 + 1 end])`, []string{"eval", "1 + 1."}},
		{`[[Name, "\n"] || {resource, _, _, Name} <- rabbit_amqqueue:list_names(<<47>>)]`, []string{"list_queues", "--quiet", "name"}},
		{`begin ok = rabbit_nodes:await_running_count(3, 10000), "" end`, []string{"await_online_nodes", "3"}},
		{`begin ok = rabbit_definitions:import_raw(element(2, {ok, _} = file:read_file(<<47,97>>))), "" end`, []string{"import_definitions", "/a"}},
		{"", []string{"await_online_nodes", "all"}},
		{"", []string{"list_queues", "name", "messages"}},
		{"", []string{"set_policy", "p", "^p", "{}", "--apply-to", "queues"}},
		{"", []string{"add_user", "u"}},
		{"", []string{"set_vm_memory_high_watermark", "absolute"}},
		{"", []string{"--quiet"}},
		{"", nil},
	} {
		assert.Equal(t, c.want, quick(c.args), "%q", c.args)
	}
}

func TestAnswered(t *testing.T) {
	for answer, want := range map[string]string{"{ok, []}": "", "{ok, \"aXQ=\"}\n": "it"} {
		text, ok := answered(answer)
		assert.True(t, ok, answer)
		assert.Equal(t, want, text)
	}
	for _, answer := range []string{"", "{ok, [300, 301]}", "{error, undef}", "{ok, \"it is\"}"} {
		_, ok := answered(answer)
		assert.False(t, ok, answer)
	}
}

// Quickly lets the tests of package rabbit_test see that a command needs no rabbitmqctl.
func Quickly(t testing.TB, b *Broker, args ...string) (string, bool) {
	h, ok := b.host.(interface {
		quickly(ctx context.Context, args []string) (string, bool)
	})
	if !ok {
		t.Skip("the broker at AMQP_URL has no erl_call")
	}
	return h.quickly(t.Context(), args)
}
