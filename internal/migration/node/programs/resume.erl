% Resumes the plugin's process, and then ends the watchdog.
io:put_chars(["now ", integer_to_list(erlang:system_time(millisecond)), "\n"]),
is_pid(whereis(rabbit_delayed_message)) orelse exit(no_plugin),
ok = sys:resume(rabbit_delayed_message, 30000),
Name = delayer_migrate_watchdog,
case whereis(Name) of
    undefined -> ok;
    Running -> Running ! {self(), stop}, receive {Name, ok} -> ok after 5000 -> exit(no_watchdog) end
end.
