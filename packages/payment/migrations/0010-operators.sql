-- What an operator may ask for: that a transaction is cancelled, that a payment is sent again or released, that a payer is
-- refused.

-- Accounts whose payments are not taken, until a time or until they are taken off.
create table blocked_payers (
  network text not null,
  payer text not null check (payer = lower(payer)),
  reason text not null,
  until timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  primary key (network, payer)
);

-- Runs with the rights of the tables' owner: the gateway's role needs none on the list.
create function payer_blocked(p_network text, p_payer text) returns boolean
language sql stable security definer set search_path from current as $$
  select exists (
    select 1 from blocked_payers
      where network = p_network and payer = p_payer and (until is null or until > clock_timestamp())
  )
$$;

-- A claim, unless its payer is blocked. What was paid before the block is answered all the same.
-- outcome: that of claim | blocked
create function claim_unless_blocked(
  p_holder text, p_id text, p_network text, p_asset text, p_payer text, p_nonce bytea, p_pay_to text,
  p_value numeric, p_valid_after numeric, p_valid_before numeric, p_signature bytea, p_kind text, p_service_id text,
  p_payload_digest bytea, p_request_hash bytea, p_identifier text, p_balance numeric, p_balance_block bigint,
  out outcome text, out standing payments
) language plpgsql set search_path from current
set enable_seqscan to off as $$
declare
  made record;
begin
  if payer_blocked(p_network, p_payer) and not exists (
    select 1 from payments
      where network = p_network and asset = p_asset and payer = p_payer and nonce = p_nonce and state <> 'released'
  ) then
    outcome := 'blocked';
    return;
  end if;
  select * into made from claim(p_holder, p_id, p_network, p_asset, p_payer, p_nonce, p_pay_to, p_value, p_valid_after,
    p_valid_before, p_signature, p_kind, p_service_id, p_payload_digest, p_request_hash, p_identifier, p_balance,
    p_balance_block);
  outcome := made.outcome;
  standing := made.standing;
end
$$;

-- claimed → released, whichever process holds the claim: its answer is not given then. False when it is not claimed.
create function operator_release(p_id text, p_reason text) returns boolean
language plpgsql set search_path from current
set enable_seqscan to off as $$
declare
  was payments;
begin
  select * into was from payments where id = p_id for update;
  if was.seq is null or was.state <> 'claimed' then
    return false;
  end if;
  update payments set state = 'released', holder = null, reason = p_reason where seq = was.seq;
  return true;
end
$$;
