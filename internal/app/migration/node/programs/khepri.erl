% Writes to Khepri in one transaction: all of it, or nothing, on each node of the cluster; and nothing
% if an exchange or its bindings are not as they were read. Khepri takes a function that is made of
% nothing but calls.
fun(Put, Delete, Path, X, Pattern, Bindings, First, Gone, Second, Third) ->
    case Bindings =:= any orelse khepri_tx:get(Path) =:= {ok, X} andalso khepri_tx:get_many(Pattern) =:= {ok, Bindings} of
        true ->
            ok = maps:foreach(Put, First),
            ok = lists:foreach(Delete, Gone),
            ok = maps:foreach(Put, Second),
            ok = maps:foreach(Put, Third),
            true;
        false -> false
    end
end.
