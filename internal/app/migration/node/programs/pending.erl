% Counts the rows of each exchange, in chunks, without copying the messages.
Table = list_to_atom("rabbit_delayed_message" ++ atom_to_list(node())),
lists:member(Table, mnesia:system_info(tables)) orelse exit(no_plugin),
Count = fun({Exchange, Due}, Seen) ->
    case Seen of
        #{Exchange := {N, Latest}} -> Seen#{Exchange := {N + 1, max(Latest, Due)}};
        _ -> Seen#{Exchange => {1, Due}}
    end
end,
Scan = fun Scan('$end_of_table', Seen) -> Seen;
    Scan({Chunk, More}, Seen) -> Scan(ets:select(More), lists:foldl(Count, Seen, Chunk))
end,
Match = [{{delay_entry, {delay_key, '$1', '$2'}, '_', '_'}, [], [{{{element, 2, '$2'}, '$1'}}]}],
true = ets:safe_fixtable(Table, true),
All = try Scan(ets:select(Table, Match, 10000), #{}) after ets:safe_fixtable(Table, false) end,
maps:fold(fun({resource, Vhost, exchange, Name}, {N, Latest}, _) ->
    io:put_chars(["exchange ", base64:encode(Vhost), " ", base64:encode(Name), " ", integer_to_list(N), " ",
        integer_to_list(Latest), "\n"])
end, ok, All),
ok.
