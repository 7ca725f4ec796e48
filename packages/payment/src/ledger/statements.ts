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

/** All statements of the ledger for one schema. */
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
  return {
    register: write(
      "register",
      `insert into ${s}.holders (id, expires_at) values ($1, clock_timestamp() + ${ms("$2")})`,
    ),
    renew: write("renew", `select network, relayer, epoch from ${s}.renew($1, ${ms("$2")})`),
    retire: write("retire", `select ${s}.retire($1, $2)`),
    claim: write(
      "claim",
      `select c.outcome, ${paymentColumns("(c.standing)")} from ${s}.claim($1, $2, $3, $4, $5, $6, $7, $8, $9, $10,
        $11, $12, $13, $14, $15, $16, $17, $18) c`,
    ),
    find: read(
      "find",
      `select ${p} from ${s}.payments p where network = $1 and asset = $2 and payer = $3 and nonce = $4`,
    ),
    findByIdentifier: read(
      "findByIdentifier",
      `select ${p} from ${s}.payments p where network = $1 and payer = $2 and identifier = $3 and state <> 'released'
        order by (state = 'owed'), seq desc limit 1`,
    ),
    get: read(
      "get",
      `select ${p} from ${s}.payments p where seq = coalesce(
        (select seq from ${s}.payments where id = $1), (select payment from ${s}.former_ids where id = $1))`,
    ),
    answer: read(
      "answer",
      `select a.content_type, a.body from ${s}.payments p join ${s}.answers a on a.payment = p.seq
        where p.id = $1 and (p.state in ('signed', 'submitted') or p.answer_expires_at > clock_timestamp())`,
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
      `select ${s}.journal_replacement($1, $2, $3, $4, $5, $6, $7, $8, $9) as outcome`,
    ),
    journalSubmission: write("journalSubmission", `select ${s}.submit($1, $2, $3, $4, ${ms("$5")}) as submitted`),
    closeBatch: write(
      "closeBatch",
      `update ${s}.batches set state = 'mined', mined_by = $2 where id = $1 and mined_by is distinct from $2`,
    ),
    openBatches: read(
      "openBatches",
      `select b.id, b.nonce, b.gas_limit, floor(extract(epoch from b.created_at) * 1000)::float8 as created_ms,
          t.hash, t.raw, t.max_fee_per_gas, t.max_priority_fee_per_gas
        from ${s}.batches b join ${s}.transactions t on t.batch = b.id
        where b.id in (${batchWindow}) and ${heldByUs}
        order by b.nonce, t.position`,
    ),
    openBatchPayments: read(
      "openBatchPayments",
      `select p.batch, ${p} from ${s}.payments p where p.batch = any ($1::bigint[]) order by p.seq`,
    ),
    conclude: write("conclude", `select ${s}.conclude($1, $2, $3, $4, $5, $6, ${ms("$7")}) as outcome`),
    reorganise: write("reorganised", `select ${s}.reorganise($1) as outcome`),
    submitted: read(
      "submitted",
      `select ${p} from ${s}.payments p where network = $1 and state = 'submitted' order by seq limit $2`,
    ),
    unfinal: read(
      "unfinal",
      `select ${p} from ${s}.payments p where network = $1 and state = 'settled' and block_number >= $2
        order by block_number limit $3`,
    ),
    unswept: read(
      "unswept",
      `select ${p} from ${s}.payments p
        where network = $1 and state in ('released', 'failed') and not swept and valid_before <= $2
        order by valid_before limit $3`,
    ),
    swept: write(
      "swept",
      `update ${s}.payments set swept = true
        where id = any ($1) and state in ('released', 'failed') and not swept`,
    ),
    expireAnswers: write("expireAnswers", `select deleted, looked from ${s}.expire_answers($1)`),
    books: read("books", `select network, asset, state, payments, value from ${s}.books order by network, asset`),
    commits: read("commits", "select current_setting('synchronous_commit') as sync"),
    ready: read("ready", "select 1 as one"),
  };
}

/** What {@link ledgerStatements} gives. */
export type LedgerStatements = ReturnType<typeof ledgerStatements>;
