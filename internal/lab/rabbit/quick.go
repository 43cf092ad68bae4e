package rabbit

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// quickTimeout bounds an erl_call: rabbitmqctl is there for a node that does not answer.
const quickTimeout = 20 * time.Second

// quickly does what rabbitmqctl would do, within milliseconds, by the functions that rabbitmqctl
// calls. rabbitmqctl starts a virtual machine each time, which takes a second of processor time.
// It returns false if the command is none of the common ones, or failed: rabbitmqctl then knows
// what to say. call is `erl_call -e`, which is in most packages of Erlang, with its input.
func quickly(ctx context.Context, args []string, call func(ctx context.Context, input string) (string, error)) (out string, ok bool) {
	expression := quick(args)
	if expression == "" {
		return "", false
	}
	ctx, cancel := context.WithTimeout(ctx, quickTimeout)
	defer cancel()
	answer, err := call(ctx, "base64:encode_to_string(iolist_to_binary("+expression+")).\n")
	if err != nil {
		return "", false
	}
	return answered(answer)
}

// answered reads what erl_call prints of a string, in base64 so that it prints it as one.
func answered(answer string) (text string, ok bool) {
	answer = strings.TrimSpace(answer)
	if answer == "{ok, []}" { // the empty string
		return "", true
	}
	encoded, ok := strings.CutPrefix(answer, `{ok, "`)
	decoded, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(encoded, `"}`))
	return string(decoded), ok && err == nil
}

// quick is the Erlang expression for what a rabbitmqctl command prints, or "" if there is none.
func quick(args []string) string {
	words, vhost := plain(args)
	if len(words) == 0 {
		return ""
	}
	command, words := words[0], words[1:]
	if listing, ok := listings[strings.Join(append([]string{command}, words...), " ")]; ok {
		return strings.ReplaceAll(listing, "VHOST", vhost)
	}
	if form, ok := actions[command]; ok && strings.Count(form, "%s") == len(words) {
		return "begin ok = " + strings.ReplaceAll(fmt.Sprintf(form, binaries(words)...), "VHOST", vhost) + `, "" end`
	}
	switch {
	case len(words) != 1:
	case command == "eval":
		return `io_lib:format("~p~n", [begin ` + strings.TrimSuffix(strings.TrimSpace(words[0]), ".") + " end])"
	case command == "await_online_nodes":
		if size, err := strconv.Atoi(words[0]); err == nil {
			return fmt.Sprintf(`begin ok = rabbit_nodes:await_running_count(%d, %d), "" end`, size, (quickTimeout / 2).Milliseconds())
		}
	case command == "set_vm_memory_high_watermark":
		if fraction, err := strconv.ParseFloat(words[0], 64); err == nil {
			return fmt.Sprintf(`begin ok = vm_memory_monitor:set_vm_memory_high_watermark(%.6f), "" end`, fraction)
		}
	}
	return ""
}

// listings are the commands that list something, with the columns that they list.
var listings = map[string]string{
	"list_queues name":                   `[[Name, "\n"] || {resource, _, _, Name} <- rabbit_amqqueue:list_names(VHOST)]`,
	"list_exchanges name":                `[[Name, "\n"] || {resource, V, _, Name} <- rabbit_exchange:list_names(), V =:= VHOST]`,
	"list_connections client_properties": `[[io_lib:format("~0p", [Said]), "\n"] || [{client_properties, Said}] <- rabbit_networking:connection_info_all([client_properties])]`,
	"list_channels pid confirm":          `[[rabbit_misc:pid_to_string(P), "\t", atom_to_list(C), "\n"] || [{pid, P}, {confirm, C}] <- rabbit_channel:info_all([pid, confirm])]`,
}

// actions are the commands that change something and return ok.
var actions = map[string]string{
	"add_user":              `rabbit_auth_backend_internal:add_user(%s, %s, <<"test">>)`,
	"add_vhost":             `rabbit_vhost:add(%s, <<"test">>)`,
	"delete_user":           `rabbit_auth_backend_internal:delete_user(%s, <<"test">>)`,
	"set_permissions":       `rabbit_auth_backend_internal:set_permissions(%s, VHOST, %s, %s, %s, <<"test">>)`,
	"set_policy":            `rabbit_policy:parse_set(VHOST, %s, %s, %s, 0, <<"all">>, <<"test">>)`,
	"clear_policy":          `rabbit_policy:delete(VHOST, %s, <<"test">>)`,
	"import_definitions":    `rabbit_definitions:import_raw(element(2, {ok, _} = file:read_file(%s)))`,
	"close_all_connections": `rabbit_networking:close_connections(rabbit_networking:connections(), %s)`,
}

// plain takes the options out of a command that change nothing here, and the vhost as a binary. Any
// other option makes the command one that is not quick.
func plain(args []string) (words []string, vhost string) {
	vhost = "/"
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case slices.Contains([]string{"-q", "--quiet", "--silent", "--no-table-headers"}, arg):
		case arg == "-p" && i+1 < len(args):
			i++
			vhost = args[i]
		case strings.HasPrefix(arg, "-"):
			return nil, ""
		default:
			words = append(words, arg)
		}
	}
	return words, binary(vhost)
}

func binaries(words []string) []any {
	all := make([]any, len(words))
	for i, word := range words {
		all[i] = binary(word)
	}
	return all
}

// binary writes bytes as an Erlang binary.
func binary(text string) string {
	bytes := make([]string, len(text))
	for i := range len(text) {
		bytes[i] = strconv.Itoa(int(text[i]))
	}
	return "<<" + strings.Join(bytes, ",") + ">>"
}
