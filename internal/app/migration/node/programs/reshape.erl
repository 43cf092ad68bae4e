% Changes the type of an exchange in one transaction: it keeps its name and its bindings, and no
% publisher sees it missing. For delayer serve its bindings change too. What routes from now on is always
% added before what routed is removed: a message may be routed twice then, but never lost.
[Vhost, Name, Lock, Token, BehindName, HoldName, QueueName, Routes, TypeName, Alternate, AutoDelete, IsInternal, To, InKhepri] = In,
Exchange = rabbit_misc:r(Vhost, exchange, Name),
Behind = rabbit_misc:r(Vhost, exchange, BehindName),
Hold = rabbit_misc:r(Vhost, exchange, HoldName),
Queue = rabbit_misc:r(Vhost, queue, QueueName),
User = <<"rmq-cli">>,
% The lock of the tool proves that this is its broker, and that no other tool works on the exchange.
Locked = fun() ->
    case rabbit_amqqueue:lookup(rabbit_misc:r(Vhost, queue, Lock)) of
        {ok, Q} -> lists:member({<<"x-delayer-holder">>, longstr, Token}, amqqueue:get_arguments(Q));
        _ -> false
    end
end,
Khepri = try rabbit_khepri:is_enabled() catch error:undef -> false end,
% Of the series that run the plugin, these have the paths and the tables that the transaction needs.
Khepri andalso (lists:member(lists:sublist(rabbit_misc:version(), 4), ["4.0.", "4.1.", "4.2."]) orelse exit({khepri, rabbit_misc:version()})),
Type = rabbit_exchange:check_type(TypeName),
[Deletes, Internal] = [Word =:= <<"true">> || Word <- [AutoDelete, IsInternal]],
Own = [<<"x-delayed-type">>, <<"alternate-exchange">>],
Mark = [{Argument, longstr, Value} || {Argument, Value, true} <- [
    {<<"x-delayed-type">>, Routes, To =:= <<"delayed">>}, {<<"alternate-exchange">>, Alternate, Alternate =/= <<>>}]],
% #binding{source, key, destination, args}
Bindings = fun rabbit_binding:list_for_source/1,
Leads = fun(B) -> element(4, B) end,
Former = fun(Stay) -> [B || B <- Bindings(Exchange), not lists:member(Leads(B), Stay)] end,
Keys = fun(All) ->
    case Routes of
        <<"topic">> -> [<<"#">>];
        <<"direct">> -> lists:usort([element(3, B) || B <- All]);
        _ -> [<<>>] % no arguments match all headers
    end
end,
Add = fun(B) -> rabbit_binding:add(B, User) end,
Remove = fun(B) -> ok = rabbit_binding:remove(B, User) end,
% A process that routes reads a table row by row. What was there for this long is seen by all. Where
% messages are routed twice meanwhile, it is short.
[Settle, SettleTwice] = [fun() -> timer:sleep(Ms) end || Ms <- [1000, 100]],
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
Indexed = not Khepri andalso lists:member(Index, mnesia:system_info(tables)),
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
RouteType = rabbit_exchange:check_type(Routes),
Types = ['x-delayed-message', Type, fanout, RouteType],
Known = fun(X) -> lists:member(element(3, X), Types) orelse mnesia:abort(other_type) end,
Set = fun(X, Flag) ->
    Known(X),
    Fill(),
    Arguments = [A || A <- element(7, X), not lists:member(element(1, A), Own)] ++ Mark,
    X1 = setelement(7, setelement(6, setelement(5, setelement(3, X, Type), Flag), Internal), Arguments),
    element(4, X1) andalso mnesia:write(rabbit_durable_exchange, setelement(11, X1, undefined), write),
    mnesia:write(rabbit_exchange, rabbit_exchange_decorator:set(X1), write)
end,
InMnesia = fun(check, _, _) -> Transaction(Known);
    (flag, Flag, _) -> Transaction(fun(X) -> Set(X, Flag) end);
    (change, Flag, Stay) ->
        Transaction(fun(_) -> Fill() end),
        case Transaction(fun(X) -> (Stay =:= any orelse Former(Stay) =:= []) andalso Set(X, Flag) end) of
            false -> false;
            ok -> Transaction(fun(_) -> Clear() end), true
        end
end,
% RabbitMQ routes by tables that follow Khepri, write by write and in their order. Which of them has a
% binding depends on the type that the exchange has when the binding is written. So all are written
% anew for another type, and leave the tables of the former. Another exchange, Hold, has them meanwhile,
% and whatever they would route goes there too. After a failure the exchange routes as it should, and
% the tool removes Hold when it is run again.
At = fun(X) -> rabbit_db_exchange:khepri_exchange_path(X) end,
Tree = fun() -> rabbit_khepri:get_store_id() end,
Routed = fun(Source) ->
    Any = {if_name_matches, any, undefined},
    rabbit_db_binding:khepri_route_path(Vhost, element(4, Source), Any, Any, {if_has_data, true})
end,
Sets = fun(Bs) ->
    maps:map(fun(_, Group) -> sets:from_list(Group, [{version, 2}]) end, maps:groups_from_list(fun rabbit_db_binding:khepri_route_path/1, Bs))
