[Node, Time, Program | In] = [base64:decode(Word) || Word <- binary:split(<<"%s">>, <<",">>, [global])],
{ok, Tokens, _} = erl_scan:string(binary_to_list(Program)),
{ok, Expressions} = erl_parse:parse_exprs(Tokens),
io:put_chars("%s\n"),
[Self, Out] = [self(), group_leader()],
group_leader(spawn(fun() ->
    [monitor(process, P) || P <- [Self, Out]],
    (fun Pass() ->
        receive
            {io_request, From, As, What} ->
                Out ! {io_request, self(), As, What},
                receive
                    {io_reply, As, Reply} -> From ! {io_reply, As, Reply}, Pass();
                    {_, _, process, _, _} -> gone
                end;
            {_, _, process, _, _} -> gone
        end
    end)()
end), Self),
case [N || N <- [node() | nodes()], Node =:= <<>> orelse atom_to_binary(N, utf8) =:= Node] of
    [] -> io:put_chars("failed bm90IGNvbm5lY3RlZA==\n");
    [To | _] ->
        Call = fun(M, F, A) -> rpc:call(To, M, F, A, binary_to_integer(Time)) end,
        <<Hash:64, _/binary>> = erlang:md5(Program),
        Module = list_to_atom("delayer_migrate_" ++ integer_to_list(Hash)),
        Call(erlang, module_loaded, [Module]) =:= true orelse begin
            {ok, Module, Code} = Call(compile, forms, [[{attribute, 1, module, Module}, {attribute, 1, export, [{run, 1}]},
                {function, 1, run, 1, [{clause, 1, [{var, 1, list_to_atom("In")}], [], Expressions}]}], []]),
            Call(code, load_binary, [Module, "delayer", Code])
        end,
        case Call(Module, run, [In]) of
            ok -> ok;
            Failed -> io:put_chars(["failed ", base64:encode(unicode:characters_to_binary(io_lib:format("~0p", [Failed]))), "\n"])
        end
end,
io:put_chars("%s\n").
