-- Rules that hold whoever writes: legal changes of state, one event for each, nothing deleted.
-- Error classes: TP001 a change that is not allowed, TP002 a table that only grows.

create function guard_payment() returns trigger language plpgsql set search_path from current as $$
begin
  if tg_op = 'INSERT' then
    if new.state <> 'claimed' then
      raise exception 'a payment begins as claimed, not as %', new.state using errcode = 'TP001';
    end if;
    return new;
  end if;
  if (new.seq, new.network, new.asset, new.payer, new.nonce, new.created_at)
    is distinct from (old.seq, old.network, old.asset, old.payer, old.nonce, old.created_at) then
    raise exception 'what names payment % cannot change', old.seq using errcode = 'TP001';
  end if;
  if new.state <> old.state and not (case old.state
    when 'claimed' then new.state in ('released', 'signed', 'submitted')
    when 'released' then new.state in ('claimed', 'owed')
    when 'signed' then new.state in ('settled', 'failed', 'disputed')
    when 'submitted' then new.state in ('settled', 'failed', 'disputed')
    when 'settled' then new.state in ('signed', 'submitted', 'disputed')
    when 'failed' then new.state in ('settled', 'owed')
    when 'disputed' then new.state = 'settled'
    else false
  end) then
    raise exception 'payment % cannot go from % to %', old.seq, old.state, new.state using errcode = 'TP001';
  end if;
  if not (old.state = 'released' and new.state = 'claimed')
    and (new.id, new.pay_to, new.value, new.valid_after, new.valid_before, new.signature, new.kind, new.service_id,
      new.payload_digest, new.request_hash, new.identifier)
    is distinct from (old.id, old.pay_to, old.value, old.valid_after, old.valid_before, old.signature, old.kind,
      old.service_id, old.payload_digest, old.request_hash, old.identifier) then
    raise exception 'the terms of payment % cannot change', old.seq using errcode = 'TP001';
  end if;
  if old.state = 'claimed' and new.state = 'claimed' and new.holder <> old.holder then
    raise exception 'the claim of payment % cannot change hands', old.seq using errcode = 'TP001';
  end if;
  new.updated_at := clock_timestamp();
  return new;
end
$$;
create trigger payments_guard before insert or update on payments for each row execute function guard_payment();

create function record_event() returns trigger language plpgsql set search_path from current as $$
begin
  insert into events (payment, network, asset, from_state, from_value, to_state, value, detail)
  values (
    new.seq, new.network, new.asset,
    case when tg_op = 'UPDATE' then old.state end,
    case when tg_op = 'UPDATE' then old.value end,
    new.state, new.value,
    jsonb_strip_nulls(jsonb_build_object(
      'id', new.id,
      'reason', new.reason,
      'holder', coalesce(new.holder, case when tg_op = 'UPDATE' then old.holder end),
      'request', case when new.state = 'claimed' then encode(new.request_hash, 'hex') end,
      'batch', new.batch,
      'transaction', new.transaction_hash,
      'block', new.block_number,
      'block_hash', new.block_hash,
      'log_index', new.log_index
    ))
  );
  return null;
end
$$;
create trigger payments_first_event after insert on payments for each row execute function record_event();
create trigger payments_event after update on payments for each row
  when (
    old.state <> new.state
    or (old.state in ('settled', 'owed')
      and (old.transaction_hash, old.block_hash, old.log_index)
        is distinct from (new.transaction_hash, new.block_hash, new.log_index))
  )
  execute function record_event();

create function refuse_change() returns trigger language plpgsql set search_path from current as $$
begin
  raise exception '% is refused on %: the ledger only grows', tg_op, tg_table_name using errcode = 'TP002';
end
$$;
create trigger events_only_grow before update or delete or truncate on events
  for each statement execute function refuse_change();
create trigger payments_only_grow before delete or truncate on payments
  for each statement execute function refuse_change();
create trigger former_ids_only_grow before update or delete or truncate on former_ids
  for each statement execute function refuse_change();
create trigger transactions_only_grow before update or delete or truncate on transactions
  for each statement execute function refuse_change();
