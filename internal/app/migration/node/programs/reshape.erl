% Changes the type of an exchange in one transaction: it keeps its name and its bindings, and no
% publisher sees it missing. For a bridge its bindings change too. What routes from now on is always
% added before what routed is removed: a message may be routed twice then, but never lost.
[Vhost, Name, Lock, Token, BehindName, QueueName, Routes, TypeName, AutoDelete, To] = In,
io:put_chars(["now ", integer_to_list(erlang:system_time(millisecond)), "\n"]),
Exchange = rabbit_misc:r(Vhost, exchange, Name),
Behind = rabbit_misc:r(Vhost, exchange, BehindName),
Queue = rabbit_misc:r(Vhost, queue, QueueName),
User = <<"rmq-cli">>,
% The lock of the tool proves that this is its broker, and that no other tool works on the exchange.
Locked = fun() ->
    case rabbit_amqqueue:lookup(rabbit_misc:r(Vhost, queue, Lock)) of
        {ok, Q} -> lists:member({<<"x-delayer-holder">>, longstr, Token}, amqqueue:get_arguments(Q));
        _ -> false
    end
end,
(try rabbit_khepri:is_enabled() catch error:undef -> false end) andalso exit(khepri),
Type = rabbit_exchange:check_type(TypeName),
Own = [<<"x-delayed-type">>, <<"x-delayer-front">>],
Mark = case To of
    <<"delayed">> -> [{<<"x-delayed-type">>, longstr, Routes}];
    <<"front">> -> [{<<"x-delayer-front">>, bool, true}];
    _ -> []
end,
% #binding{source, key, destination, args}
Bindings = fun(Source) ->
    [B || {route, B, _} <- mnesia:dirty_match_object(rabbit_route, {route, {binding, Source, '_', '_', '_'}, '_'})]
end,
Leads = fun(B) -> element(4, B) end,
Former = fun() -> [B || B <- Bindings(Exchange), Leads(B) =/= Queue, Leads(B) =/= Exchange] end,
Keys = fun(All) ->
    case Routes of
        <<"topic">> -> [<<"#">>];
        <<"direct">> -> lists:usort([element(3, B) || B <- All]);
        _ -> [<<>>] % no arguments match all headers
    end
end,
Add = fun(B) -> rabbit_binding:add(B, User) end,
Remove = fun(B) -> ok = rabbit_binding:remove(B, User) end,
% A bind reads the exchange in its transaction: none is made while this one holds it.
Transaction = fun(Do) ->
    case mnesia:sync_transaction(fun() ->
        case mnesia:wread({rabbit_exchange, Exchange}) of
            [X] when tuple_size(X) =:= 12 -> Do(X);
            [] -> mnesia:abort(no_exchange)
        end
    end) of
        {atomic, Result} -> mnesia:sync_log(), Result;
        {aborted, Why} -> exit(Why)
    end
end,
% Since 3.11 a direct exchange routes by an index, which has no bindings of other types.
Index = rabbit_index_route,
Indexed = lists:member(Index, mnesia:system_info(tables)),
Fill = fun() ->
    Indexed andalso Type =:= direct andalso
        [ok = mnesia:write(Index, {index_route, {Exchange, element(3, B)}, Leads(B), element(5, B)}, write) || B <- Bindings(Exchange)]
end,
Clear = fun() ->
    Indexed andalso Type =/= direct andalso
        [ok = mnesia:delete_object(Index, R, write) || R <- mnesia:match_object(Index, {index_route, {Exchange, '_'}, '_', '_'}, write)]
end,
% #exchange{name, type, durable, auto_delete, internal, arguments, scratches, policy,
% operator_policy, decorators, options}
Known = fun(X) ->
    lists:member(element(3, X), ['x-delayed-message', Type, fanout, rabbit_exchange:check_type(Routes)]) orelse mnesia:abort(other_type)
end,
Set = fun(X, Deletes) ->
    Known(X),
    Fill(),
    Arguments = [A || A <- element(7, X), not lists:member(element(1, A), Own)] ++ Mark,
    X1 = setelement(7, setelement(5, setelement(3, X, Type), Deletes), Arguments),
    element(4, X1) andalso mnesia:write(rabbit_durable_exchange, setelement(11, X1, undefined), write),
    mnesia:write(rabbit_exchange, rabbit_exchange_decorator:set(X1), write)
end,
Deletes = AutoDelete =:= <<"true">>,
Change = fun(Ready) ->
    Transaction(fun(_) -> Fill() end),
    case Transaction(fun(X) -> Ready() andalso Set(X, Deletes) end) of
        false -> false;
        ok -> Transaction(fun(_) -> Clear() end), true
    end
end,
Front = fun Front(0) -> exit(bindings_change);
    Front(Times) ->
        All = Former(),
        [Add(setelement(2, B, Behind)) || B <- All, Leads(B) =/= Behind],
        [ok = Add({binding, Exchange, Key, Queue, []}) || Key <- Keys(All)],
        [Remove(B) || B <- All],
        Change(fun() -> Former() =:= [] end) orelse Front(Times - 1)
end,
% An exchange that deletes itself with its last binding must not do so here.
Leave = fun([]) -> ok;
    (Fed) ->
        Transaction(fun(X) -> Set(X, false) end),
        [ok = Add({binding, Exchange, Key, Behind, []}) || Had <- [Bindings(Behind)], Had =/= [], Key <- Keys(Had)],
        [Remove(B) || B <- Fed],
        Transaction(fun(X) -> Set(X, Deletes) end)
end,
Work = fun() ->
    Locked() orelse exit(not_locked),
    case To of
        <<>> -> Transaction(Known);
        <<"front">> -> Front(100);
        _ -> Change(fun() -> true end), Leave([B || B <- Bindings(Exchange), Leads(B) =:= Queue])
    end
end,
% It goes on to its end if rabbitmqctl is gone.
{Pid, Monitor} = spawn_monitor(fun() ->
    group_leader(whereis(init), self()),
    global:trans({{delayer_migrate, Exchange}, self()}, Work, [node() | nodes()]),
    exit(done)
end),
receive
    {'DOWN', Monitor, process, Pid, done} -> ok;
    {'DOWN', Monitor, process, Pid, Why} -> exit(Why)
end.
