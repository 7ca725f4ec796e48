import pg from "pg";

/** What the tables of a ledger hold. */
export interface LedgerRows {
  /** Rows, by table. */
  readonly rows: Readonly<Record<Table, number>>;
  /** Payments, by state. */
  readonly states: Readonly<Record<string, number>>;
  readonly openBatches: number;
  /** Next nonce by relayer key, in lower case. */
  readonly nextNonces: ReadonlyMap<string, number>;
  /** Size of all tables and indexes. */
  readonly bytes: number;
}

/** Every table of a ledger that grows, or could. */
export const TABLES = [
  "payments",
  "former_ids",
  "events",
  "answers",
  "batches",
  "transactions",
  "holders",
  "relayers",
  "blocked_payers",
  "open_results",
  "settlement_budgets",
  "wallet_risks",
  "wallet_runs",
] as const;

type Table = (typeof TABLES)[number];

/** Counts the rows of a ledger. */
export async function readLedgerRows(url: string, schema: string): Promise<LedgerRows> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    const s = pg.escapeIdentifier(schema);
    const number = async (text: string): Promise<number> => {
      const { rows } = await client.query<{ readonly n: string }>(text);
      return Number(rows[0]?.n ?? 0);
    };
    const counts: [Table, number][] = [];
    for (const table of TABLES) counts.push([table, await number(`select count(*) as n from ${s}.${table}`)]);
    const states = await client.query<{ readonly state: string; readonly n: string }>(
      `select state, count(*) as n from ${s}.payments group by state`,
    );
    const relayers = await client.query<{ readonly address: string; readonly next_nonce: string }>(
      `select address, next_nonce from ${s}.relayers`,
    );
    return {
      rows: Object.fromEntries(counts) as Record<Table, number>,
      states: Object.fromEntries(states.rows.map(({ state, n }) => [state, Number(n)])),
      openBatches: await number(`select count(*) as n from ${s}.batches where state = 'open'`),
      nextNonces: new Map(relayers.rows.map(({ address, next_nonce }) => [address, Number(next_nonce)])),
      bytes: await number(
        `select sum(pg_total_relation_size(c.oid)) as n from pg_class c join pg_namespace n on n.oid = c.relnamespace
          where n.nspname = '${schema}' and c.relkind = 'r'`,
      ),
    };
  } finally {
    await client.end();
  }
}

/** What happened to one payment, in order: for a person who asks why. */
export async function paymentHistory(
  url: string,
  schema: string,
  { payer, nonce }: { readonly payer: string; readonly nonce: string },
): Promise<string[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    const s = pg.escapeIdentifier(schema);
    const { rows } = await client.query<{ readonly text: string }>(
      `select e.at::time(0) || ' ' || e.to_state || ' batch ' || coalesce(e.detail->>'batch', '-') || ' '
          || coalesce(e.detail->>'reason', '') || ' (sent again ' || p.resends || ' times)' as text
        from ${s}.events e join ${s}.payments p on p.seq = e.payment
        where p.payer = $1 and p.nonce = decode(substr($2, 3), 'hex') order by e.seq`,
      [payer.toLowerCase(), nonce],
    );
    return rows.map(({ text }) => text);
  } finally {
    await client.end();
  }
}

/** Payments that are neither settled nor over. */
export function pendingOf({ states }: LedgerRows): number {
  return (states.claimed ?? 0) + (states.signed ?? 0) + (states.submitted ?? 0);
}
