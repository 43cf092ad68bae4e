os:unsetenv("ERL_AFLAGS"),
Add = fun Add(App, Apps) when is_map_key(App, Apps) -> Apps;
          Add(App, Apps) ->
              case file:consult(code:where_is_file(atom_to_list(App) ++ ".app")) of
                  {ok, [{application, _, About}]} ->
                      lists:foldl(Add, Apps#{App => proplists:get_value(modules, About, [])},
                                  proplists:get_value(applications, About, []));
                  _ -> Apps#{App => []}
              end
      end,
code:ensure_modules_loaded(lists:append(maps:values(lists:foldl(Add, #{}, [%s])))).
