-- The function of 0011 as that file has it now: its first version had a setting that only a superuser may give to a
-- function, so a backup of it could not be restored by any other role.

-- Deletes up to p_limit released claims that were swept p_retention ago, with all that is kept of them. Runs with the
-- rights of the tables' owner, so that the gateway's role needs no DELETE on them.
create or replace function prune_released(p_retention interval, p_limit integer) returns bigint
language plpgsql security definer set search_path from current
set enable_seqscan to off as $$
declare
  due bigint[];
begin
  select array_agg(seq) into due from (
    select seq from payments
    where state = 'released' and swept and not kept and updated_at <= clock_timestamp() - p_retention
    order by updated_at limit p_limit for update skip locked
  ) as old;
  if due is null then
    return 0;
  end if;
  -- Not a SET clause of the function: only a superuser may give a function a setting that no module declares.
  perform set_config('turnpike.pruning', 'on', true);
  delete from former_ids where payment = any (due);
  delete from events where payment = any (due);
  delete from payments where seq = any (due);
  perform set_config('turnpike.pruning', 'off', true);
  return cardinality(due);
end
$$;
