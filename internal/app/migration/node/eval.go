package node

import (
	"context"
	"embed"
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

//go:embed programs/*.erl
var programs embed.FS

// launcher is what rabbitmqctl evaluates. It runs a program on a node of the cluster and prints
// what that prints between two markers, which no warning looks like. It has no single quote,
// because some wrappers around rabbitmqctl put its arguments between such. %s is base64 words and
// commas.
//
// A program is compiled on the node, as RabbitMQ compiles its feature flags: interpreted, the loops
// over rows took most of the broker's processor time. Its module stays, some kilobytes until the
// node's next start.
//
// What a program prints on another node goes through a process of the node that rabbitmqctl asks:
// between the nodes and rabbitmqctl, only that connection is certain to be possible.
const launcher = `[Node, Time, Program | In] = [base64:decode(Word) || Word <- binary:split(<<"%s">>, <<",">>, [global])], ` +
	`{ok, Tokens, _} = erl_scan:string(binary_to_list(Program)), {ok, Expressions} = erl_parse:parse_exprs(Tokens), ` +
	`io:put_chars("` + begins + `\n"), ` +
	`[Self, Out] = [self(), group_leader()], ` +
	`group_leader(spawn(fun() -> [monitor(process, P) || P <- [Self, Out]], (fun Pass() -> receive ` +
	`{io_request, From, As, What} -> Out ! {io_request, self(), As, What}, ` +
	`receive {io_reply, As, Reply} -> From ! {io_reply, As, Reply}, Pass(); {_, _, process, _, _} -> gone end; ` +
	`{_, _, process, _, _} -> gone end end)() end), Self), ` +
	`case [N || N <- [node() | nodes()], Node =:= <<>> orelse atom_to_binary(N, utf8) =:= Node] of ` +
	`[] -> io:put_chars("failed bm90IGNvbm5lY3RlZA==\n"); ` +
	`[To | _] -> Call = fun(M, F, A) -> rpc:call(To, M, F, A, binary_to_integer(Time)) end, ` +
	`<<Hash:64, _/binary>> = erlang:md5(Program), Module = list_to_atom("delayer_migrate_" ++ integer_to_list(Hash)), ` +
	`Call(erlang, module_loaded, [Module]) =:= true orelse begin ` +
	`{ok, Module, Code} = Call(compile, forms, [[{attribute, 1, module, Module}, {attribute, 1, export, [{run, 1}]}, ` +
	`{function, 1, run, 1, [{clause, 1, [{var, 1, list_to_atom("In")}], [], Expressions}]}], []]), ` +
	`Call(code, load_binary, [Module, "delayer", Code]) end, ` +
	`case Call(Module, run, [In]) of ok -> ok; ` +
	`Failed -> io:put_chars(["failed ", base64:encode(unicode:characters_to_binary(io_lib:format("~0p", [Failed]))), "\n"]) end end, ` +
	`io:put_chars("` + ends + `\n").`

// The markers of a program's output.
const (
	begins = "@@delayer-begin@@"
	ends   = "@@delayer-end@@"
)

// expression is the argument of rabbitmqctl eval that runs a program on a node, "" for the node
// that rabbitmqctl asks.
func expression(node, program string, timeout time.Duration, in [][]byte) string {
	words := []string{word([]byte(node)), word(fmt.Append(nil, timeout.Milliseconds())), word([]byte(program))}
	for _, data := range in {
		words = append(words, word(data))
	}
	return fmt.Sprintf(launcher, strings.Join(words, ","))
}

func word(data []byte) string { return base64.StdEncoding.EncodeToString(data) }

// eval runs a program with its input on a node, and calls line with each line that it prints. All
// programs begin by printing the node's time, in a line of its own.
func (c *Control) eval(ctx context.Context, timeout time.Duration, node, name string, in [][]byte, line func(fields)) error {
	program, err := programs.ReadFile("programs/" + name)
	if err != nil {
		return err
	}
	text := expression(node, string(program), timeout, in)
	if filepath.Base(c.command[0]) == "ssh" {
		text = "'" + text + "'" // for the shell at the other end
	}
	err = c.run(ctx, timeout+graceFor, []string{"-q", "eval", text}, line)
	if err != nil && node != "" {
		return fmt.Errorf("node %s: %w", node, err)
	}
	return err
}
