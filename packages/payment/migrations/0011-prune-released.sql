-- Released claims that the sweep found unused are deleted after a retention: nothing was charged by them, their window is
-- closed for good, and more of them can be made without paying. Nothing else is ever deleted.

-- Kept although it was swept: its authorization is used, and no node shows by what.
alter table payments add column kept boolean not null default false;
create index payments_prunable on payments (updated_at) where state = 'released' and swept and not kept;
create index former_ids_payment on former_ids (payment);

-- A deletion is refused as before, unless prune_released makes it.
create or replace function refuse_change() returns trigger language plpgsql set search_path from current as $$
begin
  if tg_op = 'DELETE' and tg_table_name <> 'transactions' and current_setting('turnpike.pruning', true) = 'on' then
    return null;
  end if;
  raise exception '% is refused on %: the ledger only grows', tg_op, tg_table_name using errcode = 'TP002';
end
$$;

-- Even then, what is left of a payment may go only when the payment itself may: released, and found unused after its window had closed.
create function refuse_loss() returns trigger language plpgsql set search_path from current as $$
declare
  is_prunable boolean;
begin
  if tg_table_name = 'payments' then
    is_prunable := old.state = 'released' and old.swept and not old.kept;
  else
    select state = 'released' and swept and not kept into is_prunable from payments where seq = old.payment;
  end if;
  if is_prunable is not true then
    raise exception '% is refused on %: the ledger keeps what money depends on', tg_op, tg_table_name
      using errcode = 'TP002';
  end if;
  return old;
end
$$;
create trigger payments_loss before delete on payments for each row execute function refuse_loss();
create trigger events_loss before delete on events for each row execute function refuse_loss();
create trigger former_ids_loss before delete on former_ids for each row execute function refuse_loss();

-- Deletes up to p_limit released claims that were swept p_retention ago, with all that is kept of them. Runs with the
-- rights of the tables' owner, so that the gateway's role needs no DELETE on them.
create function prune_released(p_retention interval, p_limit integer) returns bigint
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
