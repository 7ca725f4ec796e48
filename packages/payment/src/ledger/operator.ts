import type { Address, NetworkId, SettlementId } from "@turnpike/base";
import { withClient } from "./client.ts";
import { quoteSchema } from "./statements.ts";

/** A settlement transaction whose nonce is not used up. */
export interface OpenTransaction {
  readonly network: NetworkId;
  readonly relayer: Address;
  readonly nonce: number;
  /** False when no living process holds the key. */
  readonly held: boolean;
  /** Seconds since its first transaction was signed. */
  readonly ageSeconds: number;
  /** How many transactions of this nonce were signed; each replaces the one before. */
  readonly attempts: number;
  /** Hash of the newest one. */
  readonly transaction: `0x${string}`;
  /** Of the newest one, in wei for a unit of gas. */
  readonly maxFeePerGas: bigint;
  /** Payments of it that are not resolved. */
  readonly payments: number;
  /** `requested` by an operator, or `sent`: the newest transaction is the empty one. */
  readonly cancellation: "none" | "requested" | "sent";
}

/** An account whose payments are not taken. */
export interface BlockedPayer {
  readonly network: NetworkId;
  readonly payer: Address;
  readonly reason: string;
  /** Unix milliseconds; undefined: until it is taken off. */
  readonly untilMs: number | undefined;
}

/**
 * Result of a retry: `not-waiting` is no signed payment, or one in an open transaction; after `window-closed` none can
 * settle it; one that is `submitted` is settled by a remote facilitator, which is asked again and again.
 */
export type RetryResult = "requested" | "window-closed" | "not-waiting" | "submitted";

interface OpenTransactionRow {
  readonly network: string;
  readonly relayer: string;
  readonly nonce: string;
  readonly held: boolean;
  readonly age: number;
  readonly attempts: number;
  readonly hash: string;
  readonly max_fee_per_gas: string;
  readonly payments: number;
  readonly cancel_requested: boolean;
  readonly cancels: boolean;
}

interface BlockedRow {
  readonly network: string;
  readonly payer: string;
  readonly reason: string;
  readonly until_ms: number | null;
}

/**
 * What an operator may look at and ask for, in the ledger: the processes that have it open act on it. Each call is a
 * connection of its own, and throws the errors of the ledger.
 */
export class LedgerOperator {
  readonly #url: string;
  /** As SQL. */
  readonly #schema: string;

  constructor(url: string, opts: { readonly schema: string }) {
    this.#url = url;
    this.#schema = quoteSchema(opts.schema);
  }

  /** By network, key and nonce. */
  async openTransactions(limit: number): Promise<readonly OpenTransaction[]> {
    const rows = await this.#query<OpenTransactionRow>(
      "openTransactions",
      `select b.network, b.relayer, b.nonce, ${this.#schema}.holder_lives(r.holder) as held, b.cancel_requested,
          extract(epoch from clock_timestamp() - b.created_at)::float8 as age,
          last.position + 1 as attempts, last.hash, last.max_fee_per_gas, last.cancels,
          (select count(*)::integer from ${this.#schema}.payments p where p.batch = b.id and p.state = 'signed') as payments
        from ${this.#schema}.batches b
        join ${this.#schema}.relayers r on r.network = b.network and r.address = b.relayer
        cross join lateral (select * from ${this.#schema}.transactions t where t.batch = b.id order by position desc limit 1) last
        where b.state = 'open' order by b.network, b.relayer, b.nonce limit $1`,
      [limit],
    );
    return rows.map((row) => ({
      network: row.network as NetworkId,
      relayer: row.relayer as Address,
      nonce: Number(row.nonce),
      held: row.held,
      ageSeconds: Math.floor(row.age),
      attempts: row.attempts,
      transaction: row.hash as `0x${string}`,
      maxFeePerGas: BigInt(row.max_fee_per_gas),
      payments: row.payments,
      cancellation: row.cancels ? "sent" : row.cancel_requested ? "requested" : "none",
    }));
  }

  /** Asks for a cancellation of this nonce's transaction. False when none is open. */
  async cancel(network: NetworkId, relayer: Address, nonce: number): Promise<boolean> {
    const rows = await this.#query(
      "cancel",
      `update ${this.#schema}.batches set cancel_requested = true
        where network = $1 and relayer = $2 and nonce = $3 and state = 'open' returning id`,
      [network, relayer.toLowerCase(), nonce],
    );
    return rows.length > 0;
  }

  /** Lets a `signed` payment, whose batch ended without settling it, be sent again. */
  async retry(id: SettlementId): Promise<RetryResult> {
    const [row] = await this.#query<{ state: string; open: boolean | null }>(
      "retry",
      `with waiting as (
          select p.id, p.valid_before > extract(epoch from clock_timestamp()) as open from ${this.#schema}.payments p
            join ${this.#schema}.batches b on b.id = p.batch
            where p.id = $1 and p.state = 'signed' and b.state = 'mined'),
        requested as (
          update ${this.#schema}.payments p set resends = 0 from waiting w where p.id = w.id and w.open and p.state = 'signed')
        select p.state, w.open from ${this.#schema}.payments p left join waiting w on w.id = p.id where p.id = $1`,
      [id],
    );
    if (row?.state === "submitted") return "submitted";
    if (row === undefined || row.open === null) return "not-waiting";
    return row.open ? "requested" : "window-closed";
  }

  /** Releases a claim, whichever process works on it: its answer is not given. False when it is not claimed. */
  async release(id: SettlementId): Promise<boolean> {
    const rows = await this.#query<{ released: boolean }>(
      "release",
      `select ${this.#schema}.operator_release($1, 'SERVICE_UNAVAILABLE') as released`,
      [id],
    );
    return rows[0]?.released === true;
  }

  /** Refuses payments of this account; a block that it has is replaced. */
  async block({ network, payer, reason, untilMs }: BlockedPayer): Promise<void> {
    await this.#query(
      "block",
      `insert into ${this.#schema}.blocked_payers (network, payer, reason, until)
        values ($1, $2, $3, to_timestamp($4::float8 / 1000))
        on conflict (network, payer) do update set reason = excluded.reason, until = excluded.until`,
      [network, payer.toLowerCase(), reason, untilMs ?? null],
    );
  }

  /** False when it was not blocked. */
  async unblock(network: NetworkId, payer: Address): Promise<boolean> {
    const values = [network, payer.toLowerCase()];
    const rows = await this.#query(
      "unblock",
      `update ${this.#schema}.blocked_payers set until = clock_timestamp()
        where network = $1 and payer = $2 and (until is null or until > clock_timestamp()) returning payer`,
      values,
    );
    return rows.length > 0;
  }

  /** Newest first. */
  async blocked(limit: number): Promise<readonly BlockedPayer[]> {
    const rows = await this.#query<BlockedRow>(
      "blocked",
      `select network, payer, reason, extract(epoch from until)::float8 * 1000 as until_ms
        from ${this.#schema}.blocked_payers where until is null or until > clock_timestamp()
        order by created_at desc limit $1`,
      [limit],
    );
    return rows.map(({ network, payer, reason, until_ms }) => ({
      network: network as NetworkId,
      payer: payer as Address,
      reason,
      untilMs: until_ms ?? undefined,
    }));
  }

  #query<Row extends object>(method: string, text: string, values: readonly unknown[]): Promise<Row[]> {
    return withClient(this.#url, method, async (client) => (await client.query<Row>(text, [...values])).rows);
  }
}
