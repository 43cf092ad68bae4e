begin
    Rest = fun Rest(_, 0) -> ok;
        Rest(Quiet, Tries) when Quiet > 0 ->
            receive after 2 -> ok end,
            case erlang:statistics(total_active_tasks_all) of
                Tasks when Tasks =< 1 -> Rest(Quiet - 1, Tries - 1);
                _ -> Rest(4, Tries - 1)
            end;
        Rest(_, _) -> ok
    end,
    Rest(4, 50),
    ok = file:rename("%s", "%s"),
    Rest(4, 50),
    os:system_time(millisecond)
end.
