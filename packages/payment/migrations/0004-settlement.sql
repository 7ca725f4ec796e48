-- Leases, the journal and what becomes of payments on the chain.

-- outcome: leased | held (another living holder has it) | fenced (p_holder is dead).
create function lease_relayer(
  p_holder text, p_network text, p_relayer text, p_chain_nonce bigint,
  out outcome text, out epoch bigint, out next_nonce bigint
) language plpgsql set search_path from current
set enable_seqscan to off as $$
#variable_conflict use_column
declare
  lease relayers;
begin
  insert into relayers (network, address, next_nonce) values (p_network, p_relayer, p_chain_nonce)
    on conflict do nothing;
  select * into lease from relayers where network = p_network and address = p_relayer for update;
  if not holder_lives(p_holder) then
    outcome := 'fenced';
    return;
  end if;
  if lease.holder <> p_holder and holder_lives(lease.holder) then
    outcome := 'held';
    return;
  end if;
  update relayers set
    holder = p_holder,
    epoch = lease.epoch + case when lease.holder is distinct from p_holder then 1 else 0 end,
    next_nonce = greatest(lease.next_nonce, p_chain_nonce)
  where network = p_network and address = p_relayer
  returning * into lease;
  outcome := 'leased';
  epoch := lease.epoch;
  next_nonce := lease.next_nonce;
end
$$;

-- Locks the relayer; null when p_holder lives and holds it with p_epoch, else why not.
create function check_lease(p_holder text, p_network text, p_relayer text, p_epoch bigint, out next_nonce bigint)
language plpgsql set search_path from current
set enable_seqscan to off as $$
#variable_conflict use_column
declare
  lease relayers;
begin
  select * into lease from relayers where network = p_network and address = p_relayer for update;
  if lease.holder = p_holder and lease.epoch = p_epoch and holder_lives(p_holder) then
    next_nonce := lease.next_nonce;
  end if;
end
$$;

-- Commits answers and the signed transaction that settles them, all or nothing. A payment whose batch was mined without
-- settling it may be given once more.
-- outcome: journaled | lease | nonce | lost. It is idempotent by the transaction's hash. The bodies are given as one
-- byte string and their lengths: the driver sends a byte string raw, but an array of them as hex.
create function journal(
  p_holder text, p_network text, p_relayer text, p_epoch bigint, p_nonce bigint, p_gas_limit numeric,
  p_hash text, p_raw bytea, p_max_fee numeric, p_max_priority_fee numeric,
  p_ids text[], p_content_types text[], p_lengths integer[], p_bodies bytea, p_retention interval,
  out outcome text, out batch_id bigint, out lost text[], out next_nonce bigint
) language plpgsql set search_path from current
set enable_seqscan to off as $$
#variable_conflict use_column
declare
  expiry timestamptz := clock_timestamp() + p_retention;
  new_batch bigint;
  free_nonce bigint;
  was payments;
  held text[] := '{}';
  seqs bigint[] := '{}';
  again bigint[] := '{}';
begin
  free_nonce := check_lease(p_holder, p_network, p_relayer, p_epoch);
  next_nonce := free_nonce;
  for was in select * from payments where id = any (p_ids) order by seq for update loop
    if was.state = 'claimed' and was.holder = p_holder and was.network = p_network then
      held := held || was.id;
      seqs := seqs || was.seq;
    elsif was.state = 'signed' and not was.resent and was.network = p_network
      and exists (select 1 from batches where id = was.batch and state = 'mined') then
      held := held || was.id;
      seqs := seqs || was.seq;
      again := again || was.seq;
    end if;
  end loop;

  if free_nonce is not null then
    select transactions.batch into new_batch from transactions
      join batches on batches.id = transactions.batch
      where transactions.hash = p_hash and batches.network = p_network and batches.relayer = p_relayer
        and batches.nonce = p_nonce;
    if new_batch is not null then
      outcome := 'journaled';
      batch_id := new_batch;
      return;
    end if;
  end if;

  lost := array(select given.id from unnest(p_ids) as given (id) where given.id <> all (held));
  if free_nonce is null then
    outcome := 'lease';
    return;
  end if;
  if free_nonce <> p_nonce then
    outcome := 'nonce';
    return;
  end if;
  if lost <> '{}' then
    outcome := 'lost';
    return;
  end if;

  update relayers set next_nonce = p_nonce + 1 where network = p_network and address = p_relayer;
  insert into batches (network, relayer, nonce, gas_limit) values (p_network, p_relayer, p_nonce, p_gas_limit)
    returning id into new_batch;
  insert into transactions (batch, position, hash, raw, max_fee_per_gas, max_priority_fee_per_gas)
    values (new_batch, 0, p_hash, p_raw, p_max_fee, p_max_priority_fee);
  insert into answers (payment, content_type, body, expires_at)
    select seqs[array_position(held, item.id)], item.content_type,
      substring(p_bodies from (1 + sum(item.length) over (order by item.place) - item.length)::integer for item.length),
      expiry
    from unnest(p_ids, p_content_types, p_lengths) with ordinality as item (id, content_type, length, place)
    on conflict do nothing;
  update payments set
    state = 'signed', holder = null, batch = new_batch, transaction_hash = p_hash, answer_expires_at = expiry,
    resent = seq = any (again)
  where seq = any (seqs);
  outcome := 'journaled';
  batch_id := new_batch;
