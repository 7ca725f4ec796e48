-- The process that is to answer a result's request, from the claim until the answer is written: a result whose process died
-- before that is left to one request more. Rows of answered ones are deleted.
alter table open_results add column holder text;

create or replace function open_result(p_settlement text, p_retention interval) returns void
language sql security definer set search_path from current as $$
  delete from open_results where settlement in (
    select settlement from open_results where at < clock_timestamp() - p_retention
    order by at limit 100 for update skip locked
  );
  insert into open_results (settlement, is_open) values (p_settlement, true)
  on conflict (settlement) do update set is_open = true, holder = null, at = clock_timestamp();
$$;

-- Deletes rows of results whose answers were written. Runs with the rights of the tables' owner, so that the gateway's role
-- needs no DELETE.
create function close_results(p_settlements text[], p_holders text[]) returns void
language sql security definer set search_path from current as $$
  delete from open_results r using unnest(p_settlements, p_holders) as w (settlement, holder)
  where r.settlement = w.settlement and r.holder = w.holder and not r.is_open;
$$;
