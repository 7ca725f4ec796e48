-- Places of payments that run no code: one account can fail all of its payments that are in flight by one transfer of its funds.
-- An account that never paid has eight in flight, and one more for each that it has settled since its last failure. And what
-- bounds wallets of unknown code bounds none whose code has settled much more than it has lost. And budgets count gas.

-- In the order in which payments are settled, so that gateways that still run wait instead of standing in its way.
lock table relayers, holders, payments, batches, transactions in access exclusive mode;

-- Its settlement has one of its payer's places, until it ends.
alter table payments add column placed boolean not null default true;
-- Plain payments settled since the payer's last failure, the transaction of that failure, and the payment that alone may be in
-- a transaction after it.
alter table wallet_risks add column plain_credit integer not null default 0;
alter table wallet_risks add column failed_by text;
alter table wallet_risks add column resending text;
-- Its code's subjects had settled much more than they had lost.
alter table wallet_runs add column is_vouched boolean not null default false;

-- Places of a plain account that are free, without what this payment has. Its callers set the search path, and that plans use
-- indexes, which would take its time again for each payer of a claim.
create function plain_places(p_network text, p_asset text, p_payer text, p_payment text) returns integer
language plpgsql stable as $$
declare
  first_places constant integer := 8;
  max_places constant integer := 500;
  free_loss constant bigint := 1000000;
  risk wallet_risks;
  places integer := first_places;
begin
  select * into risk from wallet_risks where network = p_network and subject = 'payer:' || p_payer;
  if risk.blocked_until > clock_timestamp() then
    return 0;
  end if;
  -- Accounts cost nothing to make. While new ones lose much, by the hour, each begins with one payment.
  if risk.failures > 0 or coalesce(risk.plain_credit, 0) = 0 and exists (
    select from wallet_risks where network = p_network and subject = 'plain'
      and lost_gas * 0.5 ^ (extract(epoch from clock_timestamp() - at) / 3600) > free_loss
  ) then
    places := 1;
  end if;
  return least(max_places, places + coalesce(risk.plain_credit, 0)) - (
    select count(*) from payments
    where network || ' ' || asset || ' ' || payer = p_network || ' ' || p_asset || ' ' || p_payer
      and state in ('claimed', 'signed', 'submitted') and placed and kind = 'eoa' and id is distinct from p_payment
  );
end
$$;


-- Places of claims that have none yet, in their order: admitted, wait, blocked (the payer has lost gas lately) or lost (its own
-- transactions were mined and did not settle it). Of a payer that has lost gas and settled nothing since, one payment at a time
-- is in a transaction; what is signed already is sent again beside the pause of a first failure, and behind that of a second.
create function admit_plain(p_network text, p_payer text, p_ids text[]) returns table (payment text, admission text)
language plpgsql security definer set search_path from current
set enable_seqscan to off as $$
declare
  risk wallet_risks;
  claim payments;
  is_paused boolean;
begin
  -- As claims of this payer have it: what is counted below must not change meanwhile.
  perform pg_advisory_xact_lock(hashtextextended('turnpike payer ' || p_network || ' ' || p_payer, 0));
  select * into risk from wallet_risks where network = p_network and subject = 'payer:' || p_payer for update;
  is_paused := coalesce(risk.blocked_until > clock_timestamp(), false);
  for claim in
    select p.* from unnest(p_ids) with ordinality w (id, place)
      join payments p on p.id = w.id and p.network = p_network and p.payer = p_payer order by w.place
  loop
    payment := claim.id;
    if exists (select from wallet_runs r where r.payment = claim.id and r.outcome = 'lost') then
      admission := 'lost';
    elsif claim.state not in ('claimed', 'signed') then
      admission := 'admitted';
    elsif is_paused and claim.state = 'claimed' then
      admission := 'blocked';
    elsif risk.failures > 0 and risk.plain_credit = 0 then
      if is_paused and risk.failures > 1 or risk.resending <> claim.id and exists (
        select from payments p where p.id = risk.resending and p.state in ('claimed', 'signed')
          and not exists (select from wallet_runs r where r.payment = p.id and r.outcome = 'lost')
      ) then
        admission := 'wait';
      else
        admission := 'admitted';
        risk.resending := claim.id;
        update wallet_risks set resending = claim.id where network = p_network and subject = 'payer:' || p_payer;
      end if;
    elsif claim.placed or claim.state = 'signed' then
      admission := 'admitted';
    elsif plain_places(p_network, claim.asset, p_payer, claim.id) > 0 then
      admission := 'admitted';
      update payments p set placed = true where p.seq = claim.seq;
    else
      admission := 'wait';
    end if;
    return next;
  end loop;
