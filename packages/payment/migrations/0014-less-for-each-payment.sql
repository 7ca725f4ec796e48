-- Claims and settlements of many payments with less work for each. The functions have the arguments and
-- results of before, so a gateway of the version before goes on beside one of this.

-- A claim as claim_all is given it.
create type wanted_claim as (
  holder text, id text, network text, asset text, payer text, nonce bytea, pay_to text, value numeric,
  valid_after numeric, valid_before numeric, signature bytea, kind text, service_id text,
  payload_digest bytea, request_hash bytea, identifier text, balance numeric, balance_block bigint
);

-- Many claims in one transaction, each with the outcome that claim_unless_blocked would give it if they came one after
-- another in their order. p_sells are the receivers that a holder's row must name: one that does not is refused like a dead
-- one, since another ledger could not see that it sells.
-- A payer's claims are written by one statement with those of others when nothing stands in the way of any of them: the
-- holder lives, the payer is not blocked, each nonce is new, there are no payment identifiers, and the smallest of the
-- balances pays for all. Any other payer's go through claim_unless_blocked, which says what does.
create or replace function claim_all(p_wanted json, p_sells text[])
returns table (place bigint, outcome text, standing payments)
language plpgsql set search_path from current
set enable_seqscan to off as $$
#variable_conflict use_column
declare
  -- The text is read once.
  claims wanted_claim[] := array(select w from json_populate_recordset(null::wanted_claim, p_wanted) w);
  wanted record;
  made record;
  blocked text[];
  claimed text[];
begin
  -- The locks of claim, in the order of the claims. What follows sees what was committed by those that held them.
  perform pg_advisory_xact_lock(hashtextextended('turnpike payer ' || payer, 0)) from (
    select w.network || ' ' || w.payer as payer, min(w.ordinality) from unnest(claims) with ordinality w
    group by 1 order by 2
  ) as payers;

  select array_agg(payers_blocked) into blocked from payers_blocked(
    array(select network from unnest(claims)), array(select payer from unnest(claims))
  );

  with wanted as materialized (
    select * from unnest(claims)
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

  if cardinality(claimed) = cardinality(claims) then
    return query select g, 'claimed', null::payments from generate_series(1::bigint, cardinality(claims)) g;
    return;
  end if;

  for wanted in
    select w.*, w.ordinality as place from unnest(claims) with ordinality w
    where claimed is null or w.id <> all (claimed)
    order by w.ordinality
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
    select w.ordinality, 'claimed', null::payments from unnest(claims) with ordinality w where w.id = any (claimed);
end
$$;

-- Many payments to settled, all or nothing. Returns the ids that are unknown. Those under way, as nearly all are, are
-- written by one statement; `conclude` decides on the others. Evidence is joined by hash: a nested loop would compare each
-- payment with each.
create or replace function settle_all(
  p_ids text[], p_transactions text[], p_blocks bigint[], p_block_hashes text[], p_log_indexes integer[],
  p_retention interval
) returns setof text language plpgsql set search_path from current
set enable_seqscan to off as $$
declare
  expiry timestamptz := clock_timestamp() + p_retention;
  -- In the order of p_ids; null where the payment is not under way.
  seqs bigint[];
begin
  with locked as materialized (
    select id, seq, state from payments where id = any (p_ids) order by seq for update
  )
  select array_agg(locked.seq order by given.place) into seqs
    from unnest(p_ids) with ordinality as given (id, place)
    left join locked on locked.id = given.id and locked.state in ('signed', 'submitted');
  update payments set
    state = 'settled',
    reason = null,
    transaction_hash = coalesce(seen.transaction_hash, payments.transaction_hash),
    block_number = seen.block_number,
    block_hash = seen.block_hash,
    log_index = seen.log_index,
    final = false,
    -- An answer is not deleted before it expires: only of one that is over it is not known whether it is there.
    answer_expires_at = case
      when answer_expires_at > clock_timestamp()
        or exists (select 1 from answers where answers.payment = payments.seq)
      then greatest(answer_expires_at, expiry)
      else answer_expires_at
    end
  from unnest(seqs, p_transactions, p_blocks, p_block_hashes, p_log_indexes)
    as seen (seq, transaction_hash, block_number, block_hash, log_index)
  where payments.seq = any (seqs) and payments.seq = seen.seq;
  for place in 1 .. cardinality(p_ids) loop
    continue when seqs[place] is not null;
    if conclude(p_ids[place], 'settled', null, p_transactions[place], p_blocks[place], p_block_hashes[place],
      p_log_indexes[place], p_retention) = 'unknown' then
      return next p_ids[place];
    end if;
  end loop;
end
$$;
