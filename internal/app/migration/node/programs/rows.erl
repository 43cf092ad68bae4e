% Prints rows from a place of the index on, in its order, until enough are printed.
[LaterBin, After, RowsBin, BytesBin, Vhost | Names] = In,
[Later, MaxRows, MaxBytes] = [binary_to_integer(B) || B <- [LaterBin, RowsBin, BytesBin]],
Now = erlang:system_time(millisecond),
io:put_chars(["now ", integer_to_list(Now), "\n"]),
Table = list_to_atom("rabbit_delayed_message" ++ atom_to_list(node())),
Index = list_to_atom(atom_to_list(Table) ++ "_index"),
lists:member(Table, mnesia:system_info(tables)) orelse exit(no_plugin),
Name = fun({delay_key, _, Exchange}) -> element(2, Exchange) end,
Wanted = fun({delay_key, _, Exchange}) when is_tuple(Exchange) ->
        {resource, V, exchange, N} = element(2, Exchange),
        V =:= Vhost andalso (Names =:= [] orelse lists:member(N, Names));
    (_) -> false
end,
Id = fun({delay_entry, Key, _, Ref}) ->
    binary:part(crypto:hash(sha256, term_to_binary({element(2, Key), Name(Key), Ref})), 0, 16)
end,
% The message of RabbitMQ up to 3.12 is a record in a delivery. Its content is as the publisher sent
% it, without BCC. Later ones are message containers.
Read = fun(Delivery) ->
    Message = case element(1, Delivery) of delivery -> element(5, Delivery); _ -> Delivery end,
    {Keys, Content} = case element(1, Message) of
        basic_message -> {element(3, Message), element(4, Message)};
        _ -> {mc:routing_keys(Message), mc:protocol_state(mc:convert(mc_amqpl, Message))}
    end,
    Encoded = rabbit_binary_generator:ensure_content_encoded(Content, rabbit_framing_amqp_0_9_1),
    {Keys, element(4, Encoded), iolist_to_binary(lists:reverse(element(6, Encoded)))}
end,
Line = fun(Row = {delay_entry, Key = {delay_key, Due, _}, Delivery, _}) ->
    {resource, _, exchange, Exchange} = Name(Key),
    Place = [base64:encode(Id(Row)), " ", integer_to_list(Due), " ", base64:encode(Exchange), " "],
    try Read(Delivery) of
        {Keys, Properties, Body} ->
            {byte_size(Properties) + byte_size(Body), ["row ", Place, base64:encode(Properties), " ", base64:encode(Body), " ",
                lists:join(",", [base64:encode(K) || K <- Keys]), "\n"]}
    catch Class:Reason ->
        Why = unicode:characters_to_binary(io_lib:format("~0P", [{Class, Reason}, 20])),
        {0, ["bad ", Place, base64:encode(Why), "\n"]}
    end
end,
% Lines are printed in parts: each call goes to rabbitmqctl and back.
Flush = fun({Lines, _}) -> io:put_chars(lists:reverse(Lines)), {[], 0} end,
Add = fun(Text, Size, {Lines, Held}) when Held + Size > 262144 -> Flush({[Text | Lines], 0});
    (Text, Size, {Lines, Held}) -> {[Text | Lines], Held + Size + 100}
end,
Stop = fun(Key, Ref, Out) -> Flush(Out), io:put_chars(["next ", base64:encode(term_to_binary({Key, Ref})), "\n"]), ok end,
Print = fun Print([], Key, N, Bytes, Out) -> {more, Key, N, Bytes, Out};
    Print([Row | Rest], Key, N, Bytes, Out) ->
        {Size, Text} = Line(Row),
        Out1 = Add(Text, Size, Out),
        case N + 1 >= MaxRows orelse Bytes + Size >= MaxBytes of
            true -> {stop, element(4, Row), Out1};
            false -> Print(Rest, Key, N + 1, Bytes + Size, Out1)
        end
end,
Past = <<>>, % greater than any reference
MaxKeys = 200000,
Walk = fun Walk('$end_of_table', _, _, _, _, Out) -> Flush(Out), io:put_chars("done\n"), ok;
    Walk(Key, _, _, _, Seen, Out) when Seen >= MaxKeys -> Stop(Key, 0, Out);
    Walk(Key, Ref, N, Bytes, Seen, Out) ->
        Rows = case Wanted(Key) of
            true -> [R || R <- lists:keysort(4, mnesia:dirty_read(Table, Key)), element(4, R) > Ref];
            false -> []
        end,
        case Print(Rows, Key, N, Bytes, Out) of
            {stop, Last, Out1} -> Stop(Key, Last, Out1);
            {more, _, N1, Bytes1, Out1} -> Walk(mnesia:dirty_next(Index, Key), 0, N1, Bytes1, Seen + 1, Out1)
        end
end,
case After of
    <<>> -> Walk({delay_key, Now + Later, 0}, Past, 0, 0, 0, {[], 0});
    _ -> {Key0, Ref0} = binary_to_term(After), Walk(Key0, Ref0, 0, 0, 0, {[], 0})
end.
