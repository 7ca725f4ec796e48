-- How far each node was scanned for payments to these receivers that are not in this ledger: no process scans a block twice.
create table foreign_scans (
  network text not null,
  node text not null,
  -- A digest of the receivers: what was scanned for one of them was not scanned for another.
  receivers text not null,
  -- The cursor; null before the first answer that the second one confirms.
  scanned_to bigint,
  -- The newest final block by the node's last answer.
  final_block bigint,
  due_at timestamptz not null,
  primary key (network, node, receivers)
);

-- Begins a scan, for one process at a time: the next is due p_pause later, whatever comes of this one. The cursor is
-- returned also when it is not due. Runs with the rights of the tables' owner: the gateway's role needs none on the table.
create function begin_scan(
  p_network text, p_node text, p_receivers text, p_pause interval,
  out is_due boolean, out scanned_to bigint, out final_block bigint
) returns setof record
language sql security definer set search_path from current as $$
  with begun as (
    insert into foreign_scans as f (network, node, receivers, due_at)
      values (p_network, p_node, p_receivers, clock_timestamp() + p_pause)
      on conflict (network, node, receivers) do update set due_at = excluded.due_at where f.due_at <= clock_timestamp()
      returning f.scanned_to, f.final_block
  )
  select true, b.scanned_to, b.final_block from begun b
  union all
  select false, f.scanned_to, f.final_block from foreign_scans f
    where f.network = p_network and f.node = p_node and f.receivers = p_receivers and not exists (select from begun)
$$;

-- Moves a cursor from where it was found. False when another process has moved it since.
create function move_cursor(
  p_network text, p_node text, p_receivers text, p_was bigint, p_scanned_to bigint, p_final_block bigint
) returns boolean
language sql security definer set search_path from current as $$
  with moved as (
    update foreign_scans f set scanned_to = p_scanned_to, final_block = p_final_block
      where f.network = p_network and f.node = p_node and f.receivers = p_receivers
        and f.scanned_to is not distinct from p_was
      returning 1
  )
  select exists (select from moved)
$$;
