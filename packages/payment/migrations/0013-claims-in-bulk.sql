-- Events and claims of many payments, written by one statement each. A gateway of the version before goes on beside one of
-- this: the functions that it calls are as they were, and a payment has the same row and the same events whoever wrote it.

-- In the order in which payments are settled, so that gateways that still run wait instead of standing in its way.
lock table relayers, holders, payments, batches, transactions in access exclusive mode;

drop trigger payments_first_event on payments;
drop trigger payments_event on payments;
drop function record_event();

-- One event for each payment that a statement inserts.
create function record_first_events() returns trigger language plpgsql set search_path from current as $$
begin
  insert into events (payment, network, asset, to_state, value, detail)
  select seq, network, asset, state, value, jsonb_strip_nulls(jsonb_build_object(
    'id', id,
    'reason', reason,
    'holder', holder,
    'request', encode(request_hash, 'hex')
  ))
  from added;
  return null;
end
$$;
create trigger payments_first_event after insert on payments referencing new table as added
  for each statement execute function record_first_events();

-- One event for each payment whose state, or evidence, a statement changes. Rows are joined by hash: a nested loop would
-- compare each with each.
create function record_events() returns trigger language plpgsql set search_path from current
set enable_nestloop to off as $$
begin
  insert into events (payment, network, asset, from_state, from_value, to_state, value, detail)
  select became.seq, became.network, became.asset, was.state, was.value, became.state, became.value,
    jsonb_strip_nulls(jsonb_build_object(
      'id', became.id,
      'reason', became.reason,
      'holder', coalesce(became.holder, was.holder),
      'request', case when became.state = 'claimed' then encode(became.request_hash, 'hex') end,
      'batch', became.batch,
      'transaction', became.transaction_hash,
      'block', became.block_number,
      'block_hash', became.block_hash,
      'log_index', became.log_index
    ))
  from former as was join latter as became on became.seq = was.seq
  where was.state <> became.state
    or (was.state in ('settled', 'owed')
      and (was.transaction_hash, was.block_hash, was.log_index)
        is distinct from (became.transaction_hash, became.block_hash, became.log_index));
  return null;
end
$$;
create trigger payments_event after update on payments referencing old table as former new table as latter
  for each statement execute function record_events();

-- Those of these payers that are blocked. Runs with the rights of the tables' owner, as payer_blocked does.
create function payers_blocked(p_networks text[], p_payers text[]) returns setof text
language sql stable security definer set search_path from current as $$
  select network || ' ' || payer from unnest(p_networks, p_payers) as asked (network, payer)
    where exists (
      select 1 from blocked_payers
        where blocked_payers.network = asked.network and blocked_payers.payer = asked.payer
          and (until is null or until > clock_timestamp())
    )
$$;

-- Many claims in one transaction, each with the outcome that claim_unless_blocked would give it if they came one after
-- another in their order. p_sells are the receivers that a holder's row must name: one that does not is refused like a dead
-- one, since another ledger could not see that it sells.
-- A payer's claims are written by one statement with those of others when nothing stands in the way of any of them: the
-- holder lives, the payer is not blocked, each nonce is new, there are no payment identifiers, and the smallest of the
-- balances pays for all. Any other payer's go through claim_unless_blocked, which says what does.
create function claim_all(p_wanted json, p_sells text[])
returns table (place bigint, outcome text, standing payments)
language plpgsql set search_path from current
set enable_seqscan to off as $$
#variable_conflict use_column
declare
  wanted record;
  made record;
  blocked text[];
  claimed text[];
begin
  -- The locks of claim, in the order of the claims. What follows sees what was committed by those that held them.
  perform pg_advisory_xact_lock(hashtextextended('turnpike payer ' || payer, 0)) from (
    select w.network || ' ' || w.payer as payer from rows from (
      json_to_recordset(p_wanted) as (network text, payer text)
    ) with ordinality w (network, payer, place)
    group by 1 order by min(w.place)
  ) as payers;

  select array_agg(payers_blocked) into blocked from payers_blocked(
    array(select value ->> 'network' from json_array_elements(p_wanted)),
    array(select value ->> 'payer' from json_array_elements(p_wanted))
  );

  with wanted as materialized (
    select * from json_to_recordset(p_wanted) as (
      holder text, id text, network text, asset text, payer text, nonce bytea, pay_to text, value numeric,
      valid_after numeric, valid_before numeric, signature bytea, kind text, service_id text,
      payload_digest bytea, request_hash bytea, identifier text, balance numeric, balance_block bigint
    )
  ), accounts as materialized (
    select network, asset, payer, network || ' ' || asset || ' ' || payer as account,
      sum(value) as value, min(balance) as balance, min(balance_block) as balance_block,
      count(distinct nonce) = count(*) and bool_and(
        identifier is null
        and (select seq from payments
          where payments.network = wanted.network and payments.asset = wanted.asset and payments.payer = wanted.payer
            and payments.nonce = wanted.nonce limit 1) is null
        and (select id from holders
          where holders.id = wanted.holder and expires_at > clock_timestamp() and sells @> p_sells limit 1) is not null
      ) as is_new
    from wanted group by network, asset, payer
  ), payers as materialized (
    select network, payer, bool_and(
      is_new
      and value + coalesce((
          select sum(payments.value) from payments
          where network || ' ' || asset || ' ' || payer = accounts.account
            and state in ('claimed', 'signed', 'submitted')
        ), 0) + coalesce((
          select sum(payments.value) from payments
          where network || ' ' || asset || ' ' || payer = accounts.account and state in ('settled', 'owed')
            and block_number > accounts.balance_block
        ), 0) <= balance
    ) as is_plain
    from accounts
    group by network, payer
  ), added as (
    insert into payments (
      id, network, asset, payer, nonce, pay_to, value, valid_after, valid_before, signature, kind, service_id,
      payload_digest, request_hash, state, holder
    )
    select id, network, asset, payer, nonce, pay_to, value, valid_after, valid_before, signature, kind, service_id,
      payload_digest, request_hash, 'claimed', holder
    from wanted join payers using (network, payer)
    where is_plain and (blocked is null or network || ' ' || payer <> all (blocked))
    returning id
  )
  select array_agg(id) into claimed from added;

  for wanted in
    select * from rows from (json_to_recordset(p_wanted) as (
      holder text, id text, network text, asset text, payer text, nonce bytea, pay_to text, value numeric,
      valid_after numeric, valid_before numeric, signature bytea, kind text, service_id text,
      payload_digest bytea, request_hash bytea, identifier text, balance numeric, balance_block bigint
    )) with ordinality as w (
      holder, id, network, asset, payer, nonce, pay_to, value, valid_after, valid_before, signature, kind, service_id,
      payload_digest, request_hash, identifier, balance, balance_block, place
    )
    where claimed is null or w.id <> all (claimed)
    order by w.place
  loop
    select * into made from claim_unless_blocked(
      (select holders.id from holders where holders.id = wanted.holder and sells @> p_sells),
      wanted.id, wanted.network, wanted.asset, wanted.payer, wanted.nonce, wanted.pay_to, wanted.value,
      wanted.valid_after, wanted.valid_before, wanted.signature, wanted.kind, wanted.service_id, wanted.payload_digest,
      wanted.request_hash, wanted.identifier, wanted.balance, wanted.balance_block);
    place := wanted.place;
    outcome := made.outcome;
    standing := made.standing;
    return next;
  end loop;
  return query
    select w.place, 'claimed', null::payments
    from rows from (json_to_recordset(p_wanted) as (id text)) with ordinality as w (id, place)
    where w.id = any (claimed);
end
$$;
