import { AppError } from "@turnpike/base";
import type { Statement } from "./database.ts";
import { paymentColumns } from "./rows.ts";

const SCHEMA = /^[a-z_][a-z0-9_]{0,62}$/;

/** The schema's name as SQL. Throws AppError CONFIG_INVALID when it is not a plain lower-case name. */
export function quoteSchema(schema: string): string {
  if (!SCHEMA.test(schema) || schema.startsWith("pg_")) {
    throw new AppError("CONFIG_INVALID", { message: `ledger.schema: ${schema} is not a plain lower-case name.` });
  }
  return `"${schema}"`;
}

/** The table of all statements of the ledger for one schema, by their name. */
export function ledgerStatements(schema: string) {
  const s = quoteSchema(schema);
  const read = (name: string, text: string): Statement => ({ name, text, writes: false });
  const write = (name: string, text: string): Statement => ({ name, text, writes: true });
  const ms = (place: string): string => `${place}::float8 * interval '1 millisecond'`;
  const p = paymentColumns("p");
  const batchWindow = `select id from ${s}.batches where network = $1 and relayer = $2 and state = 'open'
    order by nonce limit $3`;
  const heldByUs = `exists (select 1 from ${s}.relayers
    where network = $1 and address = $2 and holder = $4 and ${s}.holder_lives($4))`;
  const keptAnswer = `p.id = $1 and (p.state in ('signed', 'submitted') or p.answer_expires_at > clock_timestamp())
    and ($2::float8 is null or p.state = 'settled' and exists (select 1 from ${s}.events e where e.payment = p.seq
      and e.from_state <> 'settled' and e.to_state = 'settled' and e.at > clock_timestamp() - ${ms("$2")}))`;
  const openResult = `(r.is_open or r.holder is not null and not ${s}.holder_lives(r.holder))`;
  return {
    register: write(
      "register",
      `insert into ${s}.holders (id, expires_at, sells) values ($1, clock_timestamp() + ${ms("$2")}, $3::text[])`,
    ),
    sell: write("sell", `update ${s}.holders set sells = $2::text[] where id = $1 returning id`),
    renew: write(
      "renew",
      `select network, relayer, epoch, coalesce((select sells @> $3::text[] from ${s}.holders where id = $1), false) as sells
        from ${s}.renew($1, ${ms("$2")})`,
    ),
    retire: write("retire", `select ${s}.retire($1, $2)`),
    // One row for each wanted claim, in their order. A holder whose row does not name the receivers $2 is refused like a
    // dead one: another ledger cannot see that it sells.
    claim: write(
      "claim",
      `select c.outcome, coalesce((c.standing).placed, true) as placed, ${paymentColumns("(c.standing)")} from ${s}.claim_all($1::json, $2::text[]) c order by c.place`,
    ),
    find: read(
      "find",
      `select w.place::integer, ${p} from unnest($1::text[], $2::text[], $3::text[], $4::text[])
          with ordinality w (network, asset, payer, nonce, place),
        lateral (select * from ${s}.payments p where p.network = w.network and p.asset = w.asset
          and p.payer = w.payer and p.nonce = decode(w.nonce, 'hex') limit 1) p`,
    ),
    findByIdentifier: read(
      "findByIdentifier",
      `select ${p} from ${s}.payments p where network = $1 and payer = $2 and identifier = $3
        and state not in ('released', 'failed', 'disputed')
        order by (state = 'owed'), seq desc limit 1`,
    ),
    get: read(
      "get",
      `select w.place::integer, ${p} from unnest($1::text[]) with ordinality w (id, place),
        lateral (select * from ${s}.payments p where p.id = w.id limit 1) p`,
    ),
    newest: read(
      "newest",
      `select w.place::integer, ${p} from unnest($1::text[]) with ordinality w (id, place),
        lateral (select * from ${s}.payments p where p.seq = coalesce(
          (select seq from ${s}.payments where id = w.id),
          (select payment from ${s}.former_ids where id = w.id)) limit 1) p`,
    ),
    answer: read(
      "answer",
      `select a.content_type, a.body from ${s}.payments p join ${s}.answers a on a.payment = p.seq where ${keptAnswer}`,
    ),
    hasAnswer: read(
      "hasAnswer",
      `select exists (
        select from ${s}.payments p join ${s}.answers a on a.payment = p.seq where ${keptAnswer}) as found`,
    ),
    release: write("release", `select release as id from ${s}.release($1, $2, $3)`),
    releaseOrphans: write("releaseOrphans", `select ${s}.release_orphans($1, $2) as released`),
    leaseRelayer: write("leaseRelayer", `select outcome, epoch, next_nonce from ${s}.lease_relayer($1, $2, $3, $4)`),
    journal: write(
      "journal",
      `select outcome, batch_id, lost, next_nonce from ${s}.journal($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,
        $13, $14, ${ms("$15")})`,
    ),
    journalReplacement: write(
      "journalReplacement",
      `select ${s}.journal_replacement($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) as outcome`,
    ),
    journalSubmission: write("journalSubmission", `select ${s}.submit($1, $2, $3, $4, ${ms("$5")}) as submitted`),
    closeBatch: write(
      "closeBatch",
      `update ${s}.batches set state = 'mined', mined_by = $2 where id = $1 and mined_by is distinct from $2`,
    ),
    returnRelayer: write(
      "returnRelayer",
      `update ${s}.relayers set holder = null where holder = $1 and network = $2 and address = $3 and epoch = $4`,
    ),
    livingHolders: read(
      "livingHolders",
      `select count(*)::integer as living from ${s}.holders where expires_at > clock_timestamp()`,
    ),
    openBatches: read(
      "openBatches",
      `select b.id, b.nonce, b.gas_limit, b.cancel_requested, b.reopened, floor(extract(epoch from b.created_at) * 1000)::float8 as created_ms,
          t.hash, t.raw, t.max_fee_per_gas, t.max_priority_fee_per_gas, t.cancels
        from ${s}.batches b join ${s}.transactions t on t.batch = b.id
        where b.id in (${batchWindow}) and ${heldByUs}
        order by b.nonce, t.position`,
    ),
    orphanBatches: read(
      "orphanBatches",
      `select b.id, b.relayer, b.nonce, b.gas_limit, b.cancel_requested, b.reopened, floor(extract(epoch from b.created_at) * 1000)::float8 as created_ms,
          t.hash, t.raw, t.max_fee_per_gas, t.max_priority_fee_per_gas, t.cancels
        from ${s}.batches b join ${s}.transactions t on t.batch = b.id
        where b.id in (
          select b.id from ${s}.batches b join ${s}.relayers r on r.network = b.network and r.address = b.relayer
          where b.network = $1 and b.state = 'open' and not ${s}.holder_lives(r.holder)
            and exists (select 1 from ${s}.payments p where p.batch = b.id and p.state = 'signed')
          order by b.relayer, b.nonce limit $2
        )
        order by b.relayer, b.nonce, t.position`,
    ),
    openBatchPayments: read(
      "openBatchPayments",
      `select p.batch, ${p} from ${s}.payments p where p.batch = any ($1::bigint[]) order by p.seq`,
    ),
    conclude: write("conclude", `select ${s}.conclude($1, $2, $3, $4, $5, $6, $7, ${ms("$8")}) as outcome`),
    settleAll: write("settled", `select settle_all as id from ${s}.settle_all($1, $2, $3, $4, $5, ${ms("$6")})`),
    reorganise: write("reorganised", `select ${s}.reorganise($1) as outcome`),
    submitted: read(
      "submitted",
      `select ${p} from ${s}.payments p where network = $1 and state = 'submitted' order by seq limit $2`,
    ),
    unresolved: read(
      "unresolved",
      `select ${p} from ${s}.payments p where p.network = $1 and p.state in ('signed', 'submitted')
        and (p.valid_before <= $2 or exists (select 1 from ${s}.batches b where b.id = p.batch and b.state = 'mined'))
        order by p.valid_before, p.seq limit $3`,
    ),
    unfinalBlocks: read(
      "unfinalBlocks",
      `select distinct block_number, block_hash from ${s}.payments
        where network = $1 and state = 'settled' and not final and (block_number, block_hash) < ($2::bigint, $3)
        order by block_number desc, block_hash desc limit $4`,
    ),
    unfinalIn: read(
      "unfinalIn",
      `select ${p} from ${s}.payments p where network = $1 and state = 'settled' and not final
        and block_number = $2 and block_hash = $3 order by seq limit $4`,
    ),
    // One that is locked is being changed: it is looked at again.
    finalise: write(
      "finalise",
      `with due as (
          select p.seq from ${s}.payments p join unnest($2::bigint[], $3::text[]) as w (block, hash)
            on p.block_number = w.block and p.block_hash = w.hash
            where p.network = $1 and p.state = 'settled' and not p.final
            order by p.seq for update of p skip locked
        ) update ${s}.payments set final = true from due where payments.seq = due.seq`,
    ),
    // Among the newest payments, of a week: nodes may have pruned older blocks.
    newestFinal: read(
      "newestFinal",
      `select block_number::text as block_number, block_hash from (
          select network, final, block_number, block_hash, updated_at from ${s}.payments order by seq desc limit 10000) p
        where network = $1 and final and block_hash is not null and updated_at > clock_timestamp() - interval '7 days'
        order by p.block_number desc limit 1`,
    ),
    unswept: read(
      "unswept",
      `select ${p} from ${s}.payments p
        where network = $1 and state in ('released', 'failed', 'disputed') and not swept and valid_before <= $2
        order by valid_before limit $3`,
    ),
    swept: write(
      "swept",
      `update ${s}.payments set swept = true, kept = $2
        where id = any ($1) and state in ('released', 'failed', 'disputed') and not swept`,
    ),
    unknownTransfers: read(
      "unknownTransfers",
      `select w.place::integer from unnest($2::text[], $3::integer[]) with ordinality w (block_hash, log_index, place)
        where not exists (select 1 from ${s}.payments p
          where p.network = $1 and p.block_hash = w.block_hash and p.log_index = w.log_index)`,
    ),
    beginScan: write(
      "beginScan",
      `select is_due, scanned_to, final_block from ${s}.begin_scan($1, $2, $3, ${ms("$4")})`,
    ),
    moveCursor: write("moveCursor", `select ${s}.move_cursor($1, $2, $3, $4, $5, $6) as moved`),
    expireAnswers: write("expireAnswers", `select deleted, looked from ${s}.expire_answers($1)`),
    pruneReleased: write("pruneReleased", `select ${s}.prune_released(${ms("$1")}, $2) as pruned`),
    inFlight: read(
      "inFlight",
      `select '0x' || encode(nonce, 'hex') as nonce, value::text as value from ${s}.payments
        where network || ' ' || asset || ' ' || payer = $1 and state in ('claimed', 'signed', 'submitted') limit $2`,
    ),
    openResult: write("openResult", `select ${s}.open_result($1, ${ms("$2")})`),
    leaseResults: write(
      "leaseResults",
      `insert into ${s}.open_results (settlement, is_open, holder) select settlement, false, $2
        from unnest($1::text[]) as w (settlement) on conflict (settlement) do nothing`,
    ),
    closeResults: write("closeResults", `select ${s}.close_results($1::text[], $2::text[])`),
    isResultOpen: read(
      "isResultOpen",
      `select exists (select from ${s}.open_results r where settlement = $1 and ${openResult}) as open`,
    ),
    // A process that is late would leave what it takes open to every copy.
    takeResult: write(
      "takeResult",
      `update ${s}.open_results r set is_open = false, holder = $2, at = clock_timestamp()
        where settlement = $1 and ${openResult} and ${s}.holder_lives($2) returning settlement`,
    ),
    // Its row stays: no request may be the first once more.
    takeFirstResult: write(
      "takeFirstResult",
      `insert into ${s}.open_results as r (settlement, is_open) values ($1, false)
        on conflict (settlement) do update set is_open = false, holder = null where ${openResult} returning settlement`,
    ),
    takeBudgets: write("takeBudgets", `select ${s}.take_budgets($1, $2, $3) as used_up`),
    returnBudgets: write("returnBudgets", `select ${s}.return_budgets($1, $2)`),
    usedUpBudget: read(
      "usedUpBudget",
      `select b.name from unnest($1::text[], $2::bigint[]) with ordinality as w (name, most, place)
        join ${s}.settlement_budgets b on b.name = w.name
        where b.taken + $3 > w.most and b.day = (clock_timestamp() at time zone 'UTC')::date
        union all select w.name from unnest($1::text[], $2::bigint[]) as w (name, most) where $3 > w.most limit 1`,
    ),
    admitWallets: write(
      "admitWallets",
      `select admission from ${s}.admit_wallets($1::json, ${ms("$2")}) order by place`,
    ),
    // By the rule of admit_wallet: only a payer that never settled depends on its code's subjects.
    walletBound: read(
      "walletBound",
      `select open.subject, open.payments::integer as places from (
          select $2 as subject, 0 as rank, count(*) as payments from ${s}.wallet_runs
            where network = $1 and outcome = 'open' and payer = $2
          union all
          select class, 1, count(r.payment) from unnest($3::text[]) class
            left join ${s}.wallet_runs r on r.network = $1 and r.outcome = 'open' and r.is_new and class = any (r.subjects)
            group by class
            having count(r.payment) >= greatest(1, least(8, (
              select credit from ${s}.wallet_risks w where w.network = $1 and w.subject = class)))
        ) open where open.payments > 0 order by open.rank, open.payments desc limit 1`,
    ),
    endWallet: write("endWallet", `select ${s}.end_wallet($1, $2, $3, $4::text[], $5, $6)`),
    admitPlain: write("admitPlain", `select payment, admission from ${s}.admit_plain($1, $2, $3::text[])`),
    failPlain: write("failPlain", `select ${s}.fail_plain($1, $2, $3, $4, $5, $6)`),
    failingPayers: read(
      "failingPayers",
      `select substr(subject, 7) as payer from ${s}.wallet_risks
        where network = $1 and subject = any ($2::text[]) and failures > 0 and plain_credit = 0`,
    ),
    // A payer that has settled since its last loss answers for itself alone, and one of code that vouches for it, not for all.
    walletPause: read(
      "walletPause",
      `select ceil(extract(epoch from greatest(max(blocked_until), clock_timestamp()) - clock_timestamp()))::float8 as seconds
        from ${s}.wallet_risks where network = $1 and (subject = $2
          or (subject = any ($3::text[]) or subject = 'all' and not ${s}.vouched_for($1, $3::text[]))
          and not exists (select from ${s}.wallet_risks where network = $1 and subject = $2 and credit > 0))`,
    ),
    sums: read("books", `select network, asset, state, payments, value from ${s}.books order by network, asset`),
    list: read("list", `select ${p} from ${s}.payments p where p.state = any ($1) order by p.seq desc limit $2`),
    commits: read("commits", "select current_setting('synchronous_commit') as sync"),
    ready: read("ready", "select 1 as one"),
  };
}

/** The ledger's statements, by name. */
export type LedgerStatements = ReturnType<typeof ledgerStatements>;
