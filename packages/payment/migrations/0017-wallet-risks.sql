-- Gas that settlements which ran their payers' code used up, settled and lost, by subject: the payer, its code's hash, the
-- contract it delegated its code to (EIP-7702) or the factory that deploys it, and all together. Shared by all processes.
create table wallet_risks (
  network text not null,
  subject text not null,
  settled_gas bigint not null default 0,
  lost_gas bigint not null default 0,
  -- Settlements since the last loss: so many may be in flight at once.
  credit integer not null default 0,
  failures integer not null default 0,
  blocked_until timestamptz not null default '-infinity',
  at timestamptz not null default clock_timestamp(),
  primary key (network, subject)
);
create index wallet_risks_at on wallet_risks (at);

-- Settlements that ran, or are going to run, their payer's code. is_new: the payer had not settled anything before, so that
-- its code's subjects vouched for it. ended: the payment left the chain's way without a transaction of its own being seen.
create table wallet_runs (
  payment text primary key,
  network text not null,
  payer text not null,
  subjects text[] not null,
  is_new boolean not null,
  outcome text not null check (outcome in ('open', 'ended', 'settled', 'lost')),
  at timestamptz not null default clock_timestamp()
);
create index wallet_runs_open on wallet_runs (network) where outcome = 'open';
create index wallet_runs_at on wallet_runs (at);

-- Whether a payment whose payer's code runs may be settled now: admitted, wait (too many of its kind are in flight), blocked
-- (its kind has lost too much gas) or lost (its own transaction was mined and did not settle it). Runs with the rights of the
-- tables' owner, so that the gateway's role needs none on them but to read.
create function admit_wallet(p_payment text, p_network text, p_payer text, p_subjects text[], p_retention interval)
returns text language plpgsql security definer set search_path from current as $$
declare
  max_open constant integer := 8;
  max_open_new constant integer := 64;
  min_open_new constant integer := 4;
  free_loss constant bigint := 1000000;
  known text;
  own wallet_risks;
  total wallet_risks;
  risk wallet_risks;
  places integer;
begin
  select outcome into known from wallet_runs where payment = p_payment;
  if known = 'lost' then
    return 'lost';
  end if;
  -- A settled one is sent again after a re-organisation: its answer is out, and what it came to is counted.
  if known in ('open', 'settled') or cardinality(p_subjects) = 0 then
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
  if (select count(*) from wallet_runs where network = p_network and outcome = 'open' and payer = p_payer)
    >= greatest(1, least(max_open, own.credit)) then
    return 'wait';
  end if;
  if coalesce(own.credit, 0) = 0 then
    if total.blocked_until > clock_timestamp() then
      return 'wait';
    end if;
    for risk in select * from wallet_risks where network = p_network and subject = any (p_subjects) loop
      if risk.blocked_until > clock_timestamp() then
        return 'blocked';
      end if;
      if (select count(*) from wallet_runs
          where network = p_network and outcome = 'open' and is_new and risk.subject = any (subjects))
        >= greatest(1, least(max_open, risk.credit)) then
        return 'wait';
      end if;
    end loop;
    places := greatest(min_open_new, least(max_open_new, total.credit));
    -- Both halve each day: losses of long ago bound no sale for ever.
    if (total.lost_gas - total.settled_gas) * 0.5 ^ (extract(epoch from clock_timestamp() - total.at) / 86400) > free_loss then
      places := 1;
    end if;
    if (select count(*) from wallet_runs where network = p_network and outcome = 'open' and is_new) >= places then
      return 'wait';
    end if;
  end if;
  insert into wallet_runs (payment, network, payer, subjects, is_new, outcome)
    values (p_payment, p_network, p_payer, p_subjects, coalesce(own.credit, 0) = 0, 'open')
    on conflict (payment) do update set outcome = 'open', at = clock_timestamp();
  return 'admitted';
end
$$;

-- Counts what a settlement that ran its payer's code came to, once for each payment. One that was not admitted is counted
-- only when it lost gas: its payer had no code when it was signed.
create function end_wallet(p_payment text, p_network text, p_payer text, p_subjects text[], p_lost boolean, p_gas bigint)
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
    run := row(p_payment, p_network, p_payer, p_subjects, true, 'open', clock_timestamp());
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
  -- so that no one can block a wallet that many use by failing with it. Each payer and code can be new: when all together
  -- have lost more than they settled and a bit, a new one is tried once a minute.
  update wallet_risks set lost_gas = lost_gas + p_gas, failures = failures + 1, at = clock_timestamp(),
      credit = case when subject = run.payer then 0 else greatest(0, credit - lost_credit) end,
      blocked_until = case
        when subject = run.payer then clock_timestamp() + first_pause * (2 ^ least(failures, 10))
        when subject = 'all' and lost_gas + p_gas > settled_gas + free_loss then clock_timestamp() + first_pause
        when subject <> 'all' and lost_gas + p_gas > settled_gas
        then clock_timestamp() + first_pause * (2 ^ least(failures, 3)) else blocked_until end
    where network = run.network and (subject = any (run.subjects) or subject in (run.payer, 'all'));
end
$$;
