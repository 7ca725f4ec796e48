-- The books: what each asset's payments sum to, by state.

create view books as
  select network, asset, state, count(*) as payments, sum(value) as value
  from payments
  group by network, asset, state;

-- The same sums from the events alone.
create view books_by_events as
  select network, asset, state, sum(payments)::bigint as payments, sum(value) as value
  from (
    select network, asset, to_state as state, 1 as payments, value from events
    union all
    select network, asset, from_state, -1, -from_value from events where from_state is not null
  ) as moves
  group by network, asset, state
  having sum(payments) <> 0 or sum(value) <> 0;

-- Rows where the two disagree. It must be empty.
create view books_differences as
  select network, asset, state,
    coalesce(books.payments, 0) as payments, coalesce(books.value, 0) as value,
    coalesce(books_by_events.payments, 0) as event_payments, coalesce(books_by_events.value, 0) as event_value
  from books full join books_by_events using (network, asset, state)
  where (coalesce(books.payments, 0), coalesce(books.value, 0))
    is distinct from (coalesce(books_by_events.payments, 0), coalesce(books_by_events.value, 0));

-- Payments whose last event does not say the state they are in. It must be empty.
create view strayed_payments as
  select payments.seq, payments.id, payments.state, last.to_state as event_state
  from payments left join lateral (
    select to_state from events where events.payment = payments.seq order by seq desc limit 1
  ) as last on true
  where last.to_state is distinct from payments.state;