end,
Write = fun(X, Read, First, Gone, Second, Third) ->
    {ok, Tokens, _} = erl_scan:string(binary_to_list(InKhepri)),
    {ok, Expressions} = erl_parse:parse_exprs(Tokens),
    {value, Fun, _} = erl_eval:exprs(Expressions, []), % the only kind that Khepri takes from here
    case khepri:transaction(Tree(), Fun, [fun khepri_tx:put/2, fun khepri_tx:delete/1, At(Exchange), X, Routed(Exchange), Read, First, Gone, Second, Third], rw, #{reply_from => local}) of
        {ok, Done} -> Done;
        {error, Why} -> exit(Why)
    end
end,
InTree = fun InTree(_, _, _, _, 0) -> exit(bindings_change);
    InTree(Do, Flag, Stay, Settled, Times) ->
        X = case khepri:get(Tree(), At(Exchange)) of
            {ok, Found} when tuple_size(Found) =:= 12 -> Found;
            _ -> exit(no_exchange)
        end,
        lists:member(element(3, X), Types) orelse exit(other_type),
        {ok, Read} = khepri:get_many(Tree(), Routed(Exchange)),
        Own1 = maps:filter(fun(_, Set) -> Leads(hd(sets:to_list(Set))) =/= Hold end, Read),
        All = lists:append([sets:to_list(Set) || Set <- maps:values(Own1)]),
        Plain = setelement(7, X, [A || A <- element(7, X), not lists:member(element(1, A), Own)]),
        New = #{At(Exchange) => setelement(7, setelement(6, setelement(5, setelement(3, Plain, Type), Flag), Internal), element(7, Plain) ++ Mark)},
        Ready = Stay =:= any orelse lists:all(fun(B) -> lists:member(Leads(B), Stay) end, All),
        Again = fun(Now) -> InTree(Do, Flag, Stay, Now, Times - 1) end,
        if
            Do =:= check -> Write(X, Read, #{}, [], #{}, #{}) orelse Again(Settled);
            not Ready -> false;
            All =:= []; element(3, X) =:= Type -> Write(X, Read, #{}, [], New, #{}) orelse Again(Settled);
            true ->
                Copies = Sets([setelement(2, B, Hold) || B <- All]),
                Links = Sets([{binding, Exchange, Key, Hold, []} || Key <- Keys(All)]),
                {ok, Former1} = khepri:get_many(Tree(), Routed(Hold)),
                Stands = setelement(3, setelement(2, Plain, Hold), RouteType),
                case Write(X, Read, #{At(Hold) => Stands}, maps:keys(maps:without(maps:keys(Copies), Former1)), Copies, Links) of
                    false -> Again(Settled);
                    true ->
                        Settled orelse Settle(),
                        Write(X, maps:merge(Read, Links), #{}, maps:keys(Own1), New, Own1) andalso Settle() =:= ok orelse Again(true)
                end
        end
end,
Store = case Khepri of
    true -> fun(Do, Flag, Stay) ->
        Done = InTree(Do, Flag, Stay, false, 100),
        Do =:= change andalso rabbit_exchange:delete(Hold, false, User),
        Done
    end;
    false -> InMnesia
end,
Change = fun(Stay) -> Store(change, Deletes, Stay) end,
Stays = [Queue, Exchange, Hold],
Front = fun Front(0) -> exit(bindings_change);
    Front(Times) ->
        All = Former(Stays),
        [Add(setelement(2, B, Behind)) || B <- All, Leads(B) =/= Behind],
        [ok = Add({binding, Exchange, Key, Queue, []}) || Key <- Keys(All)],
        All =:= [] orelse SettleTwice(),
        [Remove(B) || B <- All],
        Change(Stays) orelse Front(Times - 1)
end,
% A direct front leads to the queue by its alternate exchange, which it is about to lose.
Hand = fun() ->
    To =:= <<"delayed">> andalso [Add({binding, Exchange, Key, Queue, []}) || Had <- [Bindings(Behind)], Had =/= [], Key <- Keys(Had)]
end,
% An exchange that deletes itself with its last binding must not do so here. One binding to Behind stands
% for all of them, until they are here again.
Those = fun(End) -> [B || B <- Bindings(Exchange), Leads(B) =:= End] end,
Leave = fun([]) -> ok;
    (_) ->
        Store(flag, false, any),
        Had = Bindings(Behind),
        [ok = Add({binding, Exchange, Key, Behind, []}) || Had =/= [], Key <- Keys(Had)],
        SettleTwice(),
        [Remove(B) || B <- Those(Queue)],
        [Add(setelement(2, B, Exchange)) || B <- Had, Leads(B) =/= Exchange],
        Settle(),
        [Remove(B) || B <- Those(Behind)],
        Store(flag, Deletes, any)
end,
Work = fun() ->
    Locked() orelse exit(not_locked),
    case To of
        <<>> -> Store(check, Deletes, any);
        <<"front">> -> Front(100);
        _ -> Hand(), Change(any), Leave(Those(Queue) ++ Those(Behind))
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
