% Prints the members of the cluster, and whether each answers.
Members = try rabbit_nodes:list_members() catch _:_ ->
    try rabbit_nodes:all() catch _:_ -> [node() | nodes()] end
end,
lists:foreach(fun(N) ->
    State = case rpc:call(N, erlang, whereis, [rabbit_sup], 5000) of
        Pid when is_pid(Pid) -> "up";
        _ -> "down"
    end,
    io:put_chars(["node ", base64:encode(atom_to_binary(N, utf8)), " ", State, "\n"])
end, Members).
