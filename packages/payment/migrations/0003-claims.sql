-- Holders, claims and their release.
-- Functions on the way of a payment plan without sequential scans: a plan that is made while the tables are empty stays
-- in use while they grow. They find rows by unique keys and look at the state after, since a partial index on the state
-- would hold for every payment that is under way.

create function holder_lives(p_holder text) returns boolean language plpgsql set search_path from current as $$
begin
  return exists (select 1 from holders where id = p_holder and expires_at > clock_timestamp());
end
$$;

-- outcome: claimed | exists | identifier | insufficient | unsettled | fenced. `unsettled`: the balance is too small only if
-- settlements that are under way have not left it yet. standing is the payment that is in the way.
-- One payer's claims run one after another; everybody else's run beside them.
create function claim(
  p_holder text, p_id text, p_network text, p_asset text, p_payer text, p_nonce bytea, p_pay_to text,
  p_value numeric, p_valid_after numeric, p_valid_before numeric, p_signature bytea, p_kind text, p_service_id text,
  p_payload_digest bytea, p_request_hash bytea, p_identifier text, p_balance numeric, p_balance_block bigint,
  out outcome text, out standing payments
) language plpgsql set search_path from current
set enable_seqscan to off as $$
declare
  earlier payments;
  other payments;
  account text := p_network || ' ' || p_asset || ' ' || p_payer;
  in_flight numeric;
  unsettled numeric;
begin
  select * into earlier from payments
    where network = p_network and asset = p_asset and payer = p_payer and nonce = p_nonce;
  if earlier.seq is not null and earlier.state <> 'released' then
    outcome := 'exists';
    standing := earlier;
    return;
  end if;

  perform pg_advisory_xact_lock(hashtextextended('turnpike payer ' || p_network || ' ' || p_payer, 0));

  select * into earlier from payments
    where network = p_network and asset = p_asset and payer = p_payer and nonce = p_nonce;
  if earlier.seq is not null and earlier.state <> 'released' then
    outcome := 'exists';
    standing := earlier;
    return;
  end if;

  if p_identifier is not null then
    select * into other from payments
      where network = p_network and payer = p_payer and identifier = p_identifier and state <> 'released'
      order by (state = 'owed'), seq desc limit 1;
    if other.seq is not null then
      outcome := 'identifier';
      standing := other;
      return;
    end if;
  end if;

  if not holder_lives(p_holder) then
    outcome := 'fenced';
    return;
  end if;

  select coalesce(sum(value), 0), coalesce(sum(value) filter (where state <> 'claimed'), 0) into in_flight, unsettled
    from payments
    where network || ' ' || asset || ' ' || payer = account and state in ('claimed', 'signed', 'submitted');
  in_flight := in_flight + coalesce((
      select sum(value) from payments
      where network || ' ' || asset || ' ' || payer = account and state in ('settled', 'owed')
        and block_number > p_balance_block
    ), 0);
  if in_flight + p_value > p_balance then
    outcome := case when in_flight - unsettled + p_value > p_balance then 'insufficient' else 'unsettled' end;
    return;
  end if;

  outcome := 'claimed';
  if earlier.seq is null then
    insert into payments (
      id, network, asset, payer, nonce, pay_to, value, valid_after, valid_before, signature, kind, service_id,
      payload_digest, request_hash, identifier, state, holder
    ) values (
      p_id, p_network, p_asset, p_payer, p_nonce, p_pay_to, p_value, p_valid_after, p_valid_before, p_signature,
      p_kind, p_service_id, p_payload_digest, p_request_hash, p_identifier, 'claimed', p_holder
    );
    return;
  end if;

  update payments set
    id = p_id, pay_to = p_pay_to, value = p_value, valid_after = p_valid_after, valid_before = p_valid_before,
    signature = p_signature, kind = p_kind, service_id = p_service_id, payload_digest = p_payload_digest,
    request_hash = p_request_hash, identifier = p_identifier, state = 'claimed', holder = p_holder, reason = null,
    transaction_hash = null, swept = false
  where seq = earlier.seq and state = 'released';
  if not found then
    -- Seen on the chain meanwhile: it is owed.
    outcome := 'exists';
    select * into standing from payments where seq = earlier.seq;
    return;
  end if;
  insert into former_ids (id, payment) values (earlier.id, earlier.seq);
end
$$;

-- Gives claims of p_holder up. Returns the ids that were still its own.
create function release(p_holder text, p_ids text[], p_reasons text[]) returns setof text
language plpgsql set search_path from current
set enable_seqscan to off as $$
declare
  was payments;
begin
  for was in select * from payments where id = any (p_ids) order by seq for update loop
    if was.state = 'claimed' and was.holder = p_holder then
      update payments set state = 'released', reason = p_reasons[array_position(p_ids, was.id)], holder = null
        where seq = was.seq;
      return next was.id;
    end if;
  end loop;
end
$$;

-- Releases up to p_limit claims whose holder is dead. A holder is dead once its row is deleted, and it never comes back;
-- so a claim that a new holder takes meanwhile is never mistaken for the dead one's.
create function release_orphans(p_reason text, p_limit integer) returns bigint
language plpgsql set search_path from current
set enable_seqscan to off as $$
declare
  gone text[];
  released bigint;
begin
  delete from holders where expires_at <= clock_timestamp();
  select array_agg(distinct holder) into gone from payments
    where state = 'claimed' and not exists (select 1 from holders where holders.id = payments.holder);
  if gone is null then
    return 0;
  end if;
  with orphans as (
    select seq from payments where state = 'claimed' and holder = any (gone)
    order by seq limit p_limit for update skip locked
  )
  update payments set state = 'released', reason = p_reason, holder = null
  from orphans
  where payments.seq = orphans.seq and payments.state = 'claimed' and payments.holder = any (gone);
  get diagnostics released = row_count;
  return released;
end
$$;

-- Renews a holder that still lives, and lists its leases; no row when it is dead.
create function renew(p_holder text, p_ttl interval, out network text, out relayer text, out epoch bigint)
returns setof record language sql set search_path from current as $$
  with renewed as (
    update holders set expires_at = clock_timestamp() + p_ttl
    where id = p_holder and expires_at > clock_timestamp()
    returning id
  )
  select relayers.network, relayers.address, relayers.epoch
  from renewed left join relayers on relayers.holder = renewed.id
$$;

-- A holder that stops: its claims and leases are free at once.
create function retire(p_holder text, p_reason text) returns void language plpgsql set search_path from current as $$
begin
  update payments set state = 'released', reason = p_reason, holder = null
    where state = 'claimed' and holder = p_holder;
  update relayers set holder = null where holder = p_holder;
  delete from holders where id = p_holder;
end
$$;
