-- Settlements of a day, by what bounds them: a seller, a receiver or a payer of a facilitator. Rows of earlier days are deleted.
create table settlement_budgets (
  name text primary key,
  day date not null,
  taken bigint not null
);
create index settlement_budgets_day on settlement_budgets (day);

-- Takes one settlement out of each budget, or out of none: then it returns the name of the first one that is used up. Runs with
-- the rights of the tables' owner, so that the facilitator's role needs no DELETE.
create function take_budgets(p_names text[], p_limits bigint[]) returns text
language plpgsql security definer set search_path from current as $$
declare
  today date := (clock_timestamp() at time zone 'UTC')::date;
  used_up text;
begin
  -- In one order, so that two requests never wait for each other.
  insert into settlement_budgets as budget (name, day, taken)
  select name, today, 0 from unnest(p_names) as wanted (name) order by name
  on conflict (name) do update set day = today, taken = case when budget.day = today then budget.taken else 0 end;
  select wanted.name into used_up
  from unnest(p_names, p_limits) with ordinality as wanted (name, most, place)
  join settlement_budgets budget on budget.name = wanted.name
  where budget.taken >= wanted.most order by wanted.place limit 1;
  if used_up is null then
    update settlement_budgets set taken = taken + 1 where name = any (p_names);
  end if;
  -- Last, and without a wait: this transaction has its locks.
  delete from settlement_budgets where name in (
    select name from settlement_budgets where day < today order by day limit 100 for update skip locked
  );
  return used_up;
end
$$;

-- Gives a settlement that was not sent back to the budgets of today.
create function return_budgets(p_names text[]) returns void
language sql security definer set search_path from current as $$
  with held as (
    select name from settlement_budgets where name = any (p_names) order by name for update
  )
  update settlement_budgets budget set taken = greatest(budget.taken - 1, 0)
  from held where budget.name = held.name and budget.day = (clock_timestamp() at time zone 'UTC')::date;
$$;
