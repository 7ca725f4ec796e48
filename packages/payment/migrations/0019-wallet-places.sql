-- A place is taken before a payment is served and held to the end of its settlement. The payer's code can change in between, so
-- admit_wallet runs again before the settlement: with the same subjects the place is kept, with others the payment is judged
-- as a new one, without its own place in the counts, and a loss is counted under the code that ran.
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
  if coalesce(own.credit, 0) = 0 then
    if total.blocked_until > clock_timestamp() then
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
    if (select count(*) from wallet_runs
        where network = p_network and outcome = 'open' and is_new and payment <> p_payment) >= places then
      return 'wait';
    end if;
  end if;
  insert into wallet_runs (payment, network, payer, subjects, is_new, outcome)
    values (p_payment, p_network, p_payer, p_subjects, coalesce(own.credit, 0) = 0, 'open')
    on conflict (payment) do update
      set subjects = excluded.subjects, is_new = excluded.is_new, outcome = 'open', at = clock_timestamp();
  return 'admitted';
end
$$;
