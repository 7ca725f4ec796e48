-- Results of a facilitator's settlements that the request which claimed the payment did not get, since it was answered that
-- the settlement is pending, or its connection ended: one request more may have such a result while is_open. All other results
-- are those requests' own, and have no row. Rows are deleted when no request may ask any more.
create table open_results (
  settlement text primary key,
  is_open boolean not null,
  at timestamptz not null default clock_timestamp()
);
create index open_results_at on open_results (at);

-- Leaves a result to one request more, and deletes old rows. Runs with the rights of the tables' owner, so that the
-- gateway's role needs no DELETE.
create function open_result(p_settlement text, p_retention interval) returns void
language sql security definer set search_path from current as $$
  delete from open_results where settlement in (
    select settlement from open_results where at < clock_timestamp() - p_retention
    order by at limit 100 for update skip locked
  );
  insert into open_results (settlement, is_open) values (p_settlement, true)
  on conflict (settlement) do update set is_open = true, at = clock_timestamp();
$$;
