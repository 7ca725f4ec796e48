-- How a transaction ends without settling its payments: mined in vain, or cancelled by an empty one of the same nonce.
-- What it did not settle may be put into further batches, each time by itself.

-- In the order in which payments are settled, so that gateways that still run wait instead of standing in its way.
lock table relayers, holders, payments, batches, transactions in access exclusive mode;

-- An empty transaction that only uses its nonce up.
alter table transactions add column cancels boolean not null default false;

-- An operator wants it cancelled: the process that holds the key does it when it looks at its open batches next.
alter table batches add column cancel_requested boolean not null default false;
-- A re-organisation has taken the block of its transaction, which settles its payments again.
alter table batches add column reopened boolean not null default false;

-- How often it was put into a further batch: each earlier one used its nonce up without it.
alter table payments add column resends smallint not null default 0;
update payments set resends = 1 where resent;
alter table payments drop column resent;

-- Commits answers and the signed transaction that settles them, all or nothing. A payment whose batch ended without
-- settling it may be given three times more, each time by itself.
-- outcome: journaled | lease | nonce | lost. It is idempotent by the transaction's hash. The bodies are given as one
-- byte string and their lengths: the driver sends a byte string raw, but an array of them as hex.
create or replace function journal(
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
    elsif was.state = 'signed' and was.resends < 3 and was.network = p_network and cardinality(p_ids) = 1
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
    resends = resends + case when seq = any (again) then 1 else 0 end
  where seq = any (seqs);
  outcome := 'journaled';
  batch_id := new_batch;
end
$$;

-- outcome: journaled | lease | closed. Idempotent by the hash. One that cancels is no transaction of its payments.
drop function journal_replacement(text, text, text, bigint, bigint, text, bytea, numeric, numeric);
create function journal_replacement(
  p_holder text, p_network text, p_relayer text, p_epoch bigint, p_batch bigint,
  p_hash text, p_raw bytea, p_max_fee numeric, p_max_priority_fee numeric, p_cancels boolean default false,
  out outcome text
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
  insert into transactions (batch, position, hash, raw, max_fee_per_gas, max_priority_fee_per_gas, cancels)
    select p_batch, 1 + max(position), p_hash, p_raw, p_max_fee, p_max_priority_fee, p_cancels
    from transactions where batch = p_batch;
  if not p_cancels then
    update payments set transaction_hash = p_hash where seq = any (signed);
  end if;
  outcome := 'journaled';
end
$$;

-- settled → signed or submitted. Its batch is open again, since the nonce may be free again.
create or replace function reorganise(p_id text) returns text language plpgsql set search_path from current
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
    update batches set state = 'open', mined_by = null, cancel_requested = false, reopened = true where id = was.batch and state = 'mined';
  end if;
  update payments set
    state = case when was.batch is null then 'submitted' else 'signed' end,
    transaction_hash = case when was.batch is null then was.transaction_hash else (
      select hash from transactions where transactions.batch = was.batch and not cancels order by position desc limit 1
    ) end,
    block_number = null,
    block_hash = null,
    log_index = null,
    final = false
  where seq = was.seq;
  return 'done';
end
$$;