end
$$;

-- Counts a mined transaction that payments of a plain account failed in by their payer's doing, once for each transaction. With
-- p_lost, this payment is not sent again.
create function fail_plain(p_network text, p_payer text, p_payment text, p_transaction text, p_gas bigint, p_lost boolean)
returns void language plpgsql security definer set search_path from current as $$
begin
  if p_lost then
    insert into wallet_runs (payment, network, payer, subjects, is_new, outcome)
      values (p_payment, p_network, 'payer:' || p_payer, '{}', false, 'lost')
      on conflict (payment) do update set outcome = 'lost', at = clock_timestamp();
  end if;
  insert into wallet_risks (network, subject) values (p_network, 'payer:' || p_payer), (p_network, 'plain')
    on conflict do nothing;
  update wallet_risks set lost_gas = lost_gas + p_gas, failures = failures + 1, credit = 0, plain_credit = 0,
      failed_by = p_transaction, blocked_until = clock_timestamp() + interval '1 minute' * (2 ^ least(failures, 10)),
      at = clock_timestamp()
    where network = p_network and subject = 'payer:' || p_payer and failed_by is distinct from p_transaction;
  if found then
    update wallet_risks set
        lost_gas = lost_gas * 0.5 ^ (extract(epoch from clock_timestamp() - at) / 3600) + p_gas, at = clock_timestamp()
      where network = p_network and subject = 'plain';
  end if;
end
$$;

-- Counts settled payments of plain accounts for their payers. A payer of many is written once a day.
create function credit_plain(p_seqs bigint[]) returns void
language plpgsql security definer set search_path from current
set enable_seqscan to off as $$
declare
  max_credit constant integer := 500;
  payment_gas constant integer := 40000;
begin
  insert into wallet_risks as risk (network, subject, plain_credit, settled_gas)
    select network, 'payer:' || payer, count(*), count(*) * payment_gas from payments
      where seq = any (p_seqs) and kind = 'eoa' and state = 'settled' group by 1, 2 order by 1, 2
    on conflict (network, subject) do update set
      plain_credit = least(max_credit, risk.plain_credit + excluded.plain_credit),
      settled_gas = risk.settled_gas + excluded.settled_gas,
      failures = case when risk.lost_gas <= risk.settled_gas + excluded.settled_gas then 0 else risk.failures end,
      at = clock_timestamp()
    where risk.plain_credit < max_credit or risk.failures > 0 or risk.at < clock_timestamp() - interval '1 day';
  -- Last, and without a wait: this transaction has its locks.
  delete from wallet_risks where (network, subject) in (
    select network, subject from wallet_risks where subject <> 'all' and at < clock_timestamp() - interval '7 days'
    order by at limit 100 for update skip locked);
end
$$;

-- True when each of these subjects has settled twice what it has lost, and lately: what new accounts with such code do is
-- bounded by these subjects. Also for an account without code.
create function vouched_for(p_network text, p_subjects text[]) returns boolean
language sql stable set search_path from current as $$
  select coalesce(bool_and(coalesce(risk.credit > 0 and risk.settled_gas > 2 * risk.lost_gas, false)), true)
    from unnest(p_subjects) subject left join wallet_risks risk on risk.network = p_network and risk.subject = subject.subject
$$;

-- Many claims in one transaction, each with the outcome that claim_unless_blocked would give it if they came one after
-- another in their order. p_sells are the receivers that a holder's row must name: one that does not is refused like a dead
-- one, since another ledger could not see that it sells.
-- A payer's claims are written by one statement with those of others when nothing stands in the way of any of them: the
-- holder lives, the payer is not blocked, each nonce is new, there are no payment identifiers, and the smallest of the
-- balances pays for all. Any other payer's go through claim_unless_blocked, which says what does.
-- A claim of a plain account that has no place yet has `standing.placed` false; else `standing` of a claim is null.
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
  unplaced text[];
  has_place boolean;
  waiting payments := jsonb_populate_record(null::payments, '{"placed": false}');
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
    select * from unnest(claims) with ordinality
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
  ), places as materialized (
    select network, asset, payer, plain_places(network, asset, payer, null) as free_places from accounts
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
      payload_digest, request_hash, state, holder, placed
    )
    select id, network, asset, payer, nonce, pay_to, value, valid_after, valid_before, signature, kind, service_id,
      payload_digest, request_hash, 'claimed', holder,
      kind <> 'eoa' or row_number() over (partition by network, asset, payer order by ordinality) <= free_places
    from wanted join payers using (network, payer) join places using (network, asset, payer)
    where is_plain and (blocked is null or network || ' ' || payer <> all (blocked))
    returning id, placed
  )
  select array_agg(id), array_agg(id) filter (where not placed) into claimed, unplaced from added;

  if cardinality(claimed) = cardinality(claims) and unplaced is null then
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
    if outcome = 'claimed' and wanted.kind = 'eoa' then
      has_place := plain_places(wanted.network, wanted.asset, wanted.payer, wanted.id) > 0;
      update payments set placed = has_place where payments.id = wanted.id and placed <> has_place;
      if not has_place then
        standing := waiting;
      end if;
    end if;
    return next;
  end loop;
  return query
    select w.ordinality, 'claimed', case when w.id = any (unplaced) then waiting end
    from unnest(claims) with ordinality w where w.id = any (claimed);
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
  perform credit_plain(seqs);
  for place in 1 .. cardinality(p_ids) loop
    continue when seqs[place] is not null;
    if conclude(p_ids[place], 'settled', null, p_transactions[place], p_blocks[place], p_block_hashes[place],
      p_log_indexes[place], p_retention) = 'unknown' then
      return next p_ids[place];
    end if;
  end loop;
