-- Tables of the ledger. They are made in the schema that the search path names.
-- Values are in the asset's smallest unit. Addresses that are compared are in lower case. Times are the database's.

-- Processes that claim payments. One that has not renewed before expires_at is dead for good: it comes back as another.
create table holders (
  id text primary key,
  started_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null
);

-- Relayer keys. The lease lives as long as its holder does; epoch grows with every new holder.
create table relayers (
  network text not null,
  address text not null check (address = lower(address)),
  holder text,
  epoch bigint not null default 0,
  next_nonce bigint not null check (next_nonce >= 0),
  primary key (network, address)
);

-- One relayer nonce, journaled before its transaction is sent.
create table batches (
  id bigint generated always as identity primary key,
  network text not null,
  relayer text not null,
  nonce bigint not null check (nonce >= 0),
  gas_limit numeric(78, 0) not null check (gas_limit > 0),
  state text not null default 'open' check (state in ('open', 'mined')),
  mined_by text check ((state = 'mined') = (mined_by is not null)),
  created_at timestamptz not null default clock_timestamp(),
  unique (network, relayer, nonce),
  foreign key (network, relayer) references relayers
);
create index batches_open on batches (network, relayer, nonce) where state = 'open';

-- Signed transactions: all of one batch have its nonce and replace each other.
create table transactions (
  batch bigint not null references batches,
  position integer not null,
  hash text not null unique,
  raw bytea not null,
  max_fee_per_gas numeric(78, 0) not null,
  max_priority_fee_per_gas numeric(78, 0) not null,
  created_at timestamptz not null default clock_timestamp(),
  primary key (batch, position)
);

-- One row for each authorization that was ever claimed. id names one claim of it: a claim anew gets a new id.
create table payments (
  seq bigint generated always as identity primary key,
  id text not null unique,
  network text not null,
  asset text not null check (asset = lower(asset)),
  payer text not null check (payer = lower(payer)),
  nonce bytea not null check (octet_length(nonce) = 32),
  pay_to text not null,
  value numeric(78, 0) not null check (value >= 0),
  valid_after numeric(78, 0) not null,
  valid_before numeric(78, 0) not null,
  signature bytea not null,
  kind text not null check (kind in ('eoa', 'erc1271', 'erc6492')),
  service_id text not null,
  payload_digest bytea not null check (octet_length(payload_digest) = 32),
  request_hash bytea not null check (octet_length(request_hash) = 32),
  identifier text,
  state text not null check (
    state in ('claimed', 'released', 'signed', 'submitted', 'settled', 'failed', 'owed', 'disputed')
  ),
  reason text,
  holder text check ((state = 'claimed') = (holder is not null)),
  batch bigint references batches,
  transaction_hash text,
  block_number bigint,
  block_hash text,
  -- Place of the Transfer among the logs of the block.
  log_index integer,
  -- Its block was looked at once no re-organisation could take it any more.
  final boolean not null default false,
  -- It was put into a second batch: the first used its nonce up without it.
  resent boolean not null default false,
  answer_expires_at timestamptz,
  swept boolean not null default false,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  unique (network, asset, payer, nonce),
  constraint evidence_where_paid check (
    (state in ('settled', 'owed')) = (block_number is not null)
    and (block_number is null) = (block_hash is null)
    and (block_number is null) = (log_index is null)
    and (block_number is null or transaction_hash is not null)
  ),
  constraint batch_where_signed check (
    (state <> 'signed' or batch is not null)
    and (state <> 'submitted' or batch is null)
  ),
  constraint answer_where_served check (
    state not in ('signed', 'submitted', 'settled', 'disputed') or answer_expires_at is not null
  )
);
create unique index payments_identifier_bound on payments (network, payer, identifier)
  where identifier is not null and state not in ('released', 'owed');
create index payments_identifier on payments (network, payer, identifier) where identifier is not null;
-- One transfer pays for one payment, whatever the code above believes. A log is named by its block and its place there.
create unique index payments_evidence on payments (network, block_hash, log_index) where block_hash is not null;
-- On an expression, so that no plan sums a payer's balance over all that it ever paid, by the index of the unique key.
create index payments_in_flight on payments ((network || ' ' || asset || ' ' || payer))
  where state in ('claimed', 'signed', 'submitted');
create index payments_paid on payments ((network || ' ' || asset || ' ' || payer), block_number)
  where state in ('settled', 'owed');
create index payments_claimed on payments (holder) where state = 'claimed';
create index payments_submitted on payments (network, seq) where state = 'submitted';
create index payments_unresolved on payments (network, valid_before) where state in ('signed', 'submitted');
create index payments_unfinal on payments (network, block_number, block_hash) where state = 'settled' and not final;
create index payments_unswept on payments (network, valid_before)
  where state in ('released', 'failed') and not swept;
create index payments_batch on payments (batch) where batch is not null;

-- Ids of earlier claims of the same authorization.
create table former_ids (
  id text primary key,
  payment bigint not null references payments
);

-- Answers that were sold, apart from payments so that a change of state rewrites a small row.
create table answers (
  payment bigint primary key references payments,
  content_type text not null,
  body bytea not null,
  -- When to look again; what counts is payments.answer_expires_at.
  expires_at timestamptz not null
);
alter table answers alter column body set storage external;
create index answers_expires on answers (expires_at);

-- What happened to each payment, in order. Written by a trigger, never changed.
-- It leaves from_state with from_value (null at its first claim), and enters to_state with value.
create table events (
  seq bigint generated always as identity primary key,
  payment bigint not null,
  at timestamptz not null default clock_timestamp(),
  network text not null,
  asset text not null,
  from_state text,
  from_value numeric(78, 0),
  to_state text not null,
  value numeric(78, 0) not null,
  detail jsonb not null
);
create index events_payment on events (payment, seq);
