-- How far each network was looked at for payments that are not in this ledger, so that no process looks at a block again.
create table looks (
  network text primary key,
  looked_to bigint,
  due_at timestamptz not null
);

-- Begins a look, for one process at a time: the next is due p_pause later, whatever comes of this one.
-- Runs with the rights of the tables' owner: the gateway's role needs none on the table.
create function begin_look(p_network text, p_pause interval, out looked_to bigint) returns setof bigint
language sql security definer set search_path from current as $$
  insert into looks as l (network, due_at) values (p_network, clock_timestamp() + p_pause)
    on conflict (network) do update set due_at = excluded.due_at where l.due_at <= clock_timestamp()
    returning l.looked_to
$$;

-- Ends a look, unless another has gone further.
create function end_look(p_network text, p_to bigint) returns void
language sql security definer set search_path from current as $$
  update looks set looked_to = p_to where network = p_network and (looked_to is null or looked_to < p_to)
$$;