end
$$;
-- A payer of code that vouches for it is bounded by that code's places, and not by those of all.
create or replace function admit_wallet(p_payment text, p_network text, p_payer text, p_subjects text[], p_retention interval)
returns text language plpgsql security definer set search_path from current as $$
declare
  max_open constant integer := 8;
  max_open_new constant integer := 64;
  min_open_new constant integer := 4;
  free_loss constant bigint := 1000000;
  run wallet_runs;
  own wallet_risks;
  total wallet_risks;
  risk wallet_risks;
  places integer;
  vouched boolean;
begin
  select * into run from wallet_runs where payment = p_payment;
  if run.outcome = 'lost' then
    return 'lost';
  end if;
  -- A settled one is sent again after a re-organisation: its answer is out, and its gas is counted.
  if run.outcome = 'settled' or cardinality(p_subjects) = 0 or (run.outcome = 'open' and run.subjects = p_subjects) then
    return 'admitted';
  end if;
  insert into wallet_risks (network, subject)
    select p_network, s from unnest(p_subjects || p_payer || 'all'::text) as s order by s on conflict do nothing;
  -- One at a time on each network: what is counted below must not change before the new row is there.
  select * into total from wallet_risks where network = p_network and subject = 'all' for update;
  delete from wallet_runs where payment in (
    select payment from wallet_runs where outcome <> 'open' and at < clock_timestamp() - p_retention
    order by at limit 100 for update skip locked);
  delete from wallet_risks where (network, subject) in (
    select network, subject from wallet_risks where subject <> 'all' and at < clock_timestamp() - p_retention
    order by at limit 100 for update skip locked);
  -- A released claim, one of a dead process, or one that ended by other evidence holds no place.
  update wallet_runs set outcome = 'ended' where payment in (
    select r.payment from wallet_runs r where r.network = p_network and r.outcome = 'open' and not exists (
      select from payments p where p.id = r.payment and p.state in ('claimed', 'signed'))
    for update skip locked);

  select * into own from wallet_risks where network = p_network and subject = p_payer;
  if own.blocked_until > clock_timestamp() then
    return 'blocked';
  end if;
  if (select count(*) from wallet_runs
      where network = p_network and outcome = 'open' and payer = p_payer and payment <> p_payment)
    >= greatest(1, least(max_open, own.credit)) then
    return 'wait';
  end if;
  vouched := vouched_for(p_network, p_subjects);
  if coalesce(own.credit, 0) = 0 then
    if total.blocked_until > clock_timestamp() and not vouched then
      return 'wait';
    end if;
    for risk in select * from wallet_risks where network = p_network and subject = any (p_subjects) loop
      if risk.blocked_until > clock_timestamp() then
        return 'blocked';
      end if;
      if (select count(*) from wallet_runs
          where network = p_network and outcome = 'open' and is_new and risk.subject = any (subjects)
            and payment <> p_payment)
        >= greatest(1, least(max_open, risk.credit)) then
        return 'wait';
      end if;
    end loop;
    places := greatest(min_open_new, least(max_open_new, total.credit));
    -- Both halve each day: losses of long ago bound no sale for ever.
    if (total.lost_gas - total.settled_gas) * 0.5 ^ (extract(epoch from clock_timestamp() - total.at) / 86400) > free_loss then
      places := 1;
    end if;
    if not vouched and (select count(*) from wallet_runs
        where network = p_network and outcome = 'open' and is_new and not is_vouched and payment <> p_payment) >= places then
      return 'wait';
    end if;
  end if;
  insert into wallet_runs (payment, network, payer, subjects, is_new, is_vouched, outcome)
    values (p_payment, p_network, p_payer, p_subjects, coalesce(own.credit, 0) = 0, vouched, 'open')
    on conflict (payment) do update
      set subjects = excluded.subjects, is_new = excluded.is_new, is_vouched = excluded.is_vouched, outcome = 'open',
        at = clock_timestamp();
  return 'admitted';