end
$$;

-- outcome: journaled | lease | closed. Idempotent by the hash.
create function journal_replacement(
  p_holder text, p_network text, p_relayer text, p_epoch bigint, p_batch bigint,
  p_hash text, p_raw bytea, p_max_fee numeric, p_max_priority_fee numeric, out outcome text
) language plpgsql set search_path from current
set enable_seqscan to off as $$
declare
  was payments;
  signed bigint[] := '{}';
begin
  if check_lease(p_holder, p_network, p_relayer, p_epoch) is null then
    outcome := 'lease';
    return;
  end if;
  if exists (select 1 from transactions where batch = p_batch and hash = p_hash) then
    outcome := 'journaled';
    return;
  end if;
  for was in select * from payments where batch = p_batch order by seq for update loop
    if was.state = 'signed' then
      signed := signed || was.seq;
    end if;
  end loop;
  perform 1 from batches
    where id = p_batch and network = p_network and relayer = p_relayer and state = 'open' for update;
  if not found then
    outcome := 'closed';
    return;
  end if;
  insert into transactions (batch, position, hash, raw, max_fee_per_gas, max_priority_fee_per_gas)
    select p_batch, 1 + max(position), p_hash, p_raw, p_max_fee, p_max_priority_fee
    from transactions where batch = p_batch;
  update payments set transaction_hash = p_hash where seq = any (signed);
  outcome := 'journaled';
end
$$;

-- claimed → submitted, with the answer. False when it was no longer p_holder's claim.
create function submit(p_holder text, p_id text, p_content_type text, p_body bytea, p_retention interval)
returns boolean language plpgsql set search_path from current
set enable_seqscan to off as $$
declare
  expiry timestamptz := clock_timestamp() + p_retention;
  was payments;
begin
  select * into was from payments where id = p_id for update;
  if was.seq is null or was.state <> 'claimed' or was.holder <> p_holder or not holder_lives(p_holder) then
    return false;
  end if;
  update payments set state = 'submitted', holder = null, answer_expires_at = expiry where seq = was.seq;
  insert into answers (payment, content_type, body, expires_at) values (was.seq, p_content_type, p_body, expiry);
  return true;
end
$$;

-- To settled, failed, disputed or owed. done | same (it stood so) | unknown. The guard refuses what is not allowed.
-- An answer is kept for its whole retention after the settlement.
create function conclude(
  p_id text, p_state text, p_reason text, p_transaction text, p_block bigint, p_block_hash text, p_log_index integer,
  p_retention interval
) returns text language plpgsql set search_path from current
set enable_seqscan to off as $$
declare
  was payments;
begin
  select * into was from payments where id = p_id for update;
  if was.seq is null then
    return 'unknown';
  end if;
  -- Whoever settled it saw the evidence; whoever did not must not take it away. A block that goes is said by reorganise.
  if p_state = 'failed' and was.state = 'settled' then
    raise exception 'payment % is settled', was.seq using errcode = 'TP001';
  end if;
  -- Its answer was given out when it was settled: what can no longer be settled then is in dispute, not just failed.
  if p_state = 'failed' and exists (
    select 1 from events where events.payment = was.seq and events.to_state = 'settled'
  ) then
    p_state := 'disputed';
  end if;
  if was.state = p_state and (p_block is null
    or (was.transaction_hash, was.block_number, was.block_hash, was.log_index)
      is not distinct from (p_transaction, p_block, p_block_hash, p_log_index)) then
    return 'same';
  end if;
  update payments set
    state = p_state,
    reason = case when p_state = 'owed' then was.reason else p_reason end,
    transaction_hash = coalesce(p_transaction, was.transaction_hash),
    block_number = p_block,
    block_hash = p_block_hash,
    log_index = p_log_index,
    final = false,
    answer_expires_at = case
      when p_state = 'settled' and was.state <> 'settled'
        and exists (select 1 from answers where answers.payment = was.seq)
      then greatest(was.answer_expires_at, clock_timestamp() + p_retention)
      else was.answer_expires_at
    end
  where seq = was.seq;
  return 'done';
