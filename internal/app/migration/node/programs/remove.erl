% Removes rows by the beginnings of their ids, and the index entries that are left without a row. The
% plugin's process does it, a few hundred rows at a time: nothing is delivered or added meanwhile.
[FromBin, ToBin, Vhost, Ids] = In,
[From, To] = [binary_to_integer(B) || B <- [FromBin, ToBin]],
Table = list_to_atom("rabbit_delayed_message" ++ atom_to_list(node())),
Index = list_to_atom(atom_to_list(Table) ++ "_index"),
Process = whereis(rabbit_delayed_message),
is_pid(Process) andalso lists:member(Table, mnesia:system_info(tables)) orelse exit(no_plugin),
Moved = maps:from_list([{Id, true} || <<Id:8/binary>> <= Ids]),
Id = fun({delay_entry, {delay_key, Due, Exchange}, _, Ref}) ->
    binary:part(crypto:hash(sha256, term_to_binary({Due, element(2, Exchange), Ref})), 0, 8)
end,
Wanted = fun({delay_key, _, Exchange}) -> element(2, element(2, Exchange)) =:= Vhost end,
Clear = fun(Key, [], _) -> mnesia:dirty_delete(Index, Key);
    (_, _, []) -> ok;
    (Key, Rows, Rows) -> mnesia:dirty_delete(Table, Key), mnesia:dirty_delete(Index, Key);
    (_, _, Gone) -> [mnesia:dirty_delete_object(Table, R) || R <- Gone]
end,
Some = 500,
Step = fun Step('$end_of_table', N, _) -> {done, N};
    Step({delay_key, Due, _}, N, _) when Due > To -> {done, N};
    Step(Key, N, Seen) when Seen >= Some -> {next, Key, N};
    Step(Key, N, Seen) ->
        Next = mnesia:dirty_next(Index, Key),
        case Wanted(Key) of
            true ->
                Rows = mnesia:dirty_read(Table, Key),
                Gone = [R || R <- Rows, maps:is_key(Id(R), Moved)],
                Clear(Key, Rows, Gone),
                Step(Next, N + length(Gone), Seen + 1 + length(Rows));
            false -> Step(Next, N, Seen + 1)
        end
end,
Self = self(),
Walk = fun Walk(Key, N) ->
    Tag = make_ref(),
    sys:replace_state(Process, fun(State) -> Self ! {Tag, Step(Key, N, 0)}, State end, 600000),
    receive
        {Tag, {next, Next, N1}} -> Walk(Next, N1);
        {Tag, {done, N1}} -> N1
    after 0 -> exit(not_removed)
    end
end,
Removed = Walk(mnesia:dirty_next(Index, {delay_key, From, 0}), 0),
mnesia:sync_log(),
io:put_chars(["removed ", integer_to_list(Removed), "\n"]),
ok.
