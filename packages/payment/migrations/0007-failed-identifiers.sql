-- A payment identifier is free again once its payment can no longer be settled: nothing was charged, and its payer was
-- asked to sign anew. A failed payment may be settled after all by late evidence, beside the one that was signed anew, so
-- the index no longer holds what claims hold: `claim` looks under the payer's lock, and the index keeps two apart that run.
drop index payments_identifier_bound;
create unique index payments_identifier_bound on payments (network, payer, identifier)
  where identifier is not null and state = 'claimed';

-- outcome: claimed | exists | identifier | insufficient | unsettled | fenced. `unsettled`: the balance is too small only if
-- settlements that are under way have not left it yet. standing is the payment that is in the way.
-- One payer's claims run one after another; everybody else's run beside them.
create or replace function claim(
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
      where network = p_network and payer = p_payer and identifier = p_identifier
        and state not in ('released', 'failed', 'disputed')
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