end
$$;

-- Many payments to settled, all or nothing. Returns the ids that are unknown. Those under way, as nearly all are, are
-- written by one statement; `conclude` decides on the others.
create function settle_all(
  p_ids text[], p_transactions text[], p_blocks bigint[], p_block_hashes text[], p_log_indexes integer[],
  p_retention interval
) returns setof text language plpgsql set search_path from current
set enable_seqscan to off as $$
declare
  expiry timestamptz := clock_timestamp() + p_retention;
  was record;
  under_way text[] := '{}';
  seqs bigint[] := '{}';
begin
  for was in select id, seq, state from payments where id = any (p_ids) order by seq for update loop
    if was.state in ('signed', 'submitted') then
      under_way := under_way || was.id;
      seqs := seqs || was.seq;
    end if;
  end loop;
  update payments set
    state = 'settled',
    reason = null,
    transaction_hash = coalesce(p_transactions[array_position(p_ids, id)], transaction_hash),
    block_number = p_blocks[array_position(p_ids, id)],
    block_hash = p_block_hashes[array_position(p_ids, id)],
    log_index = p_log_indexes[array_position(p_ids, id)],
    final = false,
    answer_expires_at = case
      when exists (select 1 from answers where answers.payment = payments.seq)
      then greatest(answer_expires_at, expiry)
      else answer_expires_at
    end
  where seq = any (seqs);
  for place in 1 .. cardinality(p_ids) loop
    continue when p_ids[place] = any (under_way);
    if conclude(p_ids[place], 'settled', null, p_transactions[place], p_blocks[place], p_block_hashes[place],
      p_log_indexes[place], p_retention) = 'unknown' then
      return next p_ids[place];
    end if;
  end loop;
end
$$;

-- settled → signed or submitted. Its batch is open again, since the nonce may be free again.
create function reorganise(p_id text) returns text language plpgsql set search_path from current
set enable_seqscan to off as $$
declare
  was payments;
begin
  select * into was from payments where id = p_id for update;
  if was.seq is null then
    return 'unknown';
  end if;
  if was.state in ('signed', 'submitted') then
    return 'same';
  end if;
  if was.state <> 'settled' then
    raise exception 'payment % is %, it has no block to lose', was.seq, was.state using errcode = 'TP001';
  end if;
  if was.batch is not null then
    update batches set state = 'open', mined_by = null where id = was.batch and state = 'mined';
  end if;
  update payments set
    state = case when was.batch is null then 'submitted' else 'signed' end,
    transaction_hash = case when was.batch is null then was.transaction_hash else (
      select hash from transactions where transactions.batch = was.batch order by position desc limit 1
    ) end,
    block_number = null,
    block_hash = null,
    log_index = null,
    final = false
  where seq = was.seq;
  return 'done';
end
$$;

-- Deletes up to p_limit answers past their retention. One whose payment is not resolved is kept.
create function expire_answers(p_limit integer, out deleted bigint, out looked bigint)
language sql set search_path from current as $$
  with due as (
    select answers.payment,
      payments.state not in ('signed', 'submitted') and payments.answer_expires_at <= clock_timestamp() as over,
      payments.answer_expires_at as until
    from answers join payments on payments.seq = answers.payment
    where answers.expires_at <= clock_timestamp()
    order by answers.expires_at limit p_limit for update of answers skip locked
  ), kept as (
    update answers set expires_at = greatest(due.until, clock_timestamp() + interval '1 minute')
    from due where answers.payment = due.payment and not due.over
    returning 1
  ), gone as (
    delete from answers using due where answers.payment = due.payment and due.over
    returning 1
  )
  select (select count(*) from gone), (select count(*) from due)
$$;
