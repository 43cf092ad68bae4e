% Starts the watchdog, or tells it the new time, and then suspends the plugin's process.
[For] = [binary_to_integer(B) || B <- In],
io:put_chars(["now ", integer_to_list(erlang:system_time(millisecond)), "\n"]),
is_pid(whereis(rabbit_delayed_message)) orelse exit(no_plugin),
Name = delayer_migrate_watchdog,
Self = self(),
Watch = fun Watch(Time) ->
    receive
        {From, for, Again} -> From ! {Name, ok}, Watch(Again);
        {From, stop} -> unregister(Name), From ! {Name, ok}
    after Time -> sys:resume(rabbit_delayed_message, infinity)
    end
end,
case whereis(Name) of
    undefined ->
        spawn(fun() ->
            group_leader(whereis(init), self()), % it outlives rabbitmqctl
            register(Name, self()),
            Self ! {Name, ok},
            Watch(For)
        end);
    Running -> Running ! {Self, for, For}
end,
receive {Name, ok} -> ok after 5000 -> exit(no_watchdog) end,
ok = sys:suspend(rabbit_delayed_message, 30000).