end
$$;

create or replace function end_wallet(p_payment text, p_network text, p_payer text, p_subjects text[], p_lost boolean, p_gas bigint)
returns void language plpgsql security definer set search_path from current as $$
declare
  first_pause constant interval := interval '1 minute';
  free_loss constant bigint := 1000000;
  lost_credit constant integer := 4;
  run wallet_runs;
begin
  select * into run from wallet_runs where payment = p_payment;
  if not found then
    if not p_lost then
      return;
    end if;
    run := row(p_payment, p_network, p_payer, p_subjects, true, 'open', clock_timestamp(), vouched_for(p_network, p_subjects));
  end if;
  -- Locked in the order of admit_wallet: risks, then runs.
  insert into wallet_risks (network, subject)
    select run.network, s from unnest(run.subjects || run.payer || 'all'::text) as s order by s on conflict do nothing;
  perform from wallet_risks where network = run.network and subject = 'all' for update;
  insert into wallet_runs as r (payment, network, payer, subjects, is_new, outcome)
    values (p_payment, run.network, run.payer, run.subjects, run.is_new, case when p_lost then 'lost' else 'settled' end)
    on conflict (payment) do update set outcome = excluded.outcome, at = clock_timestamp()
      where r.outcome in ('open', 'ended');
  if not found then
    return;
  end if;
  update wallet_risks set settled_gas = settled_gas * 0.5 ^ (extract(epoch from clock_timestamp() - at) / 86400),
      lost_gas = lost_gas * 0.5 ^ (extract(epoch from clock_timestamp() - at) / 86400)
    where network = run.network and subject = 'all';
  if not p_lost then
    update wallet_risks set settled_gas = settled_gas + p_gas, credit = least(credit + 1, 1000),
        failures = case when lost_gas <= settled_gas + p_gas then 0 else failures end, at = clock_timestamp()
      where network = run.network and (subject = any (run.subjects) or subject in (run.payer, 'all'));
    return;
  end if;
  -- A payer answers for its own loss. Its code's subjects do for some minutes when they have lost more than they have settled,
  -- so that no one can block a wallet that many use by failing with it. Each payer and code can be new: when all that no code
  -- vouches for together have lost more than all settled and a bit, a new one is tried once a minute.
  update wallet_risks set lost_gas = lost_gas + p_gas, failures = failures + 1, at = clock_timestamp(),
      credit = case when subject = run.payer then 0 else greatest(0, credit - lost_credit) end,
      blocked_until = case
        when subject = run.payer then clock_timestamp() + first_pause * (2 ^ least(failures, 10))
        when subject = 'all' and lost_gas + p_gas > settled_gas + free_loss then clock_timestamp() + first_pause
        when subject <> 'all' and lost_gas + p_gas > settled_gas
        then clock_timestamp() + first_pause * (2 ^ least(failures, 3)) else blocked_until end
    where network = run.network and (subject = any (run.subjects) or subject = run.payer
      or subject = 'all' and not run.is_vouched);
end
$$;

-- Takes so many units out of each budget, or out of none: then it returns the name of the first one that has fewer left. A unit is
-- a plain payment's settlement.
create function take_budgets(p_names text[], p_limits bigint[], p_units bigint) returns text
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
  where budget.taken + p_units > wanted.most order by wanted.place limit 1;
  if used_up is null then
    update settlement_budgets set taken = taken + p_units where name = any (p_names);
  end if;
  -- Last, and without a wait: this transaction has its locks.
  delete from settlement_budgets where name in (
    select name from settlement_budgets where day < today order by day limit 100 for update skip locked
  );
  return used_up;
end
$$;

-- Gives units back to the budgets of today.
create function return_budgets(p_names text[], p_units bigint) returns void
language sql security definer set search_path from current as $$
  with held as (
    select name from settlement_budgets where name = any (p_names) order by name for update
  )
  update settlement_budgets budget set taken = greatest(budget.taken - p_units, 0)
  from held where budget.name = held.name and budget.day = (clock_timestamp() at time zone 'UTC')::date;
$$;
